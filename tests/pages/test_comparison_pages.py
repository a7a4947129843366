"""Jobs that are found by their tags on the pages of the real service."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pages_service import Service
from playwright.sync_api import Page, expect

Visit = Callable[..., Page]


@pytest.fixture
def tagged(service: Service) -> None:
    service.submit("susan", name="tagged", tags=["baseline", "lr-0.1", "seed-1", "paper"])
    service.submit("susan", name="alike", tags=["baseline-2"])


@pytest.mark.usefixtures("tagged")
def test_the_search_finds_jobs_by_parts_of_their_tags(visit: Visit) -> None:
    page = visit("susan")
    page.get_by_test_id("search-jobs").fill("lr-0.1")
    expect(page.get_by_test_id("row-name")).to_have_text(["tagged"])
    expect(page.get_by_test_id("row-tag")).to_have_text(["#baseline", "#lr-0.1", "#seed-1"])
    page.get_by_test_id("open-card").click()
    expect(page.get_by_test_id("job-tags")).to_have_text("#baseline #lr-0.1 #seed-1 #paper")


@pytest.mark.usefixtures("tagged")
def test_the_list_is_filtered_by_the_tag_that_is_clicked(visit: Visit) -> None:
    page = visit("susan")
    expect(page.get_by_test_id("row-name")).to_have_count(2)
    page.get_by_test_id("row-tag").filter(has_text=re.compile("^#baseline$")).click()
    expect(page.get_by_test_id("row-name")).to_have_text(["tagged"])
    expect(page).to_have_url(re.compile(r"\?tag=baseline$"))
    page.get_by_test_id("row-name").click()
    page.get_by_test_id("job-tag").nth(3).click()
    expect(page.get_by_test_id("clear-tag")).to_contain_text("#paper")
    expect(page.get_by_test_id("row-name").filter(has_text="tagged")).not_to_have_count(0)
    expect(page.get_by_test_id("row-name").filter(has_text="alike")).to_have_count(0)
    page.get_by_test_id("clear-tag").click()
    expect(page.get_by_test_id("row-name").filter(has_text="alike")).not_to_have_count(0)


def test_a_tag_that_no_job_has_says_so(visit: Visit) -> None:
    page = visit("susan", "?tag=nowhere")
    page.get_by_test_id("clear-filters").click()
    expect(page.get_by_test_id("clear-tag")).to_have_count(0)
