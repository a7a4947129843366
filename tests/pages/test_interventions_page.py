"""Holding, releasing, editing and freezing on the pages, in at most three clicks each."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from browsers.axe import COLOURS, show_theme, violations
from browsers.waiting_feed import WAITING
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal

Visit = Callable[..., Page]
COUNT = """() => {
  if (window.clicks === undefined)
    document.addEventListener("click", (event) => { window.clicks += Number(event.isTrusted); }, true);
  window.clicks = 0;
}"""
WHY = "Its data may not be used."


@pytest.fixture
def pool(service: Service) -> Iterator[Service]:
    """A pool with susan as the lead of vision; nothing is frozen or has another value afterwards."""
    service.people.administers = {"lead": frozenset({"vision"})}
    yield service
    service.people.administers = {}
    frozen = {view.name for view in service.engine.pool().projects if view.freeze is not None}
    for budget in service.engine.admin({}).budgets:
        service.run(service.engine.budgets.remove(budget.project, "clean-up"))
    for name in ("vision", "nlp"):
        if name in frozen:
            service.run(service.engine.unfreeze(name, "clean-up", members={}))
        numbers = wire.ProjectEdit(quota=2, weight=1.0)
        service.run(service.engine.edit_project(name, numbers, "clean-up", members={}))


def counted(page: Page) -> Callable[[], int]:
    """Count the clicks on a page from now on."""
    page.evaluate(COUNT)
    return lambda: int(page.evaluate("window.clicks"))


def test_a_lead_holds_and_releases_a_running_job_on_its_page(visit: Visit, pool: Service) -> None:
    job = pool.submit("susan", name="suspect", gpus=1)
    pool.until(job.id, lambda found: found.state == "running")
    page = visit("lead", f"jobs/{job.id}")
    clicks = counted(page)
    page.get_by_test_id("job-hold").click()
    page.get_by_test_id("intervention-reason").fill(WHY)
    page.get_by_test_id("intervention-send").click()
    expect(page.get_by_test_id("job-headline")).to_contain_text("Put on hold by “lead”.")
    assert clicks() == 2

    hers = visit("susan", f"jobs/{job.id}", apart=True)
    expect(hers.get_by_test_id("job-headline")).to_contain_text("Put on hold by “lead”.")
    expect(hers.get_by_test_id("job-release")).to_have_count(0)
    hers.get_by_text("Whole reason").click()
    expect(hers.get_by_test_id("job-card")).to_contain_text(f"It was put on hold by “lead”: {WHY}")

    clicks = counted(page)
    page.get_by_test_id("job-release").click()
    expect(page.get_by_test_id("job-state")).to_contain_text("Running")
    assert clicks() == 1


def test_a_waiting_job_is_edited_on_its_page_and_a_refusal_shows_in_the_form(visit: Visit, pool: Service) -> None:
    pool.people.groups["nlp"] = ["joe", "susan"]
    try:
        job = pool.submit("susan", name="waits", gpus=1)
        pool.run(pool.engine.pause(job.id, "susan"))
        pool.until(job.id, lambda found: found.state == "paused")
        page = visit("susan", f"jobs/{job.id}", apart=True)
        clicks = counted(page)
        page.get_by_test_id("job-change").click()
        page.get_by_test_id("intervention-priority").fill("urgent")
        page.get_by_test_id("intervention-send").click()
        priority = page.get_by_test_id("intervention-priority")
        expect(priority).to_have_attribute("aria-invalid", "true")
        wrong = page.get_by_test_id("intervention-priority-wrong")
        expect(wrong).to_contain_text("There is no priority “urgent”.")
        expect(priority).to_have_accessible_description(wrong.inner_text())
        expect(page.get_by_test_id("intervention-problem")).to_have_text("Correct first: Priority.")
        expect(page.get_by_text("There is no priority")).to_have_count(1)
        assert wrong.evaluate("(node) => node.previousElementSibling.dataset.testid") == "intervention-priority"
        seen = violations(page)
        show_theme(page, "dark")
        assert seen + violations(page, **COLOURS) == []
        expect(priority).to_have_value("urgent")
        priority.fill("high")
        page.get_by_test_id("intervention-time_limit").fill("2h")
        page.get_by_test_id("intervention-project").select_option("nlp")
        page.get_by_test_id("intervention-send").click()
        expect(page.get_by_test_id("intervention")).to_have_count(0)
        assert clicks() <= 3
        found = pool.run(pool.engine.job(job.id))
        assert (found.project, found.options.priority, found.options.time_limit) == ("nlp", 75, 7200.0)
    finally:
        pool.people.groups["nlp"] = ["joe"]


def test_jobs_are_moved_to_projects_of_the_viewer_alone(gallery: Page) -> None:
    gallery.evaluate(WAITING)
    gallery.evaluate("feed.pool = { projects: ['vision', 'nlp', 'led'].map((name) => ({ name })) }")
    assert gallery.evaluate("feed.projects") == []
    gallery.evaluate("feed.me = { name: 'susan', admin: false, projects: [{ name: 'vision' }] }")
    assert gallery.evaluate("feed.projects") == ["vision"]
    gallery.evaluate(
        "feed.viewer = { name: 'susan', admin: false, administers: (name) => name === 'led', projects: ['nlp'] }"
    )
    assert gallery.evaluate("feed.projects") == ["nlp", "led"]
    gallery.evaluate("feed.viewer.admin = true")
    assert gallery.evaluate("feed.projects") == ["vision", "nlp", "led"]


def test_several_jobs_are_held_edited_and_released_from_the_list(visit: Visit, pool: Service) -> None:
    jobs = [pool.submit("susan", name=f"bulk-{number}", gpus=8, priority=1) for number in range(2)]
    page = visit("admin", "?whose=all&search=bulk")
    expect(page.get_by_text("bulk-1")).to_be_visible()
    page.get_by_label("Select all jobs of this page").check()
    page.get_by_test_id("selected-hold").click()
    page.get_by_test_id("intervention-reason").fill(WHY)
    page.get_by_test_id("intervention-send").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Put on hold 2 jobs.")
    for job in jobs:
        pool.until(job.id, lambda found: found.hold is not None and found.state in {"queued", "paused"})
    page.get_by_label("Select all jobs of this page").check()
    page.get_by_test_id("selected-edit").click()
    page.get_by_test_id("intervention-priority").fill("60")
    page.get_by_test_id("intervention-send").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Edited 2 jobs.")
    page.get_by_label("Select all jobs of this page").check()
    page.get_by_test_id("selected-release").click()
    expect(page.get_by_test_id("selection-result")).to_contain_text("Released 2 jobs.")
    found = [pool.run(pool.engine.job(job.id)) for job in jobs]
    assert [(each.hold, each.options.priority) for each in found] == [(None, 60), (None, 60)]


def test_a_project_is_frozen_until_a_time_and_unfrozen(visit: Visit, pool: Service) -> None:
    job = pool.submit("susan", name="frozen", gpus=1)
    pool.until(job.id, lambda found: found.state == "running")
    page = visit("lead", "admin")
    clicks = counted(page)
    page.get_by_test_id("freeze-vision").click()
    page.get_by_test_id("freeze-why").fill("A review")
    page.get_by_test_id("freeze-until").fill("2030-01-31T18:00")
    page.get_by_test_id("freeze-confirm").click()
    expect(page.get_by_test_id("frozen-vision")).to_have_text(
        re.compile(r"^Frozen by lead until .*2030.*: A review$")
    )
    assert clicks() <= 3
    pool.until(job.id, lambda found: found.state == "paused")
    hers = visit("susan", f"jobs/{job.id}", apart=True)
    expect(hers.get_by_test_id("job-headline")).to_contain_text("Project frozen by “lead”.")

    clicks = counted(page)
    page.get_by_test_id("unfreeze-vision").click()
    expect(page.get_by_test_id("frozen-vision")).to_have_count(0)
    assert clicks() == 1
    pool.until(job.id, lambda found: found.state == "running")


def test_a_quota_is_changed_until_a_time_and_says_what_returns(visit: Visit, pool: Service) -> None:
    page = visit("admin", "admin")
    page.get_by_test_id("edit-weight-vision").fill("3")
    page.get_by_test_id("until-vision").fill("2030-01-31T18:00")
    page.get_by_test_id("save-vision").click()
    expect(page.get_by_test_id("ending-vision-weight")).to_have_text(
        re.compile(r"^This weight holds until .*2030.*, then 1 again\.$")
    )
    page.get_by_test_id("edit-weight-vision").fill("2")
    page.get_by_test_id("save-vision").click()
    expect(page.get_by_test_id("ending-vision-weight")).to_have_count(0)


def test_a_change_that_keeps_a_value_from_returning_says_so_at_its_project(visit: Visit, pool: Service) -> None:
    for name in ("left", "right"):
        inside = wire.ProjectEdit(quota=1, parent="vision")
        pool.run(pool.engine.create_project(name, inside, "admin", members={}))
    try:
        pool.edit_project("left", quota=0, until=time.time() + 3600.0)
        page = visit("admin", "admin")
        page.get_by_test_id("edit-quota-right").fill("2")
        page.get_by_test_id("save-right").click()
        note = page.get_by_test_id("note-right")
        expect(note).to_contain_text("The quota of “left” cannot return to 1 at ")
        expect(note).to_contain_text("It stays as it is until that fits.")
        page.get_by_test_id("edit-quota-right").fill("1")
        page.get_by_test_id("save-right").click()
        expect(note).to_have_count(0)
    finally:
        for name in ("left", "right"):
            pool.run(pool.engine.delete_project(name, "clean-up"))


def test_the_trail_is_chosen_and_saved_and_a_lead_sees_hers(visit: Visit, pool: Service) -> None:
    job = pool.submit("susan", name="audited", gpus=1)
    pool.run(pool.engine.hold(job.id, "lead", WHY))
    with pytest.raises(Refusal):
        pool.run(pool.engine.hold(job.id, "lead", WHY))
    pool.run(pool.engine.edit_project("nlp", wire.ProjectEdit(weight=2.0), "admin", members={}))
    budget = {"amount": 100.0, "unit": "gpu-hours", "beyond": "tell"}
    pool.run(pool.engine.record("admin", "project.budget", "vision", budget, {}, project="vision"))
    drains = {"why": "fw2", "finish": False, "until": 1e9}, {"why": "mine", "finish": False}
    pool.run(pool.engine.record("admin", "node.drain", "train-1", *drains, project="vision"))
    tables = {"quota": {"t4": 2, "a100": 1}}, {"quota": {"t4": 2}}
    pool.run(pool.engine.record("admin", "project.change", "vision", *tables, project="vision"))
    page = visit("lead", "admin")
    rows = page.get_by_test_id("audit-row")
    expect(rows.nth(0)).to_contain_text("quota 2 t4, 1 a100 → 2 t4, 0 a100")
    expect(rows.nth(1)).to_contain_text(re.compile(r"why fw2 → mine, until .*2001.* → none"))
    expect(rows.nth(2)).to_contain_text(": before: amount 100, unit gpu-hours, beyond tell")
    page.get_by_test_id("audit-what").select_option("job")
    expect(page.get_by_test_id("audit-row").first).to_contain_text("lead put on hold the job")
    expect(page.get_by_test_id("audit")).not_to_contain_text("changed project")
    with page.expect_download() as saved:
        page.get_by_test_id("audit-csv").click()
    assert WHY in saved.value.path().read_text()
    page.get_by_test_id("audit-who").fill("nobody")
    expect(page.get_by_text("No entry matches.")).to_be_visible()


def test_a_freeze_a_drain_and_a_budget_are_taken_back_in_the_trail_and_nothing_is_said_of_what_was_not_chosen(
    visit: Visit, pool: Service
) -> None:
    engine = pool.engine
    pool.run(engine.freeze("vision", wire.FreezeRequest(), "other", members={}))
    pool.run(engine.drain_node(wire.DrainRequest(node="train", why="", finish=True), "other"))
    pool.run(engine.budgets.set("vision", wire.BudgetRequest(amount=9, unit="gpu-hours"), "other"))
    page = visit("admin", "admin")
    rows = page.get_by_test_id("audit-row")
    expect(rows.nth(0)).to_contain_text("changed the budget of vision: amount 9, unit gpu-hours, beyond tell")
    expect(rows.nth(1)).to_contain_text("other drained the node train: finish yes")
    expect(rows.nth(2).get_by_text("vision", exact=True)).to_be_visible()
    expect(rows.nth(2).locator(".st-change")).to_have_count(0)
    for words in ("took back a change of the budget of vision", "took back draining the node train"):
        rows.filter(has=page.get_by_role("button", name="Undo")).first.get_by_role("button").click()
        expect(rows.first).to_contain_text(f"admin {words}")
    expect(page.get_by_test_id("frozen-vision")).to_be_visible()
    rows.filter(has_text="froze the project").first.get_by_role("button", name="Undo").click()
    expect(page.get_by_test_id("frozen-vision")).to_have_count(0)
    expect(rows.first).to_contain_text("admin took back freezing project vision")
    state = engine.state
    assert [dict(each.items()) for each in (state.freezes, state.drains, state.budgets)] == [{}, {}, {}]


def test_a_link_to_the_trail_of_a_project_chooses_it(visit: Visit, pool: Service) -> None:
    for name in ("vision", "nlp"):
        pool.run(pool.engine.edit_project(name, wire.ProjectEdit(weight=3.0), "admin", members={}))
    page = visit("admin", "home")
    page.get_by_role("button", name="vision").first.click()
    page.get_by_role("link", name="Audit trail").click()
    expect(page.get_by_test_id("audit-project")).to_have_value("vision")
    expect(page.get_by_test_id("audit-row").first).to_contain_text("changed project vision")
    expect(page.get_by_test_id("audit")).not_to_contain_text("project nlp")
    page.goto(page.url.replace("project=vision", "project=gone&what=job.hold"))
    expect(page.get_by_test_id("audit-project")).to_have_value("gone")
    expect(page.get_by_test_id("audit-what")).to_have_value("job.hold")


def test_bookings_in_the_trail_have_words_and_an_undo_while_they_are_there(visit: Visit, pool: Service) -> None:
    at = datetime(2030, 1, 31, 18, tzinfo=UTC).timestamp()
    request = wire.BookingRequest(nodes=("train",), start=at, end=at + 3600)
    made = pool.run(pool.engine.book(request, "admin"))
    page = visit("admin", "admin")
    page.get_by_test_id("audit-what").select_option("booking")
    row = page.get_by_test_id("audit-row").last
    expect(row).to_contain_text("admin booked train")
    expect(row).to_contain_text(re.compile("start .*2030.*, end .*2030.*, nodes train"))
    expect(row.get_by_role("button", name="Undo")).to_be_visible()
    pool.run(pool.engine.cancel_booking(made.booking.number, "admin"))
    expect(page.get_by_test_id("audit-row").first).to_contain_text("admin cancelled the booking of train")
    expect(row).to_contain_text("admin booked train")
    expect(row.get_by_role("button", name="Undo")).to_have_count(0)


def test_an_admin_gives_a_project_a_budget_and_a_lead_sees_what_is_spent(visit: Visit, pool: Service) -> None:
    page = visit("admin", "admin")
    clicks = counted(page)
    page.get_by_test_id("budget-vision-edit").click()
    expect(page.get_by_test_id("budgeting-vision")).to_contain_text("A budget in money needs prices")
    page.get_by_test_id("budget-amount").fill("40")
    page.get_by_test_id("budget-beyond").select_option("no-borrowing")
    page.get_by_test_id("budget-confirm").click()
    expect(page.get_by_test_id("budget-vision")).to_contain_text("of 40 GPU-hours of its budget for ")
    assert clicks() <= 3
    assert [each.beyond for each in pool.engine.admin({}).budgets] == ["no-borrowing"]

    hers = visit("lead", "admin", apart=True)
    expect(hers.get_by_test_id("budget-vision")).to_contain_text("of 40 GPU-hours")
    expect(hers.get_by_test_id("budget-vision-edit")).to_have_count(0)

    page.get_by_test_id("budget-vision-edit").click()
    page.get_by_test_id("budget-remove").click()
    expect(page.get_by_test_id("budget-vision")).to_have_count(0)
    expect(page.get_by_test_id("budget-vision-edit")).to_have_text("Set a budget…")


def test_a_quota_is_edited_as_it_is_set_while_a_booking_raises_it(visit: Visit, pool: Service) -> None:
    def vision() -> wire.ProjectView:
        return next(project for project in pool.engine.pool().projects if project.name == "vision")

    now, before = time.time(), vision().quota
    lender = next(project for project in pool.engine.pool().projects if project.name != "vision" and project.quota)
    request = wire.BookingRequest(project="vision", gpus=1, lends={lender.name: 1}, start=now, end=now + 3600)
    pool.run(pool.engine.book(request, "admin"))
    page = visit("admin", "admin")
    expect(page.get_by_test_id("edit-quota-vision")).to_have_value(str(before))
    expect(page.get_by_test_id("booked-vision")).to_have_text(
        f"Now {before + 1} by bookings; this is the quota without them."
    )
    page.get_by_test_id("edit-quota-vision").fill(str(before - 1))
    page.get_by_test_id("save-vision").click()
    expect(page.get_by_test_id("booked-vision")).to_contain_text(f"Now {before} by bookings")
    assert (vision().quota, vision().set_quota) == (before, before - 1)
