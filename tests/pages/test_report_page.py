"""The page of the report: periods, rows, charts and files of what was held."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect
from pools.pages_service import Service

from springtide.scheduler.wire import report_words

Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def held(shared_service: Service) -> None:
    """Jobs of susan's within the quota of 2 GPUs and beyond it, and one of jemma's; the ledger keeps them."""
    for user, gpus in (("susan", 2), ("susan", 1), ("jemma", 1)):
        job = shared_service.submit(user, gpus=gpus)
        shared_service.until(job.id, lambda job: job.state == "running")


JANUARY = "report?start=2020-01-01&end=2020-01-10"
YOUNG = {"gpu_hours_held": 0.4, "gpu_hours_borrowed": 0.1, "gpu_hours_quota": 0.3, "gpu_hours_lent": 0.02}


def held_on(page: Page, days: list[str], project: str = "vision") -> Page:
    """The page of January with a project that held a part of a GPU-hour on each of these days."""

    def answer(route: Route) -> None:
        report = route.fetch().json()
        report["rows"] = [
            report["total"] | YOUNG | {"by": {name: day if name == "day" else project for name in report["by"]}}
            for day in days
        ]
        report["columns"] = [{"name": "gpu_hours_lent", "title": "lent h", "hint": ""}]
        report["numbers"] = [{"title": "GPU-hours held", "text": "0.92"}]
        route.fulfill(json=report)

    page.route("**/api/v1/report?*", answer)
    page.reload()
    return ready(page)


def ready(page: Page) -> Page:
    expect(page.locator("#page:not([aria-busy])")).to_be_visible()
    return page


@pytest.mark.usefixtures("held")
def test_admins_see_projects_with_their_bars_tide_and_total(visit: Visit) -> None:
    page = ready(visit("admin", "report"))
    rows = page.get_by_test_id("report-row")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="vision").locator("[data-label=jobs]")).to_have_text("2")
    expect(page.get_by_test_id("report-total").locator("[data-label=people]")).to_have_text("2")
    expect(page.get_by_test_id("report-notable")).to_contain_text("1 project with a quota held nothing: “nlp”.")
    expect(page.get_by_test_id("simulated")).to_be_visible()
    expect(page.get_by_role("img", name="Mean number of GPUs held")).to_be_visible()
    expect(page.get_by_test_id("report-bars").get_by_role("img")).to_have_count(2)


@pytest.mark.usefixtures("held")
def test_others_see_their_own_and_no_quotas(visit: Visit) -> None:
    page = ready(visit("susan", "report"))
    expect(page.get_by_test_id("report-row")).to_have_count(1)
    expect(page.get_by_test_id("report-table").get_by_text("quota h")).to_have_count(0)
    expect(page.get_by_test_id("report-bars")).not_to_contain_text("quota")


@pytest.mark.usefixtures("held")
def test_rows_and_period_are_chosen_and_stay_in_the_address(visit: Visit) -> None:
    page = ready(visit("admin", "report"))
    page.get_by_test_id("report-by").select_option("person")
    page.get_by_test_id("report-then").select_option("kind")
    expect(page.get_by_test_id("report-row")).to_have_count(2)
    expect(page.get_by_test_id("report-table")).to_contain_text("training")
    page.get_by_test_id("report-period").select_option("own")
    page.get_by_test_id("report-start").fill("2020-01-01")
    page.get_by_test_id("report-end").fill("2020-01-31")
    expect(page.get_by_test_id("empty")).to_contain_text("No GPU-hours that you may see")
    page.reload()
    expect(page.get_by_test_id("report-span")).to_contain_text("From 2020-01-01 to 2020-01-31, in UTC.")
    expect(page.get_by_test_id("report-by")).to_have_value("person")
    expect(page.get_by_test_id("report-then")).to_have_value("kind")


@pytest.mark.usefixtures("held")
def test_a_period_that_ends_before_it_starts_is_refused_in_words(visit: Visit) -> None:
    page = visit("admin", "report?period=own&start=2026-02-01&end=2026-01-01")
    expect(page.get_by_test_id("message")).to_contain_text("before it starts")


@pytest.mark.usefixtures("held")
def test_the_report_is_downloaded_as_it_is_shown(visit: Visit, tmp_path: Path) -> None:
    page = ready(visit("admin", "report?by=project,person"))
    files = {}
    for ending in ("csv", "json"):
        with page.expect_download() as download:
            page.get_by_test_id(f"report-{ending}").click()
        files[ending] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[ending])
        assert files[ending].suffix == f".{ending}"
    rows = list(csv.DictReader(files["csv"].open()))
    assert {(row["project"], row["person"]) for row in rows} == {("vision", "susan"), ("speech", "jemma")}
    assert json.loads(files["json"].read_text())["by"] == ["project", "person"]


@pytest.mark.usefixtures("held")
def test_paper_has_the_report_alone(visit: Visit) -> None:
    page = ready(visit("admin", "report"))
    page.emulate_media(media="print")
    expect(page.get_by_test_id("report-table")).to_be_visible()
    expect(page.get_by_test_id("report-csv")).to_be_hidden()
    expect(page.get_by_role("navigation")).to_be_hidden()


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("width", [1000, 1440, 1920])
def test_nothing_is_wider_than_the_window(visit: Visit, width: int) -> None:
    page = ready(visit("admin", "report"))
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_names_and_numbers_of_two_columns_are_whole_in_a_small_window(visit: Visit) -> None:
    page = held_on(visit("admin", f"{JANUARY}&by=project,day"), ["2020-01-10"], project="engineering")
    page.set_viewport_size({"width": 1000, "height": 900})
    table = page.get_by_test_id("report-table")
    expect(table).to_contain_text("engineering")
    frame = table.locator("xpath=..")
    assert frame.evaluate("(frame) => frame.scrollWidth <= frame.clientWidth")
    lines = "(cell) => { const of = new Range(); of.selectNodeContents(cell); return of.getClientRects().length; }"
    assert page.get_by_test_id("report-row").locator("th").first.evaluate(lines) == 1


@pytest.mark.usefixtures("held")
def test_the_total_stands_under_the_columns_of_the_rows_in_a_narrow_window(visit: Visit) -> None:
    page = ready(visit("admin", "report"))
    page.set_viewport_size({"width": 400, "height": 900})
    places = "(row) => [...row.cells].map((cell) => Math.round(cell.getBoundingClientRect().left))"
    row = page.get_by_test_id("report-row").first
    total = page.get_by_test_id("report-total")
    assert total.evaluate(places) == row.evaluate(places)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_what_belongs_to_no_project_has_a_bar_and_says_that_workspaces_held_it(visit: Visit) -> None:
    page = held_on(visit("admin", JANUARY), ["2020-01-10"], project="")
    bars = page.get_by_test_id("report-bars")
    expect(bars).to_contain_text("no project (workspaces)")
    expect(bars.get_by_role("img")).to_have_count(1)
    expect(page.get_by_test_id("section-tide")).to_contain_text("no project (workspaces)")


@pytest.mark.usefixtures("held")
def test_an_address_with_days_as_the_api_names_them_shows_these(visit: Visit) -> None:
    page = ready(visit("admin", f"{JANUARY}&by=person"))
    expect(page.get_by_test_id("report-span")).to_contain_text("From 2020-01-01 to 2020-01-10, in UTC.")
    expect(page.get_by_test_id("report-period")).to_have_value("own")
    expect(page.get_by_test_id("report-end")).to_have_value("2020-01-10")
    expect(page.get_by_test_id("report-by")).to_have_value("person")


def test_sums_below_ten_keep_two_significant_digits(visit: Visit) -> None:
    page = held_on(visit("admin", JANUARY), ["2020-01-10"])
    expect(page.get_by_test_id("report-numbers")).to_contain_text("0.92")
    bars = page.get_by_test_id("report-bars")
    expect(bars).to_contain_text("0.4 held · 0.1 borrowed · 0.02 lent · quota 0.3")
    expect(page.get_by_test_id("report-row").locator("[data-label='lent h']")).to_have_text("0.02")
    parts = "(bar) => ['.st-solid', '.st-hatched'].map((part) => bar.querySelector(part).style.width)"
    own, borrowed = (float(width.rstrip("%")) for width in bars.get_by_role("img").evaluate(parts))
    assert (round(own), round(borrowed)) == (75, 25)


def test_small_numbers_of_the_table_are_written_as_the_command_writes_them(visit: Visit) -> None:
    values = [0, 0.00004, 0.0051, 0.04, 0.114, 0.3, 1.005, 1.15622, 1.999, 3.14159, 12, 1643.84]
    page = visit("admin", JANUARY)

    def answer(route: Route) -> None:
        report = route.fetch().json()
        report["columns"] = [
            {"name": name, "title": name, "hint": ""} for name in ("gpu_hours_lent", "cost", "wait_p50_s")
        ]
        report["rows"] = [
            report["total"]
            | {"by": {"project": "vision"}, "gpu_hours_lent": value, "cost": value, "wait_p50_s": value}
            for value in values
        ]
        route.fulfill(json=report)

    page.route("**/api/v1/report?*", answer)
    page.reload()
    ready(page)
    for name in ("gpu_hours_lent", "cost", "wait_p50_s"):
        shown = page.get_by_test_id("report-row").locator(f"[data-label='{name}']").all_text_contents()
        assert shown == [report_words.cell(name, value) for value in values]
    assert [report_words.cell("gpu_hours_lent", value) for value in (0.114, 0.93)] == ["0.11", "0.93"]


@pytest.mark.parametrize(
    ("days", "marks"),
    [
        (["2020-01-10"], ["2020-01-10"]),
        (["2020-01-09", "2020-01-10"], ["2020-01-09", "2020-01-10"]),
        (["2020-01-01"], ["2020-01-01", "2020-01-06", "2020-01-10"]),
    ],
)
def test_the_tide_has_days_of_the_period_once_and_its_bands_fill_it(
    visit: Visit, days: list[str], marks: list[str]
) -> None:
    page = held_on(visit("admin", JANUARY), days)
    tide = page.get_by_test_id("section-tide")
    expect(tide.locator(".st-tide-times span")).to_have_text(marks)
    heights = """(svg) => svg.querySelector("g").getBBox().height / svg.viewBox.baseVal.height"""
    assert tide.locator("svg").first.evaluate(heights) > 0.9
    levels = tide.locator(".st-tide-scale span").all_text_contents()
    assert len(set(levels)) > 2
    assert max(float(level) for level in levels) <= 0.4 / 24
