"""The browser of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from system_packages import CHROMIUM, find_browser, find_program

PATIENCE_S = 60
"""Time in which what a page is expected to show has to appear, in seconds."""
BROWSER_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--enable-features=NetworkServiceInProcess2",  # a sixth less work for a page than with another process
]


def chromium(*, whole: bool = False) -> Path:
    """Return the path of a Chromium, or of a ``whole`` one; fail the test when this machine has none."""
    found = find_program(CHROMIUM) if whole else find_browser()
    if found is None:
        pytest.fail("There is no Chromium on this machine: run `make tools`")
    return found


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start Chromium, give it, and end it; no test with an event loop of its own can run meanwhile."""
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=BROWSER_ARGS)
        yield browser
        browser.close()
