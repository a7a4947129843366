"""The navigation of every page: what it has for whom, in one line at the widths of screens, or behind a button."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect
from pools.pages_service import Service

MOST_HEIGHT = 72
"""Maximum height of a navigation in one line, in pixels."""
LINKS = ["Home", "My jobs", "Pool", "Workspaces", "Report", "Notifications"]
"""The navigation that everyone has, before the link to tokens."""
OF_ADMINS = [LINKS[0], "Overview", *LINKS[1:], "Projects and quotas", "Admin", "Token"]
"""The navigation of administrators."""


def expect_one_line(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    links = page.locator("nav .nav-link:visible")
    expect(links.last).to_be_visible()
    boxes = links.evaluate_all("(links) => links.map((link) => link.getBoundingClientRect().toJSON())")
    assert len({round(box["top"]) for box in boxes}) == 1
    navigation = page.locator("nav.navbar").bounding_box()
    assert navigation is not None
    assert navigation["height"] <= MOST_HEIGHT
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def expect_button(page: Page, width: int) -> None:
    """Check that the links are behind a button, by which they are shown and hidden again."""
    page.set_viewport_size({"width": width, "height": 800})
    links, button = page.locator("nav .nav-link"), page.get_by_role("button", name="Toggle navigation")
    expect(links.first).to_be_hidden()
    button.press("Enter")
    expect(page.locator(".navbar-collapse.show")).to_be_visible()
    expect(links.first).to_be_visible()
    expect(links.last).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    button.press("Enter")


def test_every_page_has_the_products_name_and_the_whole_navigation(
    visit: Callable[..., Page], service: Service
) -> None:
    page = visit("admin", "nowhere")
    for path in ("nowhere", "home", "jobs/", "pool", "workspaces", "report", "admin", "notifications"):
        if path != "nowhere":
            page.goto(service.url + path)
        expect(page.locator("#springtide-brand")).to_have_text("Springtide")
        expect(page.locator("nav .nav-link")).to_have_text(OF_ADMINS)
        assert page.locator("script:not([src])").count() == 0
    for width in (1200, 1600):
        expect_one_line(page, width)
    for width in (1000, 400):
        expect_button(page, width)


def test_who_is_no_admin_finds_no_page_of_admins_in_the_navigation(visit: Callable[..., Page]) -> None:
    page = visit("joe", "notifications")
    expect(page.locator("nav .nav-link")).to_have_text([*LINKS, "Token"])
    expect_one_line(page, 1000)
