"""What an administrator does in a day: each in at most three clicks from the home page, with its audit entry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from patience import PATIENCE_S
from playwright.sync_api import Locator, Page, expect
from pools.pages_service import Service

from springtide.hub_extension.web.hub import Server
from springtide.scheduler import wire
from springtide.scheduler.engine import AuditQuery, JobFilter

Visit = Callable[..., Page]
Intervention = Callable[[Page, Service], None]
MOST_CLICKS = 3
WHY = "a review"
UNTIL = "2030-01-31T18:00"
COUNT = """document.addEventListener("click", ({ isTrusted, detail }) => {
    if (isTrusted && detail > 0) sessionStorage.clicks = 1 + Number(sessionStorage.clicks ?? 0);
}, true);"""
"""Script that counts the clicks of a pointer in a window, over all its pages.

A click that Playwright takes back, as something else has come below the pointer, reaches no document.
"""


@pytest.fixture
def day(service: Service) -> Iterator[Service]:
    """A pool in which joe's job waits for all GPUs while susan's runs, beside a notebook of hers with a GPU."""
    runs = service.submit("susan", gpus=2, name="runs")
    service.until(runs.id, lambda job: job.state == "running")
    waits = service.submit("joe", gpus=8, name="waits")
    service.until(waits.id, lambda job: job.reason is not None)
    service.people.groups["vision"].append("joe")
    since = time.time() - 60
    service.people.notebooks["susan"] = [Server("", "running", "/user/susan/", since, since)]
    service.run(service.engine.reserve_workspace("susan", "", 1, ["vision"]))
    yield service
    service.run(service.engine.release_workspace("susan", ""))
    service.people.notebooks.clear()
    service.people.groups.update(vision=["susan"], nlp=["joe"])
    pool = service.engine.pool()
    for name in (view.name for view in pool.projects if view.freeze is not None):
        service.run(service.engine.unfreeze(name, "clean-up", members={}))
    for budget in service.engine.admin({}).budgets:
        service.run(service.engine.budgets.remove(budget.project, "clean-up"))
    for node in (node.name for node in pool.nodes if node.drain is not None):
        service.run(service.engine.undrain_node(wire.UndrainRequest(node=node), "clean-up"))
    for booking in service.engine.bookings().items:
        service.run(service.engine.cancel_booking(booking.number, "clean-up"))
    service.run(service.engine.edit_project("vision", wire.ProjectEdit(quota=2), "clean-up", members={}))


def typed(field: Locator, text: str) -> None:
    """Type into a field, after a click on it unless it has the focus."""
    if not field.evaluate("field => field === document.activeElement"):
        field.click()
    field.fill(text)


def held(service: Service) -> str:
    """Put the job that waits on hold, and return its id."""
    jobs = service.run(service.engine.jobs(JobFilter(search="waits"), None, 1)).items
    service.run(service.engine.hold(jobs[0].id, "lead", WHY))
    return jobs[0].id


def projects(page: Page) -> None:
    page.get_by_role("link", name="Projects and quotas").click()


def drains(page: Page) -> Locator:
    page.get_by_test_id("home-node").first.click()
    return page.get_by_test_id("node-row").filter(has_text="train jobs")


def hold_a_job(page: Page, _service: Service) -> None:
    page.get_by_test_id("wait-hold").click()
    typed(page.get_by_test_id("intervention-reason"), WHY)
    page.get_by_test_id("intervention-send").click()


def release_a_job(page: Page, service: Service) -> None:
    job = held(service)
    projects(page)
    page.get_by_test_id(f"release-{job}").click()


def let_a_job_go_first(page: Page, _service: Service) -> None:
    page.get_by_test_id("wait-edit").click()
    typed(page.get_by_test_id("intervention-priority"), "high")
    page.get_by_test_id("intervention-send").click()


def give_a_job_more_time(page: Page, _service: Service) -> None:
    page.get_by_test_id("wait-edit").click()
    typed(page.get_by_test_id("intervention-time_limit"), "2h")
    page.get_by_test_id("intervention-send").click()


def move_a_job(page: Page, _service: Service) -> None:
    page.get_by_test_id("wait-edit").click()
    page.get_by_test_id("intervention-project").select_option("vision")
    page.get_by_test_id("intervention-send").click()


def pause_a_job(page: Page, _service: Service) -> None:
    page.get_by_role("link", name="Pool", exact=True).click()
    page.get_by_test_id("section-gpus").locator("[data-open]").first.click()
    page.get_by_test_id("job-pause").click()


def change_a_quota_for_a_time(page: Page, _service: Service) -> None:
    projects(page)
    typed(page.get_by_test_id("edit-quota-vision"), "1")
    typed(page.get_by_test_id("until-vision"), UNTIL)
    page.get_by_test_id("until-vision").press("Enter")


def freeze_a_project(page: Page, _service: Service) -> None:
    page.get_by_test_id("open-nlp").click()
    page.get_by_test_id("freeze-nlp").click()
    typed(page.get_by_test_id("freeze-why"), WHY)
    page.get_by_test_id("freeze-confirm").click()


def unfreeze_a_project(page: Page, service: Service) -> None:
    service.run(service.engine.freeze("nlp", wire.FreezeRequest(), "lead", members={}))
    page.get_by_test_id("open-nlp").click()
    page.get_by_test_id("unfreeze-nlp").click()


def set_a_budget(page: Page, _service: Service) -> None:
    projects(page)
    page.get_by_test_id("budget-vision-edit").click()
    typed(page.get_by_test_id("budget-amount"), "40")
    page.get_by_test_id("budget-confirm").click()


def drain_a_node(page: Page, _service: Service) -> None:
    row = drains(page)
    row.get_by_test_id("node-drain").click()
    typed(row.get_by_test_id("node-why"), WHY)
    row.get_by_test_id("node-confirm").click()


def undrain_a_node(page: Page, service: Service) -> None:
    service.run(service.engine.drain_node(wire.DrainRequest(node="train"), "lead"))
    drains(page).get_by_test_id("node-undrain").click()


def book_gpus_until_a_day(page: Page, _service: Service) -> None:
    page.get_by_test_id("home-book").click()
    page.get_by_test_id("booking-project").select_option("vision")
    page.get_by_test_id("booking-gpus").press_sequentially("2")
    typed(page.get_by_test_id("booking-end"), UNTIL)
    page.get_by_test_id("booking-end").press("Enter")


def book_a_maintenance(page: Page, _service: Service) -> None:
    page.get_by_test_id("home-book").click()
    page.get_by_test_id("booking-kind-nodes").press("Space")
    page.get_by_test_id("booking-node-train").press("Space")
    page.get_by_test_id("booking-start").fill("2030-01-31T18:00")
    page.get_by_test_id("booking-end").fill("2030-01-31T20:00")
    page.get_by_test_id("booking-send").click()


def book_weekends(page: Page, _service: Service) -> None:
    page.get_by_test_id("home-book").click()
    page.get_by_test_id("booking-project").select_option("vision")
    page.get_by_test_id("booking-gpus").fill("2")
    for choice in ("comes-weekly", "sat", "sun"):
        page.get_by_test_id(f"booking-{choice}").press("Space")
    page.get_by_test_id("booking-every.opens").fill("00:00")
    page.get_by_test_id("booking-every.closes").fill("00:00")
    page.get_by_test_id("booking-send").click()


def change_a_booking(page: Page, service: Service) -> None:
    start = time.time() + 86_400.0
    service.run(service.engine.book(wire.BookingRequest(nodes=("train",), start=start, end=start + 60), "lead"))
    page.get_by_test_id("home-calendar").locator("li a").first.click()
    page.get_by_test_id("booking-change").click()
    page.get_by_test_id("booking-end").fill(UNTIL)
    page.get_by_test_id("booking-send").click()


def cancel_a_booking(page: Page, service: Service) -> None:
    start = time.time() + 86_400.0
    service.run(service.engine.book(wire.BookingRequest(nodes=("train",), start=start, end=start + 60), "lead"))
    page.get_by_test_id("home-calendar").locator("li a").first.click()
    page.get_by_test_id("booking-cancel").click()
    page.get_by_test_id("booking-yes").click()


def add_a_member(page: Page, _service: Service) -> None:
    projects(page)
    typed(page.get_by_test_id("member-add-nlp"), "susan")
    page.get_by_test_id("member-add-nlp").press("Enter")


def remove_a_member(page: Page, _service: Service) -> None:
    projects(page)
    page.get_by_test_id("member-remove-vision-joe").click()


def let_a_person_leave(page: Page, _service: Service) -> None:
    projects(page)
    page.get_by_test_id("leave-joe").click()
    page.get_by_test_id("leave-confirm-joe").click()


def approve_a_request(page: Page, service: Service) -> None:
    wanted = wire.ProjectWanted(project="nlp", edit=wire.ProjectEdit(quota=3))
    request = wire.NewChangeRequest(wanted=wanted, why=WHY)
    service.run(service.engine.change_requests.make(request, "joe", {"nlp": ["joe"]}))
    need = page.get_by_test_id("need-request")
    need.get_by_test_id("need-approve").click()
    need.get_by_test_id("need-confirm").click()


def stop_a_workspace(page: Page, _service: Service) -> None:
    page.get_by_test_id("home-nodes").get_by_role("link", name="workspaces").click()
    page.get_by_test_id("workspace-stop").click()
    page.get_by_test_id("workspace-confirm").click()


INTERVENTIONS: dict[Intervention, str] = {
    hold_a_job: "job.hold",
    release_a_job: "job.release",
    let_a_job_go_first: "job.edit",
    give_a_job_more_time: "job.edit",
    move_a_job: "job.edit",
    pause_a_job: "job.pause",
    change_a_quota_for_a_time: "project.change",
    freeze_a_project: "project.freeze",
    unfreeze_a_project: "project.unfreeze",
    set_a_budget: "project.budget",
    drain_a_node: "node.drain",
    undrain_a_node: "node.undrain",
    book_gpus_until_a_day: "booking.make",
    book_a_maintenance: "booking.make",
    book_weekends: "booking.make",
    change_a_booking: "booking.change",
    cancel_a_booking: "booking.cancel",
    add_a_member: "member.add",
    remove_a_member: "member.remove",
    let_a_person_leave: "job.cancel",
    approve_a_request: "request.approve",
    stop_a_workspace: "workspace.stop",
}
"""What administrators do, and the entry of the audit trail that each leaves."""


@pytest.mark.parametrize("intervene", INTERVENTIONS)
def test_an_intervention_is_few_clicks_from_the_home_page_and_in_the_trail(
    visit: Visit, day: Service, intervene: Intervention
) -> None:
    page = visit("admin", "home")
    page.add_init_script(COUNT)
    page.evaluate(COUNT)
    expect(page.get_by_test_id("home-wait")).to_have_count(1)
    known = {each.id for each in entries(day)}
    intervene(page, day)
    deadline = time.monotonic() + PATIENCE_S
    while INTERVENTIONS[intervene] not in (own := [each.what for each in entries(day) if each.id not in known]):
        assert time.monotonic() < deadline, own
        page.wait_for_timeout(50)
    assert 1 <= int(page.evaluate("sessionStorage.clicks")) <= MOST_CLICKS


def entries(service: Service) -> list[wire.AuditEntry]:
    """Return what the admin of the page did last."""
    return service.run(service.engine.audit(None, 5, AuditQuery(who="admin"))).items
