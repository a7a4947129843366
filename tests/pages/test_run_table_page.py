"""My jobs as a table of runs: columns, conditions, groups, marks and the export."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect
from pools.pages_service import Service

from springtide.scheduler import wire
from springtide.scheduler.engine import JobFilter

Visit = Callable[..., Page]


@pytest.fixture
def runs(service: Service) -> dict[str, wire.Job]:
    """Three ended runs; those of other tests are archived."""
    for job in service.run(service.engine.jobs(JobFilter(user="susan"), None, 200)).items:
        service.run(service.engine.tags.mark(job.id, wire.MarksEdit(archived=True, pinned=False), "susan"))
    rates = {"slow": "0.01", "middle": "0.1", "fast": "1"}
    found = {}
    for name, rate in rates.items():
        found[name] = service.submit("susan", "true", f"--lr={rate}", "--opt", "adam", name=name)
    for job in found.values():
        service.until(job.id, lambda job: job.state == "succeeded")
    return found


def shown(page: Page) -> list[str]:
    return page.get_by_test_id("row-name").all_inner_texts()


def open_ended(visit: Visit) -> Page:
    page = visit("susan")
    page.get_by_test_id("filter-ended").click()
    expect(page.get_by_test_id("job-row")).to_have_count(3)
    return page


def test_runs_are_sorted_and_found_by_their_arguments(visit: Visit, service: Service, runs: object) -> None:
    page = open_ended(visit)
    expect(page.locator("th[data-column='argument.lr']")).to_be_visible()
    expect(page.locator("th[data-column='argument.opt']")).to_have_count(0)
    page.get_by_test_id("sort-argument.lr").click()
    expect(page.locator("th[data-column='argument.lr']")).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_test_id("row-name").first).to_have_text("slow")
    page.get_by_test_id("sort-argument.lr").click()
    expect(page.get_by_test_id("row-name").first).to_have_text("fast")
    page.get_by_test_id("search-jobs").fill("lr > 0.05 and not name = fast")
    expect(page.get_by_test_id("job-row")).to_have_count(1)
    assert shown(page) == ["middle"]
    page.get_by_test_id("search-jobs").fill("lr in (0.0001, 7)")
    expect(page.get_by_test_id("search-refused")).to_be_hidden()
    page.get_by_test_id("search-jobs").fill("lr > ")
    refused = page.get_by_test_id("search-refused")
    expect(refused).to_contain_text("The condition ends too early: expected a value after")


def test_a_refused_condition_is_an_error_at_its_field_and_says_whose_rows_stay(visit: Visit, runs: object) -> None:
    page = open_ended(visit)
    field, refused = page.get_by_test_id("search-jobs"), page.get_by_test_id("search-refused")
    field.fill("lr > 0.5")
    expect(page.get_by_test_id("job-row")).to_have_count(1)
    expect(field).not_to_have_attribute("aria-invalid", "true")
    field.fill("nope > 1")
    expect(refused).to_contain_text("“nope” is no column, and no argument or metric")
    expect(refused).to_contain_text("The rows below are still those of “lr > 0.5”.")
    assert re.search(r"[.!?] The rows below", refused.inner_text())
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_attribute("aria-describedby", str(refused.get_attribute("id")))
    expect(page.get_by_test_id("job-row")).to_have_css("opacity", "0.55")
    expect(page.get_by_test_id("export-jobs")).to_be_disabled()
    expect(page.locator("#message")).to_be_empty()
    field.fill("lr > many")
    expect(refused).to_contain_text("“lr” is compared with a number, or a text in quotes, not with “many”")
    field.fill("lr > 'many'")
    expect(refused).to_contain_text("“lr” is a number in all jobs looked at")
    field.fill("lr < 0.5")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    expect(refused).to_have_count(0)
    expect(field).not_to_have_attribute("aria-invalid", "true")
    expect(page.get_by_test_id("job-row").first).to_have_css("opacity", "1")


def reported(job: dict[str, Any]) -> None:
    """Give a job arguments and metrics by many names, some of them those of columns."""
    job["arguments"] = {f"a_long_argument_{number}": f"{job['name']} {number}" for number in range(3)}
    job["progress"] |= {"step": 3, "of": 4, "values": {"state": 3, "reason": 0.5}, "best": {}}


@pytest.mark.parametrize("width", [1000, 1280, 1366, 1600])
def test_as_many_columns_show_by_themselves_as_leave_the_reason_in_sight(
    visit: Visit, runs: object, width: int
) -> None:
    page = open_ended(visit)

    def answer(route: Route) -> None:
        jobs = route.fetch().json()
        for job in jobs["items"]:
            reported(job)
        route.fulfill(json=jobs)

    page.route(re.compile(r"/api/v1/jobs\?"), answer)
    page.set_viewport_size({"width": width, "height": 800})
    page.get_by_test_id("filter-all").click()
    expect(page.locator("td[data-label='progress']").first).to_have_text("75 %")
    frame = page.locator(".st-wide-table")
    page.wait_for_function("(frame) => frame.scrollWidth <= frame.clientWidth", arg=frame.element_handle())
    reason = page.get_by_test_id("row-reason").first.bounding_box()
    fold = page.get_by_test_id("open-card").first.bounding_box()
    assert reason is not None
    assert fold is not None
    assert reason["width"] >= 120
    expect(page.locator("th[data-column='argument.a_long_argument_0']")).to_be_visible()
    expect(frame).not_to_have_attribute("data-beyond", "")
    assert reason["x"] + reason["width"] <= fold["x"]
    whole = page.get_by_test_id("row-reason").first
    whole.focus()
    expect(page.get_by_role("tooltip")).to_have_text(whole.get_attribute("data-tip") or "none")
    expect(whole).to_have_accessible_name(whole.get_attribute("data-tip") or "none")
    whole.press("Escape")
    expect(page.get_by_role("tooltip")).to_have_count(0)
    page.get_by_text("Columns", exact=True).click()
    arguments = [f"argument.a_long_argument_{at}" for at in range(3)]
    for key in ("submitted", "started", "note", "best.state", *arguments):
        page.get_by_test_id(f"column-{key}").set_checked(True)
    page.keyboard.press("Escape")
    expect(frame).to_have_attribute("data-beyond", "")
    frame.evaluate("(frame) => { frame.scrollLeft = frame.scrollWidth; }")
    expect(frame).not_to_have_attribute("data-beyond", "")
    page.get_by_test_id("columns-usual").click()
    expect(page.locator("th[data-column='note']")).to_have_count(0)


def test_a_metric_that_is_called_like_a_column_says_so(visit: Visit, runs: object) -> None:
    page = open_ended(visit)

    def answer(route: Route) -> None:
        jobs = route.fetch().json()
        for job in jobs["items"]:
            job["progress"] |= {"values": {"state": 3}}
        route.fulfill(json=jobs)

    page.route(re.compile(r"/api/v1/jobs\?"), answer)
    page.set_viewport_size({"width": 1600, "height": 800})
    page.get_by_test_id("filter-all").click()
    expect(page.locator("th[data-column='last.state']")).to_have_text("state (metric)")
    expect(page.locator("th[data-column='state']")).to_contain_text(re.compile(r"^state(?! \()"))


def test_dates_of_a_search_are_in_the_time_zone_of_the_browser(visit: Visit, runs: object) -> None:
    page = open_ended(visit)
    zone = {"timezoneId": "Pacific/Kiritimati"}
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", zone)
    page.reload()
    expect(page.get_by_test_id("job-row").first).to_be_visible()
    with page.expect_request(re.compile("where=.*zone=")) as asked:
        page.get_by_test_id("search-jobs").fill("submitted > 2026-01-01")
    assert parse_qs(urlsplit(asked.value.url).query)["zone"] == ["Pacific/Kiritimati"]
    expect(page.get_by_test_id("search-refused")).to_have_count(0)
    page.get_by_test_id("search-jobs").fill("best.typo < 1")
    expect(page.get_by_test_id("absent")).to_contain_text("jobs looked at has the metric “typo”.")
    page.get_by_test_id("search-jobs").fill("")
    expect(page.get_by_test_id("absent")).to_have_count(0)


def test_the_order_by_time_is_that_of_the_times_shown(
    visit: Visit, service: Service, runs: dict[str, wire.Job]
) -> None:
    ended = [service.run(service.engine.job(job.id)) for job in runs.values()]
    latest = [job.name for job in sorted(ended, key=lambda job: job.ended or 0.0, reverse=True)]
    old = service.submit("susan", name="old")
    new = service.submit("susan", "true", name="new")
    service.until(new.id, lambda job: job.state == "succeeded")
    service.run(service.engine.cancel(old.id, "susan"))
    service.until(old.id, lambda job: job.state == "cancelled")
    page = visit("susan")
    page.get_by_test_id("filter-all").click()
    page.get_by_test_id("sort-time").click()
    expect(page.get_by_test_id("row-name")).to_have_text(["old", "new", *latest])
    running = service.submit("susan", name="running")
    service.until(running.id, lambda job: job.state == "running")
    expect(page.get_by_test_id("row-name").first).to_have_text("running")
    page.get_by_test_id("sort-time").click()
    expect(page.get_by_test_id("row-name")).to_have_text([*reversed(latest), "new", "old", "running"])
    page.get_by_test_id("search-jobs").fill("not name = middle")
    latest.remove("middle")
    expect(page.get_by_test_id("row-name")).to_have_text([*reversed(latest), "new", "old", "running"])


def test_ended_jobs_are_sorted_by_the_state_that_shows(
    visit: Visit, service: Service, runs: dict[str, wire.Job]
) -> None:
    failed = service.submit("susan", "false", name="failed")
    service.until(failed.id, lambda job: job.state == "failed")
    cancelled = service.submit("susan", name="cancelled")
    service.run(service.engine.cancel(cancelled.id, "susan"))
    service.until(cancelled.id, lambda job: job.state == "cancelled")
    last = service.submit("susan", "true", name="last")
    service.until(last.id, lambda job: job.state == "succeeded")
    page = visit("susan")
    page.get_by_test_id("filter-ended").click()
    head = page.locator("th[data-column='state']")
    expect(head).to_have_attribute("aria-sort", "none")
    page.get_by_test_id("sort-state").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    states = ["succeeded"] * 4 + ["failed", "cancelled"]
    expect_states(page, states)
    page.get_by_test_id("sort-state").click()
    expect_states(page, states[::-1])


def expect_states(page: Page, states: Sequence[str]) -> None:
    rows = page.get_by_test_id("job-row")
    expect(rows).to_have_count(len(states))
    for at, state in enumerate(states):
        expect(rows.nth(at)).to_have_attribute("data-state", state)


def test_the_button_of_the_column_chooser_stays_in_its_place(visit: Visit, runs: object) -> None:
    page = open_ended(visit)
    button = page.get_by_test_id("columns").locator("summary")
    before = button.bounding_box()
    button.click()
    expect(page.get_by_test_id("column-forked from")).to_be_visible()
    assert button.bounding_box() == before
    box = page.get_by_test_id("job-list").bounding_box()
    assert before
    assert box
    assert before["x"] > box["x"] + box["width"] / 2


def test_columns_are_chosen_and_kept(visit: Visit, runs: object) -> None:
    page = open_ended(visit)
    page.get_by_test_id("columns").locator("summary").click()
    page.get_by_test_id("column-argument.opt").check()
    page.get_by_test_id("column-duration").uncheck()
    expect(page.locator("td[data-column='argument.opt']").first).to_have_text("adam")
    page.reload()
    expect(page.locator("th[data-column='argument.opt']")).to_be_visible()
    expect(page.locator("th[data-column='duration']")).to_have_count(0)
    page.get_by_test_id("columns").locator("summary").click()
    page.get_by_test_id("columns-usual").click()
    expect(page.locator("th[data-column='argument.opt']")).to_have_count(0)


def test_runs_are_pinned_archived_tagged_and_noted_with_undo(
    visit: Visit, service: Service, runs: dict[str, wire.Job]
) -> None:
    page = open_ended(visit)

    def select(*names: str) -> None:
        for name in runs:
            page.get_by_role("checkbox", name=f"Select {name}", exact=True).set_checked(name in names)

    select("slow")
    page.get_by_test_id("selected-pin").click()
    expect(page.get_by_test_id("job-group").first).to_contain_text("Pinned · 1")
    expect(page.get_by_test_id("job-group").last).to_contain_text("Others · 2")
    expect(page.get_by_test_id("row-name").first).to_have_text("slow")
    page.get_by_test_id("filter-active").click()
    expect(page.get_by_test_id("row-name")).to_have_text(["slow"])
    page.get_by_test_id("filter-ended").click()
    expect(page.get_by_test_id("job-row")).to_have_count(3)
    select("slow")
    page.get_by_test_id("selected-unpin").click()
    expect(page.get_by_test_id("job-group")).to_have_count(0)

    select("fast")
    page.get_by_test_id("selected-archive").click()
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    page.get_by_test_id("selected-undo").click()
    expect(page.get_by_test_id("job-row")).to_have_count(3)

    select("fast", "slow")
    page.get_by_test_id("selected-tag").click()
    page.get_by_test_id("selection-text").fill("best, keep")
    page.get_by_test_id("selection-save").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Tagged 2 jobs.")
    assert service.run(service.engine.job(runs["fast"].id)).options.tags == ("best", "keep")
    expect(page.get_by_test_id("selection")).to_contain_text("2 jobs selected")
    page.get_by_test_id("selected-undo").click()
    service.until(runs["fast"].id, lambda job: job.options.tags == ())

    select("middle")
    page.get_by_test_id("selected-note").click()
    page.get_by_test_id("selection-text").fill("the best start")
    page.keyboard.press("Enter")
    service.until(runs["middle"].id, lambda job: job.note == "the best start")


@pytest.mark.parametrize("action", ["note", "tag"])
def test_a_text_that_is_half_typed_is_there_again_after_a_reload_until_it_is_sent_or_closed(
    visit: Visit, service: Service, runs: dict[str, wire.Job], action: str
) -> None:
    page = open_ended(visit)
    field = page.get_by_test_id("selection-text")

    def open_field(name: str) -> None:
        page.reload()
        page.locator(f"[data-job='{runs[name].id}']").get_by_test_id("select-job").check()
        page.get_by_test_id(f"selected-{action}").click()

    open_field("middle")
    field.press_sequentially("half typ")
    open_field("fast")
    expect(field).to_have_value("")
    open_field("middle")
    expect(field).to_have_value("half typ")
    field.press_sequentially("ed")
    page.get_by_test_id("selection-save").click()
    expect(page.get_by_test_id("selection-result")).to_be_visible()
    open_field("middle")
    expect(field).to_have_value("half typed" if action == "note" else "")
    field.press_sequentially(" and left")
    page.get_by_test_id("selected-close").click()
    open_field("middle")
    expect(field).to_have_value("half typed" if action == "note" else "")


def test_a_selection_outlives_order_filters_and_pages_and_acts_on_shown_rows_alone(
    visit: Visit, service: Service, runs: dict[str, wire.Job]
) -> None:
    page = open_ended(visit)
    bar, hidden = page.get_by_test_id("selection"), page.get_by_test_id("selected-hidden")
    page.get_by_test_id("select-all").check()
    page.get_by_test_id("sort-argument.lr").click()
    expect(page.get_by_test_id("row-name").first).to_have_text("slow")
    expect(bar).to_contain_text("3 jobs selected")
    expect(hidden).to_have_count(0)
    page.get_by_test_id("search-jobs").fill("lr < 0.5")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    expect(bar).to_contain_text("3 jobs selected")
    expect(hidden).to_contain_text("1 of them not in this list: nothing is done to it.")
    page.get_by_test_id("selected-tag").click()
    page.get_by_test_id("selection-text").fill("kept")
    page.get_by_test_id("selection-save").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Tagged 2 jobs.")
    assert service.run(service.engine.job(runs["fast"].id)).options.tags == ()
    page.get_by_test_id("search-jobs").fill("lr > 50")
    expect(page.get_by_test_id("job-row")).to_have_count(0)
    expect(hidden).to_contain_text("3 of them not in this list: nothing is done to them.")
    expect(page.get_by_test_id("selected-delete")).to_have_count(0)
    page.get_by_test_id("search-jobs").fill("lr > 0.05")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    service.run(service.engine.deletions.delete(runs["slow"].id, "susan"))
    expect(bar).to_contain_text("2 jobs selected")
    expect(hidden).to_have_count(0)
    page.get_by_test_id("search-jobs").fill("lr > 0.5")
    expect(hidden).to_contain_text("1 of them")
    page.get_by_test_id("selected-deselect-hidden").click()
    expect(bar).to_contain_text("1 job selected")


def test_ended_runs_are_deleted_after_a_question_and_leave_other_tabs(
    visit: Visit, service: Service, runs: dict[str, wire.Job]
) -> None:
    other, page = open_ended(visit), open_ended(visit)
    page.get_by_role("checkbox", name="slow").check()
    page.get_by_role("checkbox", name="fast").check()
    page.get_by_test_id("selected-delete").click()
    bar = page.get_by_test_id("selection")
    expect(bar.get_by_text("Delete 2 jobs with")).to_contain_text("of files? This cannot be undone.")
    page.get_by_test_id("selected-keep").click()
    expect(page.get_by_test_id("job-row")).to_have_count(3)
    page.get_by_test_id("selected-delete").click()
    page.get_by_test_id("selected-delete-now").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Deleted 2 jobs.")
    expect(page.get_by_test_id("selection")).not_to_contain_text("selected")
    for tab in (page, other):
        expect(tab.get_by_test_id("row-name")).to_have_text(["middle"])
    mine = service.run(service.engine.jobs(JobFilter(user="susan", archived=False), None, 200)).items
    assert [job.id for job in mine] == [runs["middle"].id]


def test_a_question_about_several_runs_follows_what_is_done_elsewhere(
    visit: Visit, service: Service, runs: dict[str, wire.Job]
) -> None:
    page = open_ended(visit)
    page.get_by_test_id("select-all").check()
    page.get_by_test_id("selected-delete").click()
    bar = page.get_by_test_id("selection")
    expect(bar).to_contain_text("3 jobs selected")
    expect(bar.get_by_role("alert")).to_contain_text("Delete 3 jobs with")
    service.run(service.engine.deletions.delete(runs["slow"].id, "susan"))
    expect(bar).to_contain_text("2 jobs selected")
    expect(bar.get_by_role("alert")).to_contain_text("Delete 2 jobs with")
    expect(bar.get_by_test_id("selected-delete-now")).to_have_text("Delete 2 jobs")
    problem = {"status": 404, "code": "not_found", "message": "There is no job “6jry6fdd78jt”."}
    refused = [{"id": runs[name].id, "problem": problem} for name in ("fast", "middle")]
    page.route("**/api/v1/jobs/actions", lambda route: route.fulfill(json={"results": refused}))
    page.get_by_test_id("selected-delete-now").click()
    expect(page.get_by_test_id("selection-result")).to_have_text(
        re.compile(r"^2 jobs not: (middle and fast|fast and middle): There is no such job any more\. $")
    )
    expect(page.get_by_test_id("job-row")).to_have_count(0)


def test_a_job_is_deleted_on_its_page_after_a_question_with_its_size(
    visit: Visit, runs: dict[str, wire.Job]
) -> None:
    path = f"jobs/{runs['middle'].id}"
    other, page = visit("susan", path), visit("susan", path)
    page.get_by_test_id("job-delete").click()
    expect(page.get_by_text("Delete “middle” with")).to_contain_text("of files? This cannot be undone.")
    page.get_by_test_id("job-keep").click()
    page.get_by_test_id("job-delete").click()
    page.get_by_test_id("job-delete-now").click()
    for tab in (page, other):
        expect(tab.get_by_text("The job was deleted.")).to_be_visible()
    page.reload()
    expect(page.locator("h1")).to_have_text("Deleted")


def test_the_list_is_downloaded_as_csv(visit: Visit, runs: object) -> None:
    page = open_ended(visit)
    page.get_by_test_id("search-jobs").fill("lr > 0.05")
    expect(page.get_by_test_id("job-row")).to_have_count(2)
    with page.expect_download() as started:
        page.get_by_test_id("export-jobs").click()
    head, *rows = started.value.path().read_text().splitlines()
    assert head.endswith("argument.lr,argument.opt")
    assert len(rows) == 2


def test_runs_are_grouped_and_sent_again(visit: Visit, runs: object) -> None:
    page = open_ended(visit)
    page.get_by_test_id("filter-group").select_option("state")
    expect(page.get_by_test_id("job-group")).to_have_text(["Succeeded · 3"])
    page.get_by_role("checkbox", name="Select fast", exact=True).check()
    page.get_by_test_id("selected-rerun").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Submitted again 1 job.")


def test_arguments_are_edited_before_a_run_again(
    visit: Visit, service: Service, runs: dict[str, wire.Job]
) -> None:
    page = visit("susan", f"jobs/{runs['slow'].id}")
    expect(page.get_by_test_id("job-arguments")).to_have_text("lr 0.01 · opt adam")
    expect(page.get_by_test_id("arguments")).to_contain_text("adam")
    page.get_by_test_id("job-edit").click()
    fields = page.get_by_test_id("rerun-arguments")
    fields.get_by_label("lr").fill("0.02")
    expect(page.get_by_test_id("rerun-notice")).to_have_text("1 argument changed")
    page.get_by_test_id("rerun-send").click()
    expect(page.get_by_test_id("job-first")).to_contain_text("lr 0.01 → 0.02")
    expect(page.get_by_test_id("job-arguments")).to_have_text("lr 0.02 · opt adam")
