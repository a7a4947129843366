"""The pages of a pool with two GPU types: a column, a bar and a sum for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from pools.pages_service import PERSON, Service, Windows

from springtide.scheduler import wire
from springtide.scheduler.telemetry import discover

Visit = Callable[[str, str], Page]
QUOTAS = wire.ProjectEdit(quota={"t4": 2, "a100": 1}, build_quota={"t4": 1})


@pytest.fixture(scope="module")
def two_types(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    machine = discover({"t4": 11, "a100": 5}, {"t4": 3, "a100": 1})
    service = Service(tmp_path_factory.mktemp("types"), machine, QUOTAS)
    service.start()
    yield service
    service.stop()


@pytest.fixture
def visit(windows: Windows, two_types: Service) -> Iterator[Visit]:
    def visit(name: str, path: str) -> Page:
        page = windows.open()
        page.context.add_cookies([{"name": PERSON, "value": name, "url": two_types.url}])
        page.goto(two_types.url + path)
        return page

    yield visit
    two_types.end_jobs()


def test_quotas_are_edited_for_each_type_and_sums_follow(visit: Visit, two_types: Service) -> None:
    admin = visit("admin", "admin")
    expect(admin.get_by_test_id("sum-train-a100")).to_contain_text("3 of 4 train a100 GPUs, 1 left")
    expect(admin.get_by_test_id("sum-build-t4")).to_contain_text("of 3 build t4 GPUs")
    expect(admin.get_by_label("Quota a100 of nlp", exact=True)).to_be_visible()
    admin.get_by_test_id("edit-quota-a100-nlp").fill("3")
    expect(admin.get_by_test_id("sum-train-a100")).to_contain_text("5 of 4 train a100 GPUs, 1 too many")
    expect(admin.get_by_test_id("sum-train-t4")).to_contain_text("6 of 8 train t4 GPUs, 2 left")
    admin.get_by_test_id("save-nlp").click()
    expect(admin.get_by_test_id("refusal-nlp")).to_contain_text(
        "add up to 5 a100 GPUs; the pool has 4 train a100 GPUs"
    )
    expect(admin.get_by_test_id("edit-quota-a100-nlp")).to_have_attribute("aria-invalid", "true")
    expect(admin.get_by_test_id("edit-quota-t4-nlp")).to_have_attribute("aria-invalid", "false")
    admin.get_by_test_id("edit-quota-a100-nlp").fill("2")
    admin.get_by_test_id("edit-limit-t4-nlp").fill("6")
    admin.get_by_test_id("save-nlp").click()
    expect(admin.get_by_test_id("save-nlp")).to_have_count(0)
    nlp = next(view for view in two_types.engine.pool().projects if view.name == "nlp")
    assert {name: (of.quota, of.limit) for name, of in nlp.by_type.items()} == {"t4": (2, 6), "a100": (2, None)}
    expect(admin.get_by_test_id("audit-row").first).to_contain_text("2 t4, 2 a100")


def test_a_person_has_a_build_quota_of_each_type(visit: Visit, two_types: Service) -> None:
    admin = visit("admin", "admin")
    row = admin.get_by_test_id("person-row-susan")
    admin.get_by_test_id("edit-own-a100-susan").fill("1")
    admin.get_by_test_id("save-person-susan").click()
    expect(admin.get_by_test_id("save-person-susan")).to_have_count(0)
    expect(admin.get_by_test_id("edit-own-a100-susan")).to_have_value("1")
    held = row.locator("td[data-label='build GPUs held of the quota']")
    expect(held.get_by_text("0 of 0 t4", exact=True)).to_be_visible()
    expect(held.get_by_text("0 of 1 a100", exact=True)).to_be_visible()


def test_the_pool_is_grouped_by_type_and_a_project_has_a_bar_for_each(visit: Visit, two_types: Service) -> None:
    job = two_types.submit("susan", gpus=2, gpu_types=["a100"], name="on a100")
    two_types.until(job.id, lambda found: found.state == "running")
    page = visit("susan", "pool")
    heads = page.get_by_test_id("pool-type")
    expect(heads).to_have_text(
        [
            "t4 · train · 8 GPUs",
            "a100 · train · 4 GPUs",
            "t4 · build · 3 GPUs",
            "a100 · build · 1 GPU",
        ]
    )
    expect(page.get_by_test_id("section-glance")).to_contain_text(
        "0 of 8 train t4 GPUs held, 2 of 4 train a100 GPUs"
    )
    expect(page.get_by_test_id("glance-vision-a100")).to_contain_text("a100")
    expect(page.get_by_test_id("glance-vision-t4")).to_contain_text("vision · t4")
    page = visit("susan", f"jobs/{job.id}")
    expect(page.get_by_text("1 of 2 a100 GPUs borrowed").first).to_be_visible()


def test_a_job_that_lacks_quota_of_one_type_asks_for_that_type(visit: Visit, two_types: Service) -> None:
    two_types.edit_project("nlp", quota={"a100": 1})
    two_types.submit("susan", gpus=1, gpu_types=("a100",), preemptible=False)
    job = two_types.submit("susan", gpus=1, gpu_types=("a100",), preemptible=False)
    page = visit("susan", f"jobs/{job.id}")
    page.get_by_test_id("request-ask").filter(has_text="Ask for a quota of 2 a100 GPUs for vision…").click()
    expect(page.get_by_test_id("request-gpus-a100")).to_have_value("2")
    expect(page.get_by_test_id("request-gpus-t4")).to_have_value("")
