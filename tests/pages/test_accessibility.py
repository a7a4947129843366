"""Every page of a filled pool as axe-core sees it, in both themes, and every action by keyboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browsers.axe import COLOURS, THEMES, Theme, show_theme, violations, violations_in_all_states
from playwright.sync_api import Page, expect
from pools.busy_pool import BusyPool, fill
from pools.pages_service import Service

from springtide.hub_extension.web.hub import Server

Visit = Callable[..., Page]

PAGES = ("home", "jobs/", "pool", "workspaces", "report", "notifications", "admin", "job", "nothing-here")


@pytest.fixture(scope="module")
def busy(shared_service: Service) -> BusyPool:
    """A pool with jobs of three people in all states, and a workspace; tests look at them and change nothing."""
    server = Server("", "running", "/user/susan/", since=1e9, last_activity=1e9)
    shared_service.people.notebooks["susan"] = [server]
    return fill(shared_service.url)


@pytest.fixture
def service(shared_service: Service) -> Service:
    """The service, whose jobs go on after a test."""
    return shared_service


def untabbed(page: Page) -> list[str]:
    """Return the beginning of each action in the main part that the keyboard does not reach."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main :is(button, a[href], input, select, summary)")]
            .filter((element) => element.checkVisibility() && !element.disabled && element.tabIndex < 0)
            .map((element) => `${location.href}: ${element.outerHTML.slice(0, 120)}`)"""
    )
    return found


RINGLESS = """() => {
    const look = (element) => {
        const { outline, outlineStyle, boxShadow, borderColor, backgroundColor } = getComputedStyle(element);
        return [outlineStyle !== "none" && outline, boxShadow, borderColor, backgroundColor].join();
    };
    const ringOf = (element) => [element, element.nextElementSibling ?? element].map(look).join();
    const isReached = (element) => element.tabIndex >= 0 && element.checkVisibility() && !element.disabled;
    const controls = document.querySelectorAll("a[href], button, input, select, textarea, summary");
    const found = [...controls].filter(isReached);
    document.activeElement.blur();
    const before = found.map(ringOf);
    return found
        .filter((element, place) => {
            element.focus({ focusVisible: true });
            const isSame = document.activeElement === element && ringOf(element) === before[place];
            element.blur();
            return isSame;
        })
        .map((element) => `${location.href}: ${element.outerHTML.slice(0, 120)}`);
}"""
"""The beginning of each control that looks with the focus as it does without."""


def ringless(page: Page) -> list[str]:
    """Return the beginning of each control of the page, its head included, that does not show the focus."""
    page.keyboard.press("Shift")  # what the keyboard was used for last shows the focus
    found: list[str] = page.evaluate(RINGLESS)
    return found


def test_axe_finds_nothing_moderate_or_serious_on_any_page_and_every_action_is_reached_by_keyboard(
    visit: Visit, busy: BusyPool
) -> None:
    """A theme changes colours only; so do the states of a button."""
    found: list[str] = []
    page = visit("admin", "home")
    home = page.url.removesuffix("home")
    for path in PAGES:
        page.goto(home + (f"jobs/{busy.running}" if path == "job" else path))
        show_theme(page, "light")
        expect(page.locator("main h1")).to_be_visible()
        if path != "nothing-here":
            expect(page.locator("#page:not([aria-busy])")).to_be_visible()
        found += untabbed(page) + ringless(page)
        show_theme(page, "dark")
        found += ringless(page)
        show_theme(page, "light")
        if path == "home":
            page.get_by_test_id("open-vision").click()
            expect(page.get_by_test_id("project-panel")).to_be_focused()
            found += violations(page)
            page.keyboard.press("Escape")
            expect(page.get_by_test_id("open-vision")).to_be_focused()
        if path == "jobs/":
            page.get_by_test_id("filter-everybody").check()
            page.get_by_test_id("open-card").first.click()
            page.get_by_test_id("select-all").check()
        if path == "job":
            page.get_by_label("View runs.csv").click()
            expect(page.get_by_test_id("output-viewed").locator("table")).to_be_visible()
            found += untabbed(page)
        found += violations_in_all_states(page)
    assert sorted(set(found)) == []


def in_both_themes(page: Page) -> list[str]:
    """Return what axe-core finds in the light theme, and by the colours of the dark one."""
    show_theme(page, "light")
    found = violations(page)
    show_theme(page, "dark")
    return found + violations(page, **COLOURS)


def test_axe_finds_nothing_on_a_jobs_page_in_any_state_on_a_comparison_or_in_a_question(
    visit: Visit, busy: BusyPool
) -> None:
    found: list[str] = []
    page = visit("susan")
    home = page.url

    def look_at(path: str, *clicks: str) -> None:
        page.goto(home + path)
        expect(page.locator("#page:not([aria-busy])")).to_be_visible()
        for name in clicks:
            page.get_by_test_id(name).first.click()
        found.extend(in_both_themes(page))

    for job in busy.of_each_kind().values():
        if job != busy.population:  # joe's
            look_at(f"jobs/{job}")
    look_at(f"jobs/{busy.running}", "job-cancel")
    for clicks in (("job-delete",), ("job-edit",), ("checkpoint-delete",), ("checkpoint-fork",)):
        look_at(f"jobs/{busy.trained}", *clicks)
    compared = (busy.trained, busy.fork, busy.running, busy.failed)
    look_at("compare?" + "&".join(f"job={job}" for job in compared))
    for path in ("compare", "?search=no+job+has+this+name", "?show=all"):
        look_at(path)
    look_at("?show=all", "select-job", "selected-note")
    page = visit("joe", f"jobs/{busy.population}")
    expect(page.get_by_test_id("sweep-standing")).to_be_visible()
    assert found + in_both_themes(page) == []


CUT_OFF = """() => {
    const wide = (element) => element.scrollWidth > element.clientWidth + 1;
    const hides = (element) => getComputedStyle(element).overflowX !== "visible";
    const found = [...document.querySelectorAll("html, .st-wide-table, .table-responsive, .st-table :is(th, td)")]
        .filter((element) => element.checkVisibility() && wide(element))
        .filter((element) => !element.matches("th, td") || !hides(element));
    const shown = document.querySelector("main").getBoundingClientRect();
    const outside = [...document.querySelectorAll("main :is(button, input, select)")]
        .filter((element) => element.checkVisibility() && !element.closest(".st-trials-scroll"))
        .filter((element) => element.getBoundingClientRect().right > shown.right + 1);
    const edge = (element) => element.getBoundingClientRect().left;
    const labels = [...document.querySelectorAll("main .st-metric-figure text")]
        .filter((element) => edge(element) < edge(element.ownerSVGElement) - 1);
    const described = (element) => `${location.pathname} ${innerWidth}: ${element.outerHTML.slice(0, 160)}`;
    return [...found, ...outside, ...labels].map(described);
}"""


def test_nothing_is_cut_off_or_covered_at_any_width(visit: Visit, busy: BusyPool) -> None:
    """A table of jobs with many columns scrolls below the button of a row, which stays in sight."""
    found: list[str] = []
    page = visit("admin", "home")
    home = page.url.removesuffix("home")
    compared = "compare?" + "&".join(f"job={job}" for job in (busy.trained, busy.running, busy.failed))
    jobs = [f"jobs/{job}" for job in busy.of_each_kind().values()]
    for path in ("home", "jobs/", "pool", "workspaces", "report", "admin", "notifications", compared, *jobs):
        page.goto(home + path)
        expect(page.locator("#page:not([aria-busy])")).to_be_visible()
        if path == "jobs/":
            page.get_by_test_id("filter-everybody").check()
            expect(page.get_by_test_id("job-row")).to_have_count(16)
        if path == "admin":
            page.get_by_test_id("delete-vision").click()
        for width in (400, 1000, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            if path == "jobs/":
                expect(page.get_by_test_id("open-card").first).to_be_in_viewport(ratio=1)
            if path != "jobs/" or width == 400:
                found += page.evaluate(CUT_OFF)
        page.set_viewport_size({"width": 360, "height": 780})
        expect(page.locator("html"), "on a phone").to_have_js_property("scrollWidth", 360)
    assert found == []


def test_axe_sees_text_that_cannot_be_read_and_a_field_without_a_name(visit: Visit) -> None:
    page = visit("jemma", "notifications")
    expect(page.locator("#page:not([aria-busy])")).to_be_visible()
    page.evaluate(
        """() => {
            const faint = Object.assign(document.createElement("p"), { textContent: "Faint" });
            Object.assign(faint.style, { color: "#cccccc", background: "#ffffff" });
            document.querySelector("main").append(faint, document.createElement("input"));
        }"""
    )
    found = " ".join(violations(page))
    assert "color-contrast (serious)" in found
    assert "label (critical)" in found


@pytest.mark.parametrize("theme", THEMES)
def test_axe_sees_text_that_cannot_be_read_under_the_pointer_in_either_theme(visit: Visit, theme: Theme) -> None:
    page = visit("jemma", "notifications")
    expect(page.locator("#page:not([aria-busy])")).to_be_visible()
    rule = (
        f"[data-bs-theme='{theme}'] .faint:hover {{ color: #808080 !important; background: #888888 !important; }}"
    )
    page.evaluate(
        """(rule) => {
            const sheet = new CSSStyleSheet();
            sheet.replaceSync(rule);
            document.adoptedStyleSheets.push(sheet);
            const link = Object.assign(document.createElement("a"), { href: "#", textContent: "Faint" });
            link.className = "faint";
            document.querySelector("main").append(link);
        }""",
        rule,
    )
    found = violations_in_all_states(page)
    assert [f"{theme}, pointed at: {page.url}: color-contrast" in line for line in found] == [True]
