"""The page of workspaces: what they hold, and rules for those that do not use their GPUs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from pools.pages_service import Service

from springtide.hub_extension.web.hub import Server
from springtide.scheduler import wire
from springtide.scheduler.engine.idle import Decision, Step
from springtide.scheduler.store.tables import IdleRule, RuleScope

Visit = Callable[..., Page]


@pytest.fixture
def notebooks(service: Service) -> Iterator[dict[str, list[Server]]]:
    """Notebook servers of susan, one of them with a GPU, and of joe."""
    since = time.time() - 7200
    servers = {
        "susan": [Server("", "running", "/user/susan/", since, since + 7000), Server("big", "starting")],
        "joe": [Server("", "running", "/user/joe/", since, since)],
    }
    service.people.notebooks.update(servers)
    for user in servers:
        service.run(service.engine.reserve_workspace(user, "", 1, ["vision", "nlp"]))
    yield service.people.notebooks
    for user in servers:
        service.run(service.engine.release_workspace(user, ""))
    service.people.notebooks.clear()


def test_ones_workspaces_say_what_they_hold_and_can_be_stopped(
    visit: Visit, notebooks: dict[str, list[Server]]
) -> None:
    page = visit("susan", "workspaces")
    rows = page.get_by_test_id("workspace-row")
    expect(rows).to_have_count(2)
    expect(page.get_by_test_id("build-quota")).to_have_text("1 of your 1 build GPU held")
    expect(rows.first).to_contain_text("Running")
    expect(rows.first.locator("[data-label=GPUs]")).to_contain_text("1")
    expect(rows.first.locator("[data-label='running since']")).to_have_text("2 h ago")
    expect(rows.first.get_by_role("link", name="default")).to_have_attribute("href", re.compile("/user/susan/$"))
    expect(rows.nth(1)).to_contain_text("Starting")
    rows.first.get_by_test_id("workspace-stop").click()
    rows.first.get_by_test_id("workspace-confirm").click()
    expect(rows).to_have_count(1)
    assert [server.name for server in notebooks["susan"]] == ["big"]


@pytest.mark.usefixtures("notebooks")
def test_admins_see_everybodys_workspaces_and_others_only_their_own(visit: Visit, service: Service) -> None:
    page = visit("admin", "workspaces")
    expect(page.get_by_test_id("empty")).to_contain_text("You have no workspace now.")
    page.get_by_test_id("workspaces-everybody").check()
    expect(page.get_by_role("heading", level=1)).to_have_text("Everybody's workspaces")
    expect(page.get_by_test_id("workspace-row")).to_have_count(3)
    expect(page.get_by_test_id("workspace-row").first.locator("[data-label=user]")).to_have_text("joe")
    hers = visit("susan", "workspaces?whose=all")
    expect(hers.get_by_test_id("workspace-row")).to_have_count(2)
    expect(hers.get_by_test_id("workspaces-everybody")).to_have_count(0)


def test_an_unused_workspace_says_when_it_stops_can_be_kept_and_says_why_it_is_gone(
    visit: Visit, service: Service, notebooks: dict[str, list[Server]]
) -> None:
    idle = service.engine.idle_workspaces
    page = visit("susan", "workspaces")
    row = page.get_by_test_id("workspace-row").first
    expect(row.get_by_test_id("workspace-use")).to_have_text("not known")
    rule = IdleRule(tell_after=0.001, notice=1800.0)
    service.run(idle.set_rule((RuleScope.PERSON, "susan"), rule, "admin"))

    idle.report("susan", "", wire.WorkspaceActivity(idle=0.0))
    unused = Decision(Step.TELL, 7200.0, None)
    service.run(idle.tell("susan", "", unused, rule))
    page.reload()
    expect(row.get_by_test_id("workspace-use")).to_have_text(re.compile("unused for .*; stops in (30|29) min"))
    row.get_by_test_id("workspace-keep").click()
    expect(row.get_by_test_id("workspace-use")).to_have_text("used lately")
    expect(row.get_by_test_id("workspace-keep")).to_have_count(0)
    service.run(idle.tell("susan", "", unused, rule))
    service.run(idle.stopping("susan", "", unused))
    service.run(service.engine.release_workspace("susan", ""))
    notebooks["susan"].clear()
    page.reload()
    stopped = page.get_by_test_id("workspace-stopped")
    expect(stopped).to_contain_text("because its 1 GPU had not been used for 2 h.")
    service.run(idle.set_rule((RuleScope.PERSON, "susan"), None, "admin"))


@pytest.mark.usefixtures("notebooks")
def test_admins_set_the_rule_for_unused_workspaces_and_exceptions_from_it(visit: Visit, service: Service) -> None:
    page = visit("admin", "workspaces?whose=all")
    expect(page.get_by_test_id("idle-rule")).to_contain_text("no notification, and nothing is stopped.")
    pool = page.get_by_test_id("idle-form-pool")
    pool.get_by_test_id("idle-tell").fill("120")
    pool.get_by_test_id("idle-notice").fill("30")
    pool.get_by_test_id("idle-save-pool").click()
    said = "the owner is notified after 2 h without use, and the workspace is stopped 30 min later."
    expect(page.get_by_test_id("idle-rule")).to_contain_text(said)
    new = page.get_by_test_id("idle-form-new")
    new.get_by_test_id("idle-name").fill("vision")
    new.get_by_test_id("idle-save-new").click()
    exceptions = page.get_by_test_id("idle-exceptions")
    expect(exceptions).to_contain_text("Project vision: no notification, and nothing is stopped.")
    assert service.engine.idle_workspaces.rule("joe", ["nlp"]).notice == 1800.0
    assert service.engine.idle_workspaces.rule("susan", ["vision"]).tell_after is None
    exceptions.get_by_role("button", name="Remove the exception for vision").click()
    expect(exceptions).to_have_count(0)
    pool.get_by_test_id("idle-tell").fill("")
    pool.get_by_test_id("idle-save-pool").click()
    expect(page.get_by_test_id("idle-rule")).to_contain_text("no notification")
