"""Every page of a filled pool as axe-core sees it, in both themes, and every action by keyboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe import show_theme, violations, violations_in_all_states
from pages_service import Service
from playwright.sync_api import Page, expect

from springtide.hub_extension.web.hub import Server
from springtide.scheduler import wire

Visit = Callable[..., Page]

PAGES = ("", "pool", "workspaces", "notifications", "admin", "job", "nothing-here")
EVERYTHING = """
import json, os, time
for step in range(1, 9):
    with open(os.environ["SPRINGTIDE_REPORT"], "a") as report:
        report.write(json.dumps({"at": time.time(), "step": step, "of": 60, "values": {"loss": 1 / step}}) + "\\n")
    print("epoch", step, flush=True)
outputs = os.environ["SPRINGTIDE_OUTPUT_DIR"]
with open(outputs + "/notes.txt", "w") as notes:
    notes.write("best at step 3")
with open(outputs + "/runs.csv", "w") as runs:
    runs.write("step,loss,note\\n" + "".join(f"{step},{1 / step},fine\\n" for step in range(1, 300)))
time.sleep(600)
"""


@pytest.fixture
def filled(service: Service) -> str:
    """A pool with jobs of three people in several states, and workspaces; the id of one that has it all."""
    service.people.notebooks["susan"] = [Server("", "running", "/user/susan/", since=1e9, last_activity=1e9)]
    running = service.submit(
        "susan", "python3", "-c", EVERYTHING, name="digits", gpus=4, source="def train(): ..."
    )
    service.submit("joe", name="faces", gpus=2)
    failed = service.submit("jemma", "false", name="failed")
    for number in range(4):
        service.submit("susan", name=f"sweep {number}", gpus=2)
    service.until(running.id, lambda job: job.progress.step == 8)
    service.until(failed.id, lambda job: job.state == "failed")
    return running.id


def untabbed(page: Page) -> list[str]:
    """Return the beginning of each action in the main part that the keyboard does not reach."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main :is(button, a[href], input, select, summary)")]
            .filter((element) => element.checkVisibility() && !element.disabled && element.tabIndex < 0)
            .map((element) => `${location.href}: ${element.outerHTML.slice(0, 120)}`)"""
    )
    return found


def test_axe_finds_nothing_moderate_or_serious_on_any_page_and_every_action_is_reached_by_keyboard(
    visit: Visit, filled: str
) -> None:
    """A theme changes colours only; so do the states of a button."""
    found: list[str] = []
    page = visit("admin")
    home = page.url
    for path in PAGES:
        page.goto(home + (f"jobs/{filled}" if path == "job" else path))
        show_theme(page, "light")
        expect(page.locator("main h1")).to_be_visible()
        if path != "nothing-here":
            expect(page.locator("#page:not([aria-busy])")).to_be_visible()
        found += untabbed(page)
        if path == "":
            page.get_by_test_id("filter-everybody").check()
            page.get_by_test_id("open-card").first.click()
            page.get_by_test_id("select-all").check()
        if path == "job":
            page.get_by_label("View runs.csv").click()
            expect(page.get_by_test_id("output-viewed").locator("table")).to_be_visible()
            found += untabbed(page)
        found += violations_in_all_states(page)
    assert sorted(set(found)) == []


CUT_OFF = """() => {
    const wide = (element) => element.scrollWidth > element.clientWidth + 1;
    const hides = (element) => getComputedStyle(element).overflowX !== "visible";
    const found = [...document.querySelectorAll("html, .st-wide-table, .table-responsive, .st-table :is(th, td)")]
        .filter((element) => element.checkVisibility() && wide(element))
        .filter((element) => !element.matches("th, td") || !hides(element));
    const shown = document.querySelector("main").getBoundingClientRect();
    const outside = [...document.querySelectorAll("main :is(button, input, select)")]
        .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > shown.right + 1);
    const described = (element) => `${location.pathname} ${innerWidth}: ${element.outerHTML.slice(0, 160)}`;
    return [...found, ...outside].map(described);
}"""


def test_nothing_of_a_table_is_cut_off_or_covered_at_any_width(
    visit: Visit, service: Service, filled: str
) -> None:
    service.submit("joe", name="a name that a person has typed without thinking of tables " * 2, gpus=2)
    service.submit("susan", name="a" * 100, workers=2, gpus=4)
    service.submit("susan", name="rates", gpus=4, trials=wire.Trials(number=6, parameters=[{"lr": 1}] * 6))
    found: list[str] = []
    page = visit("admin")
    home = page.url
    for path in ("", "pool", "workspaces", "admin", f"jobs/{filled}"):
        page.goto(home + path)
        expect(page.locator("#page:not([aria-busy])")).to_be_visible()
        if path == "":
            page.get_by_test_id("filter-everybody").check()
            expect(page.get_by_test_id("job-row")).to_have_count(9)
        for width in (400, 1000, 1600):
            page.set_viewport_size({"width": width, "height": 900})
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
