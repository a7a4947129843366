"""A hub with eight simulated train GPUs, a real browser, and what the trainings come to without a pause."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_people import PATIENCE_S
from hub_process import HubProcess
from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).parents[2]
CHROMIUM = "/usr/bin/chromium"
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", "--disable-sync")  # fmt: skip
EXAMPLE = ROOT / "examples/digits"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcess]:
    hub = HubProcess(tmp_path / "state", settings={"min_runtime": 1.0})
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A browser whose windows are photographed at the end, for whoever wonders why a story failed."""
    assert Path(CHROMIUM).exists(), "The story needs a browser: apt-get install chromium (or: make tools)"
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        for number, page in enumerate(page for context in browser.contexts for page in context.pages):
            page.screenshot(path=tmp_path / f"window-{number}.png")
        browser.close()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the newer training's weights when it runs by itself, outside any pool."""
    found = re.search(r"deep = pool\.submit\(train, layers=\[([\d, ]+)\]", (EXAMPLE / "digits.ipynb").read_text())
    assert found, "the example's newer training"
    command = [sys.executable, str(EXAMPLE / "train.py"), "--layers", *found.group(1).split(", ")]
    done = subprocess.run(
        command, cwd=tmp_path_factory.mktemp("alone"), check=True, capture_output=True, text=True
    )
    weights: str = json.loads(done.stdout.splitlines()[-1])["weights"]
    return weights
