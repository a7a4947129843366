"""What all pages share: navigation, theme, connection, and what is not found."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from pages_service import PERSON, Service, Windows
from playwright.sync_api import Page, expect

Visit = Callable[..., Page]

LINKS = ["Home", "My jobs", "Pool", "Workspaces", "Notifications"]
"""The navigation that everyone has, before the link to tokens."""


def test_above_a_jobs_page_are_all_jobs(visit: Visit) -> None:
    expect(visit("jemma", "jobs").get_by_test_id("empty")).to_contain_text("pool.submit(")


@pytest.mark.parametrize("name", ["susan", ""], ids=["logged in", "a stranger"])
def test_an_address_that_is_nobodys_says_so_and_leads_back(visit: Visit, service: Service, name: str) -> None:
    page = visit(name, "nowhere/at-all")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_test_id("problem")).to_contain_text("There is nothing at this address.")
    expect(page.get_by_test_id("problem").get_by_role("link", name="My jobs")).to_have_attribute(
        "href", httpx.URL(service.url).path
    )
    told = httpx.get(f"{service.url}nowhere/at-all")
    assert (told.status_code, told.json()["code"]) == (404, "not_found")


def test_an_administrator_who_misses_a_page_is_still_logged_in(visit: Visit) -> None:
    page = visit("admin", "nowhere/at-all")
    expect(page.get_by_role("link", name="Projects and quotas")).to_be_visible()
    expect(page.get_by_text("Logout")).to_be_visible()
    stranger = visit("", "nowhere/at-all")
    expect(stranger.get_by_test_id("problem")).to_be_visible()
    expect(stranger.get_by_text("Login", exact=True)).to_have_count(0)


@pytest.mark.parametrize("path", ["", "pool", "workspaces", "admin", "nowhere"])
def test_every_page_has_the_products_name_and_the_whole_navigation(visit: Visit, path: str) -> None:
    page = visit("admin", path)
    expect(page.locator("#springtide-brand")).to_have_text("Springtide")
    expect(page.locator("nav .nav-link")).to_have_text([*LINKS, "Projects and quotas", "Admin", "Token"])


def test_who_is_no_admin_finds_no_page_of_admins_in_the_navigation(visit: Visit) -> None:
    page = visit("susan", "pool")
    expect(page.locator("nav .nav-link")).to_have_text([*LINKS, "Token"])


def test_pages_take_the_theme_of_the_hub(visit: Visit) -> None:
    page = visit("joe", "pool", color_scheme="dark", apart=True)
    background = "getComputedStyle(document.body).backgroundColor"
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    assert page.evaluate(background) == "rgb(33, 37, 41)"
    page.get_by_label("Toggle dark mode").click()
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.springtide')).colorScheme") == "light"


@pytest.mark.parametrize("path", ["", "pool", "workspaces", "admin"])
def test_pages_fit_a_phone(visit: Visit, service: Service, path: str) -> None:
    service.submit("susan", name="a" * 100, gpus=4)
    page = visit("admin", f"{path}?whose=all", viewport={"width": 360, "height": 780})
    expect(page.locator("#page")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("html")).to_have_js_property("scrollWidth", 360)


def test_pages_let_no_inline_script_run(visit: Visit, service: Service) -> None:
    page = visit("susan")
    assert page.locator("script:not([src])").count() == 0
    opened = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    answer = httpx.get(service.url, cookies={PERSON: "susan"}, headers=opened, trust_env=False)
    assert answer.status_code == 200
    assert "script-src 'self';" in answer.headers["Content-Security-Policy"]


def test_the_connection_says_when_the_pool_is_away_and_catches_up(visit: Visit, service: Service) -> None:
    page = visit("joe", "pool")
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    page.context.set_offline(True)
    service.end_streams()
    expect(page.get_by_test_id("connection")).to_have_text("Reconnecting…")
    service.submit("susan", name="meanwhile", gpus=1)
    page.context.set_offline(False)
    expect(page.get_by_test_id("connection")).to_have_text("Live")
    expect(page.get_by_test_id("holder-row")).to_have_count(1)


def test_where_a_stream_is_one_too_many_the_page_asks_instead(windows: Windows, service: Service) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.route("**/api/v1/events*", lambda route: route.fulfill(status=429, headers={"Retry-After": "30"}))
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    job = service.submit("susan", name="digits")
    expect(page.locator(f"[data-job='{job.id}']").get_by_test_id("row-state")).to_have_text("Running")


def test_a_refused_stream_is_tried_again_when_the_refusal_says(windows: Windows, service: Service) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    refusal = {"status": 429, "headers": {"Retry-After": "2"}}
    page.route("**/api/v1/events*", lambda route: route.fulfill(**refusal), times=1)
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    expect(page.get_by_test_id("connection")).to_have_text("Live")


def test_where_streams_do_not_get_through_the_page_asks_instead(windows: Windows, service: Service) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.route("**/api/v1/events*", lambda _route: None)
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    job = service.submit("susan", name="digits")
    expect(page.locator(f"[data-job='{job.id}']").get_by_test_id("row-state")).to_have_text("Running")
