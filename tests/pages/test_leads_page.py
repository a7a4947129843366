"""Who leads which project, on the page Projects and quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pages_service import PERSON, Service, Windows
from playwright.sync_api import Page, expect

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
