"""The common parts of all pages: navigation, theme, connection, and the page for unknown paths."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from playwright.sync_api import Page, Route, expect
from pools.pages_service import PERSON, WITHOUT_SHARED_WORKERS, Service, Windows

Visit = Callable[..., Page]


def test_an_address_that_is_nobodys_says_so_and_leads_back(visit: Visit, service: Service) -> None:
    page = visit("", "nowhere/at-all")
    for name in ("", "susan", "admin"):
        page.context.add_cookies([{"name": PERSON, "value": name, "url": service.url}])
        page.reload()
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        expect(page.get_by_test_id("problem")).to_contain_text("There is nothing at this address.")
        expect(page.get_by_test_id("problem").get_by_role("link", name="My jobs")).to_have_attribute(
            "href", httpx.URL(service.url).path
        )
        expect(page.get_by_text("Login", exact=True)).to_have_count(0)
        expect(page.get_by_text("Logout")).to_have_count(1 if name else 0)
        expect(page.get_by_role("link", name="Projects and quotas")).to_have_count(1 if name == "admin" else 0)
    told = httpx.get(f"{service.url}nowhere/at-all")
    assert (told.status_code, told.json()["code"]) == (404, "not_found")


def test_pages_take_the_theme_of_the_hub(visit: Visit) -> None:
    page = visit("joe", "pool", color_scheme="dark", apart=True)
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    expect(page.locator("body")).to_have_css("background-color", "rgb(33, 37, 41)")
    page.get_by_label("Toggle dark mode").click()
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.locator(".springtide").first).to_have_css("color-scheme", "light")


def test_pages_let_no_inline_script_run(service: Service) -> None:
    """That none is in the page is seen with the navigation of every page."""
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


def test_where_a_stream_is_one_too_many_the_page_asks_instead_and_tries_again_when_the_refusal_says(
    windows: Windows, service: Service
) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    refused = True

    def answer(route: Route) -> None:
        if refused:
            route.fulfill(status=429, headers={"Retry-After": "2"})
        else:
            route.continue_()

    page.add_init_script(WITHOUT_SHARED_WORKERS)
    page.route("**/api/v1/events*", answer)
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    job = service.submit("susan", name="digits")
    expect(page.locator(f"[data-job='{job.id}']").get_by_test_id("row-state")).to_have_text("Running")
    refused = False
    expect(page.get_by_test_id("connection")).to_have_text("Live while this page is in front")


def test_where_streams_do_not_get_through_the_page_asks_instead(windows: Windows, service: Service) -> None:
    page = windows.open()
    page.context.add_cookies([{"name": PERSON, "value": "susan", "url": service.url}])
    page.add_init_script(WITHOUT_SHARED_WORKERS)
    page.route("**/api/v1/events*", lambda _route: None)
    page.goto(service.url)
    expect(page.get_by_test_id("connection")).to_have_text("Updated every few seconds")
    job = service.submit("susan", name="digits")
    expect(page.locator(f"[data-job='{job.id}']").get_by_test_id("row-state")).to_have_text("Running")
