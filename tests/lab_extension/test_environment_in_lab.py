"""An environment of one's own from JupyterLab's launcher: made, and a notebook with its kernel."""

from __future__ import annotations

import pytest
from benches.lab_bench import PANEL, Desk, Lab
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.timeout(600)]


def ask_for(tab: Page, name: str) -> None:
    """Choose the launcher's tile and fill in the dialog."""
    tab.get_by_role("button", name="New Launcher").first.click()
    tile = tab.locator(".jp-LauncherCard:visible", has_text="New Environment")
    picture = tile.locator("img").element_handle()
    tab.wait_for_function("(picture) => picture.naturalWidth > 0", arg=picture)
    tile.click()
    tab.get_by_test_id("form-environment-name").fill(name)
    tab.get_by_role("button", name="Make", exact=True).click()


def test_a_tile_of_the_launcher_makes_an_environment_and_opens_a_notebook_in_it(lab: Lab, desk: Desk) -> None:
    lab.write("here.ipynb", ("1", None))
    tab = desk("here.ipynb")
    tab.wait_for_function(f"() => {PANEL}?.sessionContext?.session?.kernel?.status === 'idle'")
    ask_for(tab, "Mine")
    expect(tab.locator(".jp-Dialog")).to_contain_text("“Mine” is no name of an environment")
    tab.locator(".jp-Dialog-footer button").click()
    again = tab.get_by_test_id("form-environment-name")
    expect(again).to_have_value("Mine")
    again.fill("mine")
    tab.get_by_role("button", name="Make", exact=True).click()
    tab.wait_for_function(f"{PANEL}?.sessionContext?.session?.kernel?.name === 'springtide-mine'")
    assert (lab.root / ".local/share/springtide/environments/mine/bin/python").exists()
