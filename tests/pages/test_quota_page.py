"""The admin page: projects, members and quotas edited in place, and the trail of changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect
from pools.pages_service import Service

from springtide.scheduler import wire
from springtide.scheduler.engine import AuditQuery
from springtide.scheduler.refusal import Refusal

Visit = Callable[..., Page]
TYPE_AND_ENTER = """(field, text) => {
  field.value = text;
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
}"""
"""Types and presses Enter before the page is drawn again."""


@pytest.fixture
def projects(service: Service) -> Iterator[Service]:
    """Three projects with a quota of 2 each, on 8 train and 3 build GPUs; put back afterwards."""
    yield service
    for view in service.engine.pool().projects:
        if view.name not in {"vision", "nlp", "speech"}:
            service.people.groups.pop(view.name, None)
            service.run(service.engine.delete_project(view.name, "clean-up"))
    service.people.groups = {"vision": ["susan"], "nlp": ["joe"], "speech": ["jemma"]}
    nothing = wire.ProjectEdit(
        quota=0, limit=None, weight=1.0, priority=100, build_quota=1, parent=None, ranges=wire.JobRanges()
    )
    for name, members in service.people.groups.items():
        for person in members:
            unset = wire.PersonEdit(build_quota=None)
            service.run(service.engine.edit_person(person, unset, "clean-up", members={}))
        service.run(service.engine.edit_project(name, nothing, "clean-up", members={}))
    for name in service.people.groups:
        service.run(service.engine.edit_project(name, wire.ProjectEdit(quota=2), "clean-up", members={}))


@pytest.fixture
def admin(visit: Visit, projects: Service) -> Page:
    page = visit("admin", "admin")
    expect(page.get_by_test_id("project-row-nlp")).to_be_visible()
    return page


def test_what_a_quota_would_do_is_told_before_it_is_saved(admin: Page, projects: Service) -> None:
    job = projects.submit("susan", name="wide", gpus=8)
    projects.until(job.id, lambda found: found.state == "running")
    projects.submit("joe", name="deep", gpus=8)

    admin.get_by_test_id("edit-limit-vision").fill("4")
    expect(admin.get_by_test_id("what-if")).to_contain_text("would pause wide of susan in vision (8 GPUs)")
    admin.get_by_test_id("edit-limit-vision").fill("")
    admin.get_by_test_id("edit-quota-vision").fill("0")
    expect(admin.get_by_test_id("what-if")).to_have_text(
        "Saved like this, no job would be paused or started right away."
    )
    admin.get_by_test_id("edit-quota-speech").fill("0")
    admin.get_by_test_id("edit-quota-nlp").fill("8")
    expect(admin.get_by_test_id("what-if")).to_have_text(
        "Saved like this, the pool would pause wide of susan in vision (8 GPUs), "
        "and start deep of joe in nlp (8 GPUs)."
    )
    admin.get_by_test_id("edit-quota-nlp").fill("9")
    expect(admin.get_by_test_id("what-if")).to_have_count(0)
    assert quota_of(projects, "nlp") == 2
    assert projects.run(projects.engine.job(job.id)).state == "running"


def test_what_would_be_refused_says_so_while_it_is_typed_and_only_what_fits_can_be_saved(
    admin: Page, projects: Service
) -> None:
    words = "The quotas of the top projects would add up to 9 GPUs; the pool has 8 train GPUs."
    save, refusal = admin.get_by_test_id("save-nlp"), admin.get_by_test_id("refusal-nlp")
    admin.get_by_test_id("edit-quota-nlp").fill("5")
    expect(refusal).to_have_text(words)
    expect(save).to_be_disabled()
    expect(admin.get_by_test_id("edit-quota-nlp")).to_have_attribute("aria-invalid", "true")
    assert "refused" not in admin.get_by_test_id("project-row-nlp").inner_text()
    admin.get_by_test_id("edit-quota-nlp").fill("4 or 5")
    expect(refusal).to_contain_text("is “4 or 5”; expected a whole number")
    admin.get_by_test_id("edit-quota-nlp").fill("4")
    expect(refusal).to_have_count(0)
    expect(save).to_be_enabled()
    admin.get_by_test_id("edit-quota-nlp").fill("5")
    expect(save).to_be_disabled()
    admin.get_by_test_id("edit-quota-vision").fill("1")
    admin.get_by_test_id("save-vision").click()
    expect(refusal).to_have_count(0)
    save.click()
    expect(save).to_have_count(0)
    assert quota_of(projects, "nlp") == 5

    admin.get_by_test_id("new-project-open").click()
    admin.get_by_test_id("new-project-name").fill("audio")
    admin.get_by_test_id("edit-own-susan").fill("9")
    expect(admin.get_by_test_id("person-refusal-susan")).to_contain_text("there are 3 build GPUs")
    expect(admin.get_by_test_id("save-person-susan")).to_be_disabled()
    expect(admin.get_by_test_id("new-project-save")).to_be_enabled()
    admin.get_by_test_id("new-project-name").fill("nlp")
    expect(admin.get_by_test_id("refusal-new-project")).to_have_text("There is a project “nlp” already.")
    expect(admin.get_by_test_id("new-project-save")).to_be_disabled()


def quota_of(service: Service, name: str) -> int | None:
    return next(view.quota for view in service.engine.pool().projects if view.name == name)


def test_only_admins_see_it(visit: Visit) -> None:
    page = visit("susan", "admin")
    expect(page.get_by_test_id("problem")).to_contain_text(
        "Only administrators of the pool or of a project see this"
    )
    expect(page.get_by_role("link", name="Projects and quotas")).to_have_count(0)


def test_quotas_are_edited_in_place_and_what_does_not_add_up_or_is_no_number_is_refused_there(
    admin: Page, projects: Service
) -> None:
    admin.get_by_test_id("edit-quota-nlp").fill("4")
    expect(admin.get_by_test_id("sum-train")).to_contain_text("8 of 8 train GPUs, 0 left")
    admin.get_by_test_id("save-nlp").click()
    expect(admin.get_by_test_id("save-nlp")).to_have_count(0)
    assert quota_of(projects, "nlp") == 4
    entry = admin.get_by_test_id("audit-row").first
    expect(entry).to_contain_text("admin changed project nlp: quota 2 → 4")

    admin.get_by_test_id("edit-quota-nlp").fill("5")
    expect(admin.get_by_test_id("sum-train")).to_contain_text("9 of 8 train GPUs, 1 too many")
    admin.get_by_test_id("edit-quota-nlp").press("Enter")
    refusal = admin.get_by_test_id("refusal-nlp")
    expect(refusal).to_contain_text("would add up to 9 GPUs; the pool has 8 train GPUs")
    expect(admin.get_by_test_id("edit-quota-nlp")).to_have_attribute("aria-invalid", "true")
    expect(admin.get_by_test_id("edit-quota-nlp")).to_have_value("5")
    assert quota_of(projects, "nlp") == 4
    admin.get_by_test_id("edit-quota-nlp").press("Escape")
    expect(refusal).to_have_count(0)
    expect(admin.get_by_test_id("edit-quota-nlp")).to_have_value("4")

    admin.get_by_test_id("new-project-open").click()
    admin.get_by_test_id("new-project-name").fill("vision team/<b>")
    admin.get_by_test_id("new-project-save").click()
    refusal = admin.get_by_test_id("refusal-new-project")
    expect(refusal).to_contain_text("The name is “vision team/<b>”; expected one of at most 64 characters without")

    admin.get_by_test_id("edit-build-vision").fill("2")
    expect(admin.get_by_test_id("sum-build")).to_contain_text("4 of 3 build GPUs, 1 too many")
    admin.get_by_test_id("save-vision").click()
    expect(admin.get_by_test_id("refusal-vision")).to_contain_text("there are 3 build GPUs")

    for field, typed, expected in (
        ("quota", "-1", "a whole number from 0 to 1000000, or the word unlimited"),
        ("quota", "2.5", "a whole number from 0"),
        ("quota", "", "a whole number from 0"),
        ("weight", "heavy", "a number from 0"),
        ("limit", "1e9", "a whole number from 0 to 1000000, or nothing for no limit"),
    ):
        admin.get_by_test_id(f"edit-{field}-nlp").fill(typed)
        admin.get_by_test_id("save-nlp").click()
        expect(admin.get_by_test_id("refusal-nlp")).to_contain_text(f"“{typed}”; expected {expected}")
        admin.get_by_test_id(f"edit-{field}-nlp").press("Escape")
        expect(admin.get_by_test_id("refusal-nlp")).to_have_count(0)


def test_changes_of_quotas_limits_and_persons_are_saved_together_taken_back_and_refused(
    admin: Page, projects: Service
) -> None:
    admin.get_by_test_id("edit-quota-nlp").fill("6")
    admin.get_by_test_id("edit-quota-vision").fill("0")
    admin.get_by_test_id("save-all").click()
    expect(admin.get_by_test_id("save-nlp")).to_have_count(0)
    assert (quota_of(projects, "nlp"), quota_of(projects, "vision")) == (6, 0)

    admin.get_by_test_id("edit-limit-speech").fill("6")
    admin.get_by_test_id("save-speech").click()
    first = admin.get_by_test_id("audit-row").first
    expect(first).to_contain_text("limit none → 6")
    first.get_by_role("button", name="Undo").click()
    expect(admin.get_by_test_id("audit-row").first).to_contain_text("limit 6 → none")
    expect(admin.get_by_test_id("edit-limit-speech")).to_have_value("")

    admin.get_by_test_id("edit-own-jemma").fill("0")
    expect(admin.get_by_test_id("sum-build")).to_contain_text("2 of 3 build GPUs, 1 left")
    admin.get_by_test_id("save-person-jemma").click()
    expect(admin.get_by_test_id("audit-row").first).to_contain_text("changed person jemma: build quota none → 0")
    admin.get_by_test_id("edit-own-jemma").fill("9")
    admin.get_by_test_id("save-person-jemma").click()
    expect(admin.get_by_test_id("person-refusal-jemma")).to_contain_text("there are 3 build GPUs")

    admin.set_viewport_size({"width": 1000, "height": 900})
    beyond = "(table) => table.scrollWidth - table.closest('main').clientWidth"
    assert admin.get_by_test_id("projects").evaluate(beyond) <= 0
    delete = admin.get_by_test_id("delete-nlp").bounding_box()
    assert delete is not None
    assert delete["x"] + delete["width"] <= 1000 - 16


def test_projects_and_members_come_and_go(admin: Page, projects: Service) -> None:
    admin.get_by_test_id("new-project-open").click()
    admin.get_by_test_id("new-project-name").fill("vision labs")
    admin.get_by_test_id("new-project-parent").select_option("vision")
    admin.get_by_test_id("new-project-quota").fill("1")
    admin.get_by_test_id("new-project-save").click()
    row = admin.get_by_test_id("project-row-vision labs")
    expect(row).to_be_visible()
    expect(admin.get_by_test_id("new-project")).to_have_count(0)
    expect(admin.get_by_test_id("project-row-vision")).to_contain_text("inside: 1 of 2")
    assert projects.people.groups["vision labs"] == []
    admin.get_by_test_id("delete-vision labs").click()
    admin.get_by_test_id("delete-confirm-vision labs").click()
    expect(row).to_have_count(0)

    admin.get_by_test_id("member-add-nlp").fill("susan")
    admin.get_by_test_id("member-add-nlp").press("Enter")
    expect(admin.get_by_test_id("member-nlp-susan")).to_be_visible()
    expect(admin.get_by_test_id("person-row-susan")).to_contain_text("nlp, vision")
    latest = admin.get_by_test_id("audit-row").first
    expect(latest).to_contain_text("admin added a member to nlp: members susan")
    expect(latest.locator("ins")).to_have_text("susan")
    expect(latest.locator("del")).to_have_count(0)
    admin.get_by_test_id("member-remove-nlp-susan").click()
    expect(admin.get_by_test_id("member-nlp-susan")).to_have_count(0)
    expect(latest.locator("del")).to_have_text("susan")
    expect(latest.locator("ins")).to_have_count(0)
    assert projects.people.groups["nlp"] == ["joe"]

    admin.get_by_test_id("member-add-nlp").evaluate(
        """(input) => {
            input.value = "susan";
            input.dispatchEvent(new Event("input", { bubbles: true }));
            input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
        }"""
    )
    expect(admin.get_by_test_id("member-nlp-susan")).to_be_visible()
    assert sorted(projects.people.groups["nlp"]) == ["joe", "susan"]


def test_a_limit_below_a_coming_booking_is_said_before_it_is_saved_and_afterwards(
    admin: Page, projects: Service
) -> None:
    start = time.time() + 86_400
    request = wire.BookingRequest(project="vision", gpus=2, start=start, end=start + 3600)
    made = projects.run(projects.engine.book(request, "admin"))
    said = "The quota of “vision” would be 4, and its limit is 3. It holds no more than its limit."
    try:
        admin.get_by_test_id("edit-limit-vision").fill("3")
        expect(admin.get_by_test_id("what-if")).to_contain_text(
            "Saved like this, no job would be paused or started"
        )
        expect(admin.get_by_test_id("what-if")).to_contain_text(said)
        admin.get_by_test_id("save-vision").click()
        expect(admin.get_by_test_id("note-vision")).to_contain_text(said)
    finally:
        projects.run(projects.engine.cancel_booking(made.booking.number, "clean-up"))


def test_what_somebody_else_changes_comes_in_without_disturbing_what_is_typed(
    admin: Page, projects: Service
) -> None:
    admin.get_by_test_id("edit-weight-nlp").fill("3")
    edit = wire.ProjectEdit(priority=7)
    projects.run(projects.engine.edit_project("nlp", edit, "another admin", members={}))
    expect(admin.get_by_test_id("edit-priority-nlp")).to_have_value("7")
    expect(admin.get_by_test_id("edit-weight-nlp")).to_have_value("3")
    expect(admin.get_by_test_id("edit-weight-nlp")).to_be_focused()
    admin.get_by_test_id("save-nlp").click()
    refusal = admin.get_by_test_id("refusal-nlp")
    expect(refusal).to_contain_text("was changed meanwhile")
    expect(refusal).to_contain_text("“another admin” changed it at ")
    expect(refusal).to_contain_text(": priority 100 → 7.")
    expect(admin.get_by_test_id("edit-weight-nlp")).to_have_value("3")
    admin.get_by_test_id("save-nlp").click()
    expect(admin.get_by_test_id("save-nlp")).to_have_count(0)
    expect(admin.get_by_test_id("edit-weight-nlp")).to_have_value("3")


def test_what_is_typed_for_a_project_that_somebody_deletes_stays_with_who_deleted_it(
    admin: Page, projects: Service
) -> None:
    admin.get_by_test_id("edit-quota-nlp").fill("3")
    admin.get_by_test_id("edit-limit-nlp").fill("")
    projects.people.groups.pop("nlp")
    age = next(view for view in projects.engine.pool().projects if view.name == "nlp").colour
    projects.run(projects.engine.delete_project("nlp", "another admin"))
    try:
        gone = admin.get_by_test_id("project-gone-nlp")
        expect(gone).to_contain_text("There is no project “nlp” any more. “another admin” deleted it ")
        expect(gone).to_contain_text("Typed and not saved: quota 3.")
        admin.get_by_test_id("edit-weight-vision").fill("2")
        admin.get_by_test_id("save-vision").click()
        expect(admin.get_by_test_id("save-vision")).to_have_count(0)
        expect(gone).to_be_visible()
        admin.get_by_test_id("discard-nlp").click()
        expect(gone).to_have_count(0)
    finally:
        entry = projects.run(projects.engine.audit(None, 9, AuditQuery(what="project.delete"))).items[0]
        projects.run(projects.engine.undo(entry.id, "clean-up", members={}))
        projects.people.groups["nlp"] = ["joe"]
    assert next(view for view in projects.engine.pool().projects if view.name == "nlp").colour == age


def test_a_change_is_repeated_after_another_persons_while_the_rest_of_the_page_is_still_read(
    admin: Page, projects: Service
) -> None:
    expect(admin.get_by_test_id("audit-row").first).to_be_visible()
    held: list[Route] = []
    admin.get_by_test_id("edit-weight-nlp").fill("3")
    admin.route("**/api/v1/forecasts/accuracy", lambda route: held.append(route))  # noqa: PLW0108
    projects.run(projects.engine.edit_project("nlp", wire.ProjectEdit(priority=7), "another admin", members={}))
    expect(admin.get_by_test_id("edit-priority-nlp")).to_have_value("7")
    admin.get_by_test_id("save-nlp").click()
    expect(admin.get_by_test_id("refusal-nlp")).to_contain_text("was changed meanwhile")
    admin.get_by_test_id("save-nlp").click()
    expect(admin.get_by_test_id("save-nlp")).to_have_count(0)
    expect(admin.get_by_test_id("refusal-nlp")).to_have_count(0)
    admin.unroute_all(behavior="ignoreErrors")
    assert held


def test_what_jobs_may_ask_for_is_edited_in_place_and_written_to_the_trail(admin: Page, projects: Service) -> None:
    expect(admin.get_by_test_id("ranges-nlp")).to_have_text("priority 0 to 100")
    admin.get_by_test_id("ranges-edit-nlp").click()
    admin.get_by_test_id("ranges-max_priority-nlp").fill("75")
    admin.get_by_test_id("ranges-max_gpus-nlp").fill("4")
    admin.get_by_test_id("ranges-max_time_limit-nlp").fill("2 days")
    admin.get_by_test_id("ranges-save-nlp").click()
    expect(admin.get_by_test_id("ranges-refusal-nlp")).to_contain_text("“2 days”; expected a duration such as 2h")
    admin.get_by_test_id("ranges-max_time_limit-nlp").fill("2d")
    admin.get_by_test_id("ranges-jobs_without_gpus-nlp").fill("2")
    admin.get_by_test_id("ranges-max_cpus-nlp").fill("16.5")
    admin.get_by_test_id("ranges-max_memory-nlp").fill("64 much")
    admin.get_by_test_id("ranges-save-nlp").click()
    expect(admin.get_by_test_id("ranges-refusal-nlp")).to_contain_text(
        "“64 much”; expected an amount such as 64Gi"
    )
    admin.get_by_test_id("ranges-max_memory-nlp").fill("64Gi")
    admin.get_by_test_id("ranges-save-nlp").click()
    most = "up to 4 GPUs, up to 16.5 cores, up to 64 GiB of memory, up to 2d"
    words = f"priority 0 to 75, {most}, 2 without GPUs at a time"
    expect(admin.get_by_test_id("ranges-nlp")).to_have_text(words)
    expect(admin.get_by_test_id("audit-row").first).to_contain_text(
        "priority 0 to 100 → priority 0 to 75, up to 4 GPUs"
    )
    admin.get_by_test_id("ranges-edit-nlp").click()
    admin.get_by_test_id("ranges-min_priority-nlp").evaluate(TYPE_AND_ENTER, "80")
    expect(admin.get_by_test_id("ranges-refusal-nlp")).to_contain_text(
        "lowest priority is 80, above the highest, 75"
    )
    admin.get_by_test_id("ranges-min_priority-nlp").press("Escape")
    expect(admin.get_by_test_id("ranges-nlp")).to_have_text(words)
    with pytest.raises(Refusal, match="may have 0 to 75"):
        projects.submit("joe", priority=90)


def test_what_is_typed_while_a_change_is_saved_stays_typed(admin: Page, projects: Service) -> None:
    sent: list[Route] = []
    admin.route("**/api/v1/projects/nlp", lambda route: sent.append(route), times=1)  # noqa: PLW0108
    admin.get_by_test_id("edit-quota-nlp").fill("1")
    admin.get_by_test_id("edit-quota-nlp").press("Enter")
    expect(admin.get_by_test_id("save-nlp")).to_be_disabled()
    admin.get_by_test_id("edit-weight-nlp").fill("3")
    sent[0].continue_()
    expect(admin.get_by_test_id("audit-row").first).to_contain_text("quota 2 → 1")
    expect(admin.get_by_test_id("save-nlp")).to_be_enabled()
    expect(admin.get_by_test_id("edit-weight-nlp")).to_have_value("3")
    admin.get_by_test_id("save-nlp").click()
    expect(admin.get_by_test_id("audit-row").first).to_contain_text("weight 1 → 3")
    assert quota_of(projects, "nlp") == 1


def test_an_admin_of_a_project_changes_who_is_in_it_and_the_projects_inside(
    visit: Visit, projects: Service
) -> None:
    inside = wire.ProjectEdit(parent="vision", quota=0)
    projects.run(projects.engine.create_project("robots", inside, "set-up", members={}))
    projects.people.groups["robots"] = []
    projects.people.administers["susan"] = frozenset({"vision"})
    try:
        page = visit("susan", "admin")
        expect(page.get_by_test_id("project-row-robots")).to_be_visible()
        expect(page.get_by_test_id("project-row-nlp")).to_have_count(0)
        expect(page.get_by_test_id("edit-quota-vision")).to_be_disabled()
        for nowhere in ("sum-train", "new-project-open", "delete-vision", "ranges-edit-vision"):
            expect(page.get_by_test_id(nowhere)).to_have_count(0)
        page.get_by_test_id("edit-quota-robots").fill("1")
        page.get_by_test_id("save-robots").click()
        expect(page.get_by_test_id("save-robots")).to_have_count(0)
        assert quota_of(projects, "robots") == 1
        page.get_by_test_id("member-add-robots").fill("susan")
        page.get_by_test_id("member-add-button-robots").click()
        expect(page.get_by_test_id("member-robots-susan")).to_be_visible()
        expect(page.get_by_test_id("message")).to_be_empty()
    finally:
        projects.people.administers.clear()


def test_jobs_on_hold_are_listed_with_the_reason_and_can_be_released(visit: Visit, projects: Service) -> None:
    job = projects.submit("susan", name="held", gpus=8)
    projects.run(projects.engine.hold(job.id, "admin", "Its data may not be used."))
    page = visit("admin", "admin")
    row = page.get_by_test_id(f"on-hold-{job.id}")
    expect(row).to_contain_text("held of susan in vision")
    expect(row).to_contain_text("by admin: Its data may not be used.")

    page.get_by_test_id(f"release-{job.id}").click()
    expect(page.get_by_test_id("on-hold")).to_have_count(0)
    expect(page.get_by_test_id("audit")).to_contain_text("released the job")


@pytest.mark.parametrize(("error", "words"), [(0.0, "at most 1 s off"), (89.5, "at most 1 min 30 s off")])
def test_the_error_of_forecasts_is_said_as_a_bound(admin: Page, error: float, words: str) -> None:
    accuracy = {"since": 0, "forecasts": 2, "jobs": 1, "inside": 2, "early": 0, "late": 0, "median_error": error}
    admin.route("**/api/v1/forecasts/accuracy", lambda route: route.fulfill(json=accuracy))
    admin.reload()
    expect(admin.get_by_test_id("accuracy")).to_contain_text(f"Half of the likely starts were {words}.")
