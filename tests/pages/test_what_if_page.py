"""The page What if: another pool in the past, by sliders; what admins and leads see, and how it is cancelled."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from browsers.axe import THEMES, show_theme, violations
from playwright.sync_api import Page, Route, expect
from pools.pages_service import Service

Visit = Callable[..., Page]
CUT_CHOICES = """() => {
    const cut = (select) => {
        const style = getComputedStyle(select);
        const pen = new OffscreenCanvas(1, 1).getContext("2d");
        pen.font = style.font;
        const width = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        return pen.measureText(select.selectedOptions[0].text).width > width;
    };
    return [...document.querySelectorAll("[data-testid=group-rules] select")]
        .filter(cut)
        .map((select) => select.selectedOptions[0].text);
}"""
"""The texts of the rules that their fields cut off."""


@pytest.fixture(scope="module")
def held(shared_service: Service) -> None:
    """Jobs of susan's in vision, and one of jemma's in speech."""
    for user, gpus in (("susan", 2), ("susan", 1), ("jemma", 1)):
        job = shared_service.submit(user, gpus=gpus)
        shared_service.until(job.id, lambda job: job.state == "running")


def answered(page: Page) -> Page:
    expect(page.get_by_test_id("comparison")).to_be_visible()
    return page


@pytest.mark.usefixtures("held")
def test_more_nodes_are_asked_about_by_a_slider_and_answered_in_a_sentence(visit: Visit) -> None:
    page = answered(visit("admin", "what-if"))
    expect(page.get_by_test_id("headline")).to_have_text("Nothing would have been different.")
    nodes = page.get_by_label(re.compile("^Nodes of simulated, 8 GPUs each$"))
    nodes.focus()
    nodes.press("ArrowRight")
    nodes.press("ArrowRight")
    expect(page.get_by_test_id("comparison")).to_contain_text("2 more nodes of")
    expect(page.get_by_test_id("comparison")).to_contain_text("Both pools are calculated from the recorded jobs.")
    expect(page.get_by_test_id("headline")).to_contain_text(re.compile("^2 more nodes of simulated: "))
    expect(page.get_by_test_id("totals").locator("dd").filter(has_text="→").first).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="vision")).to_be_visible()
    page.get_by_test_id("reset").click()
    expect(page.get_by_test_id("headline")).to_have_text("Nothing would have been different.")


@pytest.mark.usefixtures("held")
def test_the_record_unfolds_beside_the_pool_as_it_was_and_what_differs_is_said(visit: Visit) -> None:
    def differing(route: Route) -> None:
        answer = route.fetch()
        run = answer.json()
        if run.get("comparison"):
            run["comparison"]["deviation"] = "GPU-hours of “vision” 5.13 instead of 4.03."
            run["comparison"]["recorded"]["projects"]["vision"]["gpu_hours"] = 4.03
            run["comparison"]["unchanged"]["projects"]["vision"]["gpu_hours"] = 5.13
        route.fulfill(response=answer, json=run)

    page = visit("admin", "what-if")
    page.route("**/api/v1/history/what-if**", differing)
    page.reload()
    answered(page)
    expect(page.get_by_test_id("deviation")).to_have_text("GPU-hours of “vision” 5.13 instead of 4.03.")
    page.get_by_text("The record, and the pool as it was, simulated").click()
    row = page.get_by_test_id("recorded").get_by_role("row").filter(has_text="vision")
    expect(row).to_contain_text("4 → 5.1")


@pytest.mark.usefixtures("held")
def test_that_budgets_kept_jobs_waiting_is_said_above_the_figures(visit: Visit, service: Service) -> None:
    spent = {"month": time.strftime("%Y-%m", time.gmtime()), "spent": 12.0, "amount": 10.0}
    service.run(service.engine.record("springtide", "budget.spent", "vision", {}, spent))
    page = visit("admin", "what-if")
    answered(page)
    expect(page.get_by_test_id("caveat")).to_contain_text("budgets keep no other job waiting here")
    expect(page.get_by_test_id("notes")).not_to_contain_text("budgets keep no other job")


@pytest.mark.usefixtures("held")
def test_costs_name_their_currency(visit: Visit) -> None:
    def priced(route: Route) -> None:
        answer = route.fetch()
        run = answer.json()
        if run.get("comparison"):
            run["comparison"]["currency"] = "CHF"
            for which in ("unchanged", "changed"):
                run["comparison"][which]["total"]["cost"] = 0.16
        route.fulfill(response=answer, json=run)

    page = visit("admin", "what-if")
    page.route("**/api/v1/history/what-if**", priced)
    page.reload()
    answered(page)
    expect(page.get_by_role("columnheader").last).to_have_text("cost, CHF")
    expect(page.get_by_test_id("totals")).to_contain_text("0.16")


@pytest.mark.usefixtures("held")
def test_the_page_says_how_much_history_a_young_pool_has(visit: Visit) -> None:
    page = answered(visit("admin", "what-if"))
    expect(page.get_by_test_id("young")).to_have_text("The pool has less than a day of history.")


@pytest.mark.usefixtures("held")
def test_the_present_is_forecast_without_the_controls_that_it_cannot_answer(visit: Visit) -> None:
    page = answered(visit("admin", "what-if"))
    page.get_by_test_id("period").select_option("now")
    expect(page.get_by_test_id("headline")).to_contain_text("With this, ")
    expect(page.get_by_test_id("group-rules")).to_have_count(0)


@pytest.mark.usefixtures("held")
def test_a_calculation_shows_how_far_it_is_and_can_be_cancelled(visit: Visit) -> None:
    page = answered(visit("admin", "what-if"))

    def running(route: Route) -> None:
        if route.request.method == "DELETE":
            route.continue_()
            return
        run = route.fetch().json()
        route.fulfill(json=run | {"state": "running", "progress": 0.4, "comparison": None})

    page.route("**/api/v1/history/what-if**", running)
    page.get_by_label("Order of jobs").select_option("first-come")
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "40")
    page.unroute("**/api/v1/history/what-if**")
    page.get_by_test_id("cancel").click()
    expect(page.get_by_test_id("cancel")).to_have_count(0)


def test_the_report_leads_there_for_those_who_administer(visit: Visit) -> None:
    visit("joe", "report").get_by_test_id("report-print").wait_for()
    expect(visit("joe", "report").get_by_test_id("what-if")).to_have_count(0)
    page = visit("admin", "report")
    page.get_by_test_id("what-if").click()
    expect(page.get_by_role("heading", name="What if", exact=True)).to_be_visible()


def test_people_who_administer_nothing_do_not_get_the_page(visit: Visit) -> None:
    page = visit("joe", "what-if")
    expect(page.get_by_text("Only administrators of the pool or of a project see this page.")).to_be_visible()


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("width", [1000, 1200, 1440, 1920])
def test_the_page_fits_and_can_be_read_by_everyone(visit: Visit, width: int, tmp_path: Path) -> None:
    page = answered(visit("admin", "what-if"))
    page.set_viewport_size({"width": width, "height": 900})
    for theme in THEMES:
        show_theme(page, theme)
        page.screenshot(path=tmp_path / f"{width}-{theme}.png", full_page=True)
        assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(CUT_CHOICES) == []
