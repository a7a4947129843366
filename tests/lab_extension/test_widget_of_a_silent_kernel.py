"""The card of the widget, where no extension draws it: it says that its kernel is silent, and stops its clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from browsers.widget_page import show_widget
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.xdist_group("lab")

JOB: dict[str, Any] = {
    "id": "k3v9x2m4p7q1", "name": "digits", "user": "susan", "project": "vision", "state": "running", "workers": 1,
    "gpus": 1, "min_workers": 1, "retries": 0, "failures": 0, "held": [], "held_by_user": False, "submitted": 0,
    "attempt": 1, "attempts": [{"number": 1, "state": "running", "created": 0, "started": 0, "gpus": []}],
    "progress": {"step": 1, "of": 10, "at": 0, "values": {}}, "reason": None, "starts": None, "error": "",
}  # fmt: skip
TRAITS = {"job": JOB, "points": [], "log": "", "notice": "", "colour": 0, "simulated": False, "version": 1}


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A page with a card whose kernel says nothing; time passes when the test says so, in this window alone."""
    tab = browser.new_page()
    tab.clock.install()
    tab.goto("about:blank")
    show_widget(tab, "notebook/card_widget.js", "cardWidget", TRAITS)
    yield tab
    tab.close()


def test_a_card_says_that_its_kernel_is_silent_and_lives_again_when_it_is_not(tab: Page) -> None:
    expect(tab.get_by_test_id("job-pause")).to_be_enabled()
    tab.clock.run_for(20_000)
    expect(tab.get_by_test_id("job-blocked")).to_contain_text("kernel of this card has not answered")
    expect(tab.get_by_test_id("job-pause")).to_be_disabled()
    shown = tab.get_by_test_id("job-card").inner_text()
    tab.clock.run_for(20_000)
    assert tab.get_by_test_id("job-card").inner_text() == shown, "no clock of it goes on"

    tab.evaluate("() => window.model.tell('msg:custom', { fresh: true })")
    expect(tab.get_by_test_id("job-blocked")).to_have_count(0)
    expect(tab.get_by_test_id("job-pause")).to_be_enabled()
