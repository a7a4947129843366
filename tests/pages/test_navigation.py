"""The navigation at the widths of screens: all of it in one line, or behind a button."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, ViewportSize, expect

MOST_HEIGHT = 72
"""Maximum height of a navigation in one line, in pixels."""


@pytest.mark.parametrize(("person", "width"), [("joe", 1000), ("admin", 1200), ("admin", 1600)])
def test_the_navigation_is_one_line(visit: Callable[..., Page], person: str, width: int) -> None:
    size: ViewportSize = {"width": width, "height": 700}
    page = visit(person, "notifications", viewport=size)
    links = page.locator("nav .nav-link:visible")
    expect(links.last).to_be_visible()
    boxes = links.evaluate_all("(links) => links.map((link) => link.getBoundingClientRect().toJSON())")
    assert len({round(box["top"]) for box in boxes}) == 1
    navigation = page.locator("nav.navbar").bounding_box()
    assert navigation is not None
    assert navigation["height"] <= MOST_HEIGHT
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [400, 1000])
def test_an_administrators_links_are_behind_a_button_where_they_do_not_fit(
    visit: Callable[..., Page], width: int
) -> None:
    page = visit("admin", "notifications", viewport={"width": width, "height": 800})
    links = page.locator("nav .nav-link")
    expect(links.first).to_be_hidden()
    page.get_by_role("button", name="Toggle navigation").press("Enter")
    expect(links.first).to_be_visible()
    expect(links.last).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
