"""The browser of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from system_packages import CHROMIUM, find_program

BROWSER_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> Path:
    """Return the path of Chromium; fail the test when this machine has none."""
    found = find_program(CHROMIUM)
    if found is None:
        pytest.fail("There is no Chromium on this machine: run `make tools`")
    return found
