"""What axe-core finds on a page, at rest and in the colours that its elements have under pointer and focus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Error, Page

Theme = Literal["light", "dark"]

THEMES: tuple[Theme, Theme] = ("light", "dark")
COLOURS: dict[str, Any] = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
FOUND = frozenset({"moderate", "serious", "critical"})
POINTED_AT = "a, button, input, select, textarea, summary, label, tr, [tabindex]"
"""Selector of elements with other colours under the pointer or with focus."""
STATES = ["hover", "focus", "focus-visible"]
REDRAWN = "Could not find node with given id"
"""Chromium's error about an element that a live page has removed meanwhile."""
VIOLATIONS = """([within, options]) => axe.run(within, options).then(
    ({ violations }) => violations.map(({ id, impact, nodes }) => ({
        id, impact, nodes: nodes.map(({ target, failureSummary }) => ({ target, failureSummary })),
    })))"""
"""What axe-core finds, without what it found to be right: Python would read all of that."""


def violations(page: Page, within: str = "html", **only: Any) -> list[str]:
    """Return what axe-core finds that matters within the elements of a selector, one line for each element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(f"() => {{ {AXE_SCRIPT} }}")
    found = page.evaluate(VIOLATIONS, [within, {"resultTypes": ["violations"], **only}])
    return [
        f"{page.url}: {each['id']} ({each['impact']}): {' '.join(node['target'])} {node['failureSummary']}"
        for each in found
        if each["impact"] in FOUND
        for node in each["nodes"]
    ]


def violations_in_all_states(page: Page) -> list[str]:
    """Return what axe-core finds in both themes, at rest and with every element under the pointer and in focus.

    A theme and a state change colours only, so all other rules are tried once; and a state changes those of its
    element and its contents. The page keeps the dark theme.
    """
    found = []
    for theme in THEMES:
        show_theme(page, theme)
        found += violations(page, **({} if theme == THEMES[0] else COLOURS))
    with pointed_at(page):
        for theme in THEMES:
            show_theme(page, theme)
            found += [f"{theme}, pointed at: {line}" for line in violations(page, POINTED_AT, **COLOURS)]
    return found


def show_theme(page: Page, theme: Theme) -> None:
    """Show the page in one of the hub's themes."""
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # without transitions between colours
    page.evaluate("(theme) => document.documentElement.setAttribute('data-bs-theme', theme)", theme)


@contextmanager
def pointed_at(page: Page) -> Iterator[None]:
    """Show every element as it is under the pointer and in focus, all at once."""
    devtools = page.context.new_cdp_session(page)
    for domain in ("DOM", "CSS"):
        devtools.send(f"{domain}.enable")
    root = devtools.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
    found = devtools.send("DOM.querySelectorAll", {"nodeId": root, "selector": POINTED_AT})["nodeIds"]
    for node in found:
        try:
            devtools.send("CSS.forcePseudoState", {"nodeId": node, "forcedPseudoClasses": STATES})
        except Error as error:
            if REDRAWN not in str(error):
                raise
    yield
    devtools.detach()
