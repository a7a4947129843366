"""Who leads which project, on the page Projects and quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from pools.pages_service import PERSON, Service, Windows

from springtide.hub_extension.api.hub_configuration import HubConfiguration

Visit = Callable[[str], Page]
ADMIN = "custom:springtide:project-admin"
HUB = HubConfiguration(
    configured_groups={"nlp": ("joe",)},
    configured_roles=(
        {
            "name": "vision-admin",
            "scopes": [f"{ADMIN}!group=vision"],
            "groups": ["vision-leads"],
            "users": ["anna"],
        },
    ),
)


@pytest.fixture(scope="module")
def led(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("led"), hub=HUB)
    service.start()
    service.people.groups["vision-leads"] = ["susan"]
    yield service
    service.stop()


@pytest.fixture
def visit(windows: Windows, led: Service) -> Visit:
    def visit(name: str) -> Page:
        page = windows.open()
        page.context.add_cookies([{"name": PERSON, "value": name, "url": led.url}])
        page.goto(f"{led.url}admin")
        return page

    return visit


def test_leads_are_shown_added_and_removed_and_those_of_the_configuration_are_locked(visit: Visit) -> None:
    page = visit("admin")
    expect(page.get_by_test_id("lead-vision-anna")).to_contain_text("locked")
    reason = "The role “vision-admin” of the hub's configuration names the person."
    expect(page.get_by_test_id("lead-vision-anna")).to_have_attribute("title", reason)
    page.get_by_test_id("lead-add-vision").fill("joe")
    page.get_by_test_id("lead-add-button-vision").click()
    expect(page.get_by_test_id("lead-vision-joe")).to_be_visible()
    page.get_by_test_id("lead-remove-vision-susan").click()
    expect(page.get_by_test_id("lead-vision-susan")).to_have_count(0)
    expect(page.get_by_text("removed a lead from").first).to_be_visible()


def test_a_project_without_a_role_says_how_to_get_one(visit: Visit) -> None:
    page = visit("admin")
    expect(page.get_by_test_id("lead-add-speech")).to_be_visible()
    page.get_by_test_id("lead-add-speech").fill("joe")
    page.get_by_test_id("lead-add-speech").press("Enter")
    expect(page.get_by_test_id("lead-refusal-speech")).to_contain_text("Add one to c.JupyterHub.load_roles")


def test_a_member_of_the_configuration_is_locked_and_others_are_not(visit: Visit) -> None:
    page = visit("admin")
    expect(page.get_by_test_id("member-nlp-joe")).to_contain_text("locked")
    expect(page.get_by_test_id("member-remove-nlp-joe")).to_have_count(0)
    expect(page.get_by_test_id("member-remove-vision-susan")).to_be_visible()


def test_a_lead_sees_who_leads_and_changes_nobody(visit: Visit, led: Service) -> None:
    led.people.administers = {"lead": frozenset({"vision"})}
    page = visit("lead")
    expect(page.get_by_test_id("lead-vision-anna")).to_be_visible()
    expect(page.get_by_test_id("lead-add-vision")).to_have_count(0)


RULED = HubConfiguration(
    managed_groups=True,
    group_rules=(
        {"group": "GRP-4711", "project": "vision"},
        {"group": "GRP-4712", "project": "nlp", "role": "lead"},
    ),
)


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("ruled"), hub=RULED)
    service.start()
    service.people.groups |= {
        "GRP-4711": ["anna", "susan"],
        "GRP-4712": ["jemma"],
        "gpu/research/robots": ["lisa"],
        "<b>loud</b>": [],
    }
    yield service
    service.stop()


def test_rules_for_groups_are_shown_tried_and_written_as_lines_and_nothing_changes(
    windows: Windows, ruled: Service
) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "admin", "url": ruled.url}])
    page.goto(f"{ruled.url}admin")
    rules = page.get_by_test_id("group-rules")
    expect(rules).to_contain_text("Who is in “GRP-4711” is a member of “vision”.")
    expect(page.get_by_test_id("group-effect-GRP-4711")).to_contain_text("anna")
    expect(page.get_by_test_id("lead-nlp-jemma")).to_contain_text("locked")
    expect(page.get_by_test_id("member-add-vision")).to_have_count(0)
    page.get_by_test_id("group-rule-kind").select_option("prefix")
    page.get_by_test_id("group-rule-name").fill("gpu/")
    page.get_by_test_id("group-rule-departments").check()
    page.get_by_test_id("group-rule-try").click()
    effect = page.get_by_test_id("group-effect-gpu/research/robots")
    expect(effect).to_contain_text("research-robots in research, which the pool lacks")
    expect(page.get_by_test_id("group-missing")).to_contain_text("research, research-robots")
    page.get_by_test_id("group-rule-remove-0").click()
    expect(page.get_by_test_id("group-losses")).to_contain_text("vision loses susan")
    expect(page.get_by_test_id("group-lines-python")).to_contain_text("'departments': True")
    expect(page.get_by_test_id("group-lines-chart")).to_contain_text('"departments": true')
    page.get_by_test_id("group-rule-name").fill("staff")
    page.get_by_test_id("group-rule-try").click()
    expect(page.get_by_test_id("group-rules-refusal")).to_have_text("A rule for one group needs a project.")
    page.get_by_test_id("group-rules-back").click()
    expect(page.get_by_test_id("group-lines-python")).to_have_count(0)
    expect(rules).to_contain_text("Who is in “GRP-4711” is a member of “vision”.")
    assert ruled.people.groups["vision"] == ["susan"]


def test_a_hub_that_decides_about_its_groups_itself_shows_no_rules(visit: Visit) -> None:
    page = visit("admin")
    expect(page.get_by_test_id("audit-trail").or_(page.get_by_text("Who changed what")).first).to_be_visible()
    expect(page.get_by_test_id("group-rules")).to_have_count(0)
