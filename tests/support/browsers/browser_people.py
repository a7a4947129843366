"""Users in a browser: every action goes through the pages."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

from hubs.hub_process import HubProcess
from patience import PATIENCE_S
from playwright.sync_api import Browser, Error, Locator, Page, ViewportSize, expect

SPAWN_TIMEOUT_MS = 240_000
KERNEL_TIMEOUT_MS = 120_000
KERNEL_TRIES = 6
"""Number of attempts to run a cell; a new notebook discards cells that run before its kernel is connected."""


@dataclass
class Person:
    """A user logged in to the hub, with one tab for the notebook and one for the pool's pages."""

    name: str
    hub: str
    tab: Page

    @classmethod
    def log_in(
        cls,
        browser: Browser,
        hub: HubProcess,
        name: str,
        *,
        width: int = 1400,
        scale: float = 1,
        any_certificate: bool = False,
    ) -> Person:
        size: ViewportSize = {"width": width, "height": 2600}
        context = browser.new_context(
            viewport=size,
            device_scale_factor=scale,
            reduced_motion="reduce",
            ignore_https_errors=any_certificate,
        )
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE_S * 1000)
        tab.goto(f"{hub.url}/hub/login")
        tab.get_by_label("Username").fill(name)
        tab.get_by_label("Password").fill(hub.password)
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_url(re.compile("/hub/(home|spawn)|/user/|/services/springtide/home"))
        return cls(name, hub.url, tab)

    def start_notebook(self) -> None:
        """Start the build notebook, which opens the example, by one click on the form that shows free GPUs."""
        told = self.tab.get_by_text("simulated").first
        restarting = self.tab.get_by_text("the Springtide service is restarting")
        self.tab.goto(f"{self.hub}/hub/spawn")
        for _ in range(60):
            expect(told.or_(restarting).first).to_be_visible()
            if not restarting.is_visible():
                break
            self.tab.wait_for_timeout(500)
            self.tab.reload()
        expect(told).to_be_visible()
        self.tab.get_by_role("button", name="Start").click()
        self.tab.wait_for_url(re.compile(f"/user/{self.name}/lab"), timeout=SPAWN_TIMEOUT_MS)
        self.tab.get_by_role("heading", name="Two trainings in a shared pool").wait_for(timeout=KERNEL_TIMEOUT_MS)
        idle = self.tab.locator(".jp-NotebookPanel .jp-Notebook-ExecutionIndicator[data-status='idle']")
        idle.first.wait_for(timeout=KERNEL_TIMEOUT_MS)

    def edit_line(self, line: str, instead: str) -> None:
        """Replace a line of code in the notebook."""
        self.tab.locator(".jp-NotebookPanel .cm-line").get_by_text(line, exact=True).click(click_count=3)
        self.tab.keyboard.insert_text(instead)
        expect(self.tab.locator(".jp-NotebookPanel .cm-line").get_by_text(instead, exact=True)).to_be_visible()

    def run_all(self) -> None:
        """Run all cells with the menu entry Run, Run All Cells."""
        self.tab.get_by_role("menuitem", name="Run", exact=True).click()
        self.tab.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    def type_and_run(self, code: str) -> None:
        """Type a cell below the first one and run it."""
        self.tab.locator(".jp-NotebookPanel .jp-CodeCell .cm-content").first.click()
        for key in ("Escape", "b", "Enter"):
            self.tab.keyboard.press(key)
        self.tab.keyboard.insert_text(code)
        cell = self.tab.locator(".jp-NotebookPanel .jp-CodeCell").nth(1)
        ran = cell.locator(".jp-InputPrompt").filter(has_text=re.compile(r"\[[\d*]+\]"))
        for _ in range(KERNEL_TRIES):
            cell.locator(".cm-content").click()
            self.tab.keyboard.press("Shift+Enter")
            with contextlib.suppress(Error):
                ran.wait_for(timeout=KERNEL_TIMEOUT_MS / KERNEL_TRIES)
                return
        raise AssertionError(f"the kernel of {self.name} never ran: {code}")

    def printed(self) -> Locator:
        """Return the output of the last typed cell."""
        return self.tab.locator(".jp-NotebookPanel .jp-CodeCell").nth(1).locator(".jp-OutputArea-output")

    def card(self, name: str) -> Locator:
        """Return the live card of a job in the notebook."""
        return self.tab.get_by_test_id("job-card").filter(
            has=self.tab.get_by_test_id("job-name").get_by_text(name)
        )

    def goto(self, page: str) -> None:
        """Open one of the pool's pages."""
        self.tab.goto(f"{self.hub}/services/springtide/{page}")

    def change_quota(self, project: str, quota: int) -> None:
        """Edit a project's quota in place, and save."""
        self.tab.get_by_test_id(f"edit-quota-{project}").fill(str(quota))
        self.tab.get_by_test_id(f"save-{project}").click()


def expect_state(card: Locator, state: str, timeout_s: float = PATIENCE_S) -> None:
    """Check that the card shows, as text, the state of its job."""
    expect(card.get_by_test_id("job-state")).to_contain_text(state, ignore_case=True, timeout=timeout_s * 1000)
