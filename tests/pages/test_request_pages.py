"""Requests on the pages: a member asks, sees what becomes of it, and whoever decides does so in a few clicks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browsers.axe import violations
from hostile.hostile_text import MARKUP, expect_only_text
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.scheduler import wire

Visit = Callable[..., Page]
WHY = "The deadline is on Friday."
WISH = """async ([job, project]) => {
    const page = document.querySelector("script[type=module]").src;
    const { wishOf } = await import(new URL("requests/quota_wish.js", page).href);
    return wishOf(job, project)?.gpus ?? null;
}"""


@pytest.fixture
def requests(service: Service) -> Iterator[Any]:
    """The requests of the pool; quotas are what they were and no request is pending in the end."""
    found = service.engine.change_requests
    yield found
    for view in found.listed({}):
        if view.state == "pending":
            service.run(found.withdraw(view.number, view.user))
    for name in ("vision", "nlp"):
        service.run(service.engine.edit_project(name, wire.ProjectEdit(quota=2), "admin", members={}))


def ask(page: Page, gpus: str, why: str = WHY) -> None:
    page.get_by_test_id("request-ask").click()
    page.get_by_test_id("request-gpus").fill(gpus)
    page.get_by_test_id("request-why").fill(why)
    page.get_by_test_id("request-send").click()


def quota_of(service: Service, name: str) -> int | None:
    return next(each.quota for each in service.engine.pool().projects if each.name == name)


@pytest.mark.usefixtures("requests")
def test_a_member_asks_and_an_administrator_approves_in_two_clicks(visit: Visit, service: Service) -> None:
    susan = visit("susan", "pool", color_scheme="dark", apart=True)
    ask(susan, "4")
    mine = susan.get_by_test_id("request")
    expect(mine).to_contain_text("Asked for a quota of 4 GPUs for “vision”")
    expect(mine).to_contain_text(WHY)
    assert violations(susan) == []
    admin = visit("admin", "home")
    need = admin.get_by_test_id("need-request")
    expect(need).to_contain_text("The person “susan” asks for a quota of 4 GPUs for “vision”.")
    expect(need).to_contain_text(WHY)
    need.get_by_test_id("need-approve").click()
    expect(need.get_by_test_id("need-confirm")).to_contain_class("st-primary")
    need.get_by_test_id("need-confirm").click()
    expect(admin.get_by_test_id("needs")).to_contain_text("Nothing needs you.")
    assert quota_of(service, "vision") == 4
    expect(mine).to_contain_text("Approved: a quota of 4 GPUs for “vision”")
    expect(mine).to_contain_text("By admin.")
    expect(mine.get_by_test_id("request-withdraw")).to_have_count(0)


@pytest.mark.usefixtures("requests")
def test_a_refusal_takes_a_reason_which_the_member_reads(visit: Visit, service: Service) -> None:
    susan = visit("susan", "pool", apart=True)
    ask(susan, "3", MARKUP)
    admin = visit("admin", "home")
    need = admin.get_by_test_id("need-request")
    expect_only_text(admin)
    need.get_by_test_id("need-refuse").click()
    expect(need.get_by_test_id("need-confirm")).to_contain_class("st-danger")
    need.get_by_test_id("need-confirm").click()
    expect(need.get_by_test_id("need-question")).to_be_visible()
    need.get_by_test_id("need-text").fill("Not before December.")
    need.get_by_test_id("need-confirm").click()
    expect(admin.get_by_test_id("needs")).to_contain_text("Nothing needs you.")
    mine = susan.get_by_test_id("request").first
    expect(mine).to_contain_text("Refused: a quota of 3 GPUs for “vision”")
    expect(mine).to_contain_text("Not before December.")
    expect_only_text(susan)
    assert quota_of(service, "vision") == 2


@pytest.mark.usefixtures("requests")
def test_other_values_are_granted_on_the_page_of_projects(visit: Visit, service: Service) -> None:
    susan = visit("susan", "pool", apart=True)
    ask(susan, "9")
    expect(susan.get_by_test_id("request").first).to_contain_text("It does not fit now: The quotas of the top")
    admin = visit("admin", "home")
    admin.get_by_test_id("need-request").get_by_role("link", name="Other values").click()
    decision = admin.get_by_test_id("decision")
    expect(decision).to_contain_text("It cannot be granted as it is: The quotas of the top projects")
    assert violations(admin) == []
    decision.get_by_test_id("decision-approve").click()
    expect(decision.get_by_role("alert")).to_contain_text("cannot be granted: The quotas of the top projects")
    decision.get_by_test_id("decision-quota").fill("3")
    decision.get_by_test_id("decision-why").fill("The rest is booked.")
    decision.get_by_test_id("decision-approve").click()
    expect(decision).to_have_count(0)
    assert quota_of(service, "vision") == 3
    expect(susan.get_by_test_id("request").first).to_contain_text("Granted: a quota of 3 GPUs for “vision”.")


@pytest.mark.usefixtures("requests")
def test_a_lead_puts_a_person_into_the_project(visit: Visit, service: Service) -> None:
    service.people.administers["joe"] = frozenset({"vision"})
    joe = visit("joe", "admin")
    expect(joe.get_by_test_id("member-add-vision")).to_be_visible()
    jemma = visit("jemma", "pool", apart=True)
    jemma.get_by_test_id("request-ask").click()
    jemma.get_by_test_id("request-kind").select_option("membership")
    jemma.get_by_test_id("request-project").select_option("vision")
    jemma.get_by_test_id("request-why").fill("I join the team.")
    jemma.get_by_test_id("request-send").click()
    decision = joe.get_by_test_id("decision")
    expect(decision).to_contain_text("jemma asks for membership in “vision” for “jemma”")
    decision.get_by_test_id("decision-approve").click()
    expect(decision).to_have_count(0)
    assert "jemma" in service.people.groups["vision"]
    service.people.groups["vision"].remove("jemma")
    del service.people.administers["joe"]


@pytest.mark.usefixtures("requests")
def test_a_refused_form_says_why_and_a_pending_request_is_withdrawn(visit: Visit) -> None:
    page = visit("susan", "pool")
    ask(page, "2")
    alert = page.get_by_test_id("request-form").get_by_role("alert")
    expect(alert).to_contain_text("There is a quota of 2 GPUs for “vision” already.")
    page.get_by_test_id("request-gpus").fill("4")
    page.get_by_test_id("request-send").click()
    expect(page.get_by_test_id("request-form")).to_have_count(0)
    first = page.get_by_test_id("request").first
    first.get_by_test_id("request-withdraw").click()
    expect(first).to_contain_text("You have withdrawn it.")


@pytest.mark.usefixtures("requests")
def test_the_page_of_a_job_that_waits_for_quota_asks_for_the_quota_that_it_lacks(
    visit: Visit, service: Service
) -> None:
    service.submit("susan", gpus=2, preemptible=False)
    job = service.submit("susan", gpus=1, preemptible=False)
    susan = visit("susan", f"jobs/{job.id}", color_scheme="dark", apart=True)
    asking = susan.get_by_test_id("request-ask")
    expect(asking).to_have_text("Ask for a quota of 3 GPUs for vision…")
    asking.click()
    expect(susan.get_by_test_id("request-gpus")).to_have_value("3")
    expect(susan.get_by_test_id("request-kind")).to_have_count(0)
    assert violations(susan) == []
    susan.get_by_test_id("request-why").fill(WHY)
    susan.get_by_test_id("request-send").click()
    expect(susan.get_by_test_id("request")).to_contain_text("Asked for a quota of 3 GPUs for “vision”")
    expect(asking).to_have_count(0)
    number = next(each.number for each in service.engine.change_requests.listed({}) if each.state == "pending")
    approval = wire.ChangeApproval()
    service.run(service.engine.change_requests.approve(number, approval, "admin", members={}))
    expect(susan.get_by_test_id("job-state").first).to_have_text("Running")
    expect(susan.get_by_test_id("requests")).to_have_count(0)


def test_others_and_jobs_that_wait_for_other_reasons_are_offered_no_request(
    visit: Visit, service: Service
) -> None:
    service.submit("susan", gpus=2, preemptible=False)
    beyond = service.submit("susan", gpus=1, preemptible=False)
    paused = service.submit("susan", gpus=1)
    service.run(service.engine.pause(paused.id, "susan"))
    service.until(paused.id, lambda job: job.state == "paused")
    susan = visit("susan", f"jobs/{paused.id}", apart=True)
    expect(susan.get_by_test_id("job-state").first).to_have_text("Paused")
    expect(susan.get_by_test_id("request-ask")).to_have_count(0)
    susan.goto(f"{service.url}jobs/{beyond.id}")
    expect(susan.get_by_test_id("request-ask")).to_be_visible()
    admin = visit("admin", f"jobs/{beyond.id}")
    expect(admin.get_by_test_id("job-state").first).to_have_text("Queued")
    expect(admin.locator("#page")).to_contain_text("must fit in the quota")
    expect(admin.get_by_test_id("request-ask")).to_have_count(0)


def test_a_quota_is_asked_for_only_if_planning_with_it_starts_the_job(visit: Visit) -> None:
    page = visit("susan", "pool")
    vision = {"name": "vision", "quota": 6, "by_type": {}}
    typed = {**vision, "quota": None, "by_type": {"a100": {"quota": 1}, "t4": {"quota": 0}}}

    def wished(found: list[dict[str, Any]] | None, project: dict[str, Any] = vision) -> int | None:
        gpus: int | None = page.evaluate(WISH, [{"starts_if": found}, project])
        return gpus

    assert wished([{"remove_jobs": ["a"]}, {"quota": {"vision": 8}}]) == 8
    assert wished([{"quota": {"vision": 8, "research": 12}}]) is None, "that takes the quota of a department"
    assert wished([{"limit": {"vision": 8}}, {"add_nodes": 1}]) is None
    assert wished([]) is None
    assert wished(None) is None, "not planned yet"
    assert wished([{"quota": {"vision": {"a100": 3, "t4": 0}}}], typed) == 3


def test_a_job_that_its_own_jobs_keep_waiting_is_offered_no_quota_beyond_the_pool(
    visit: Visit, service: Service
) -> None:
    total = sum(len(node.gpus) for node in service.engine.pool().nodes if node.environment == "train")
    service.submit("susan", gpus=total)
    job = service.submit("susan", gpus=total)
    susan = visit("susan", f"jobs/{job.id}", apart=True)
    service.until(job.id, lambda job: job.starts_if is not None)
    expect(susan.locator("#page")).to_contain_text("It could start if")
    expect(susan.get_by_test_id("request-ask")).to_have_count(0)
