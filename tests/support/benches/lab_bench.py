"""A notebook server with JupyterLab and Notebook 7, and the notebooks in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
from benches.server_extension_bench import TOKEN, NotebookServer
from playwright.sync_api import BrowserContext, Locator, Page, ViewportSize, expect

PANEL = "window.jupyterapp?.shell?.currentWidget"
Desk: TypeAlias = Callable[[str], Page]
"""Opens a notebook, by its name, in the JupyterLab that the tests of the group share."""
VIEWPORT: ViewportSize = {"width": 1300, "height": 1000}
CLEAR = """async () => {
    localStorage.clear();
    const { commands, serviceManager, shell } = window.jupyterapp;
    for (const widget of [...shell.widgets("main")]) {
        if (widget.context) widget.context.model.dirty = false;
        widget.close();
    }
    shell.collapseRight();
    await commands.execute("filebrowser:activate");
    await commands.execute("apputils:dismiss-notification", {});
    await serviceManager.sessions.shutdownAll();
}"""
"""Closes all tabs of JupyterLab and shuts the kernels down; it opens the launcher then."""
SHOW = """async (path) => {
    const { commands, shell } = window.jupyterapp;
    const launchers = [...shell.widgets("main")];
    await commands.execute("filebrowser:refresh");
    await commands.execute("docmanager:open", { path, factory: "Notebook" });
    for (const launcher of launchers) launcher.close();
}"""
"""Opens a notebook in place of the launcher."""


@dataclass
class Lab:
    """JupyterLab and Notebook 7 of one server; ``root`` has its notebooks."""

    root: Path
    server: NotebookServer

    def write(self, name: str, *cells: tuple[str, dict[str, Any] | None]) -> None:
        """Write a notebook of cells, each a text and its output, as a kernel that is gone has left it."""
        made = [nbformat.v4.new_code_cell(text, outputs=_outputs(data)) for text, data in cells]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(nbformat.v4.new_notebook(metadata={"kernelspec": kernel}, cells=made), self.root / name)

    def open(self, context: BrowserContext, name: str, application: str = "lab") -> Page:
        """Open a notebook in JupyterLab (``lab``) or Notebook 7 (``notebook``).

        Their dialogs about a lost connection to the notebook server, and about a kernel that could not start
        meanwhile, are dismissed.
        """
        tab = context.new_page()
        lost = tab.locator(".jp-Dialog", has_text=re.compile("Server Connection Error|Error Starting Kernel"))
        tab.add_locator_handler(lost, lambda dialog: dialog.locator(".jp-Dialog-footer button").click())
        path = {"lab": f"lab/workspaces/auto-{len(context.pages)}/tree", "notebook": "notebooks"}[application]
        tab.goto(f"{self.server.url}{path}/{name}?reset&token={TOKEN}")
        return tab

    def show(self, tab: Page, name: str) -> None:
        """Open a notebook in a JupyterLab that an earlier test has used, with nothing else on its screen."""
        tab.unroute_all()
        tab.set_viewport_size(VIEWPORT)
        dialogs = tab.locator(".jp-Dialog")
        for _ in range(dialogs.count()):
            tab.keyboard.press("Escape")
        expect(dialogs).to_have_count(0)
        tab.evaluate(CLEAR)
        expect(tab.locator(".jp-Launcher")).to_be_visible()
        expect(tab.locator(".jp-NotebookPanel, .springtide-tab")).to_have_count(0)
        expect(tab.locator(".Toastify__toast")).to_have_count(0)
        tab.evaluate(SHOW, name)
        expect(tab.locator(".jp-Launcher")).to_have_count(0)


def _outputs(data: dict[str, Any] | None) -> list[Any]:
    return [] if data is None else [nbformat.v4.new_output("execute_result", data=data, execution_count=1)]


def card(tab: Page) -> Locator:
    """Return the first card of the page."""
    return tab.get_by_test_id("job-card").first


def step(tab: Page) -> int:
    """Return the step that the first card shows."""
    words = card(tab).get_by_test_id("job-progress").inner_text()
    found = re.search(r"step ([\d,]+)", words)
    assert found, words
    return int(found.group(1).replace(",", ""))


def expect_to_go_on(tab: Page) -> None:
    """Check that the card's job reports further steps."""
    seen = step(tab)
    following = re.compile(rf"step (?!{seen:,} of)")
    expect(card(tab).get_by_test_id("job-progress")).to_contain_text(following)


def expect_state(tab: Page, state: str) -> None:
    """Check the state of the first card, which is drawn while it is in sight."""
    card(tab).scroll_into_view_if_needed()
    expect(card(tab).get_by_test_id("job-state")).to_contain_text(state)
