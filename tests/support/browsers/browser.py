"""The browser of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from machines.c_library import compile_library
from machines.system_packages import CHROMIUM, find_browser, find_program
from patience import PATIENCE_S
from playwright.sync_api import (
    Browser,
    BrowserContext,
    BrowserType,
    ConsoleMessage,
    Page,
    Route,
    expect,
    sync_playwright,
)

SOURCE = Path(__file__).with_name("no_network_news.c")
BROWSER_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
    "--enable-features=NetworkServiceInProcess2",  # a sixth less work for a page than with another process
]
ONE_PROCESS = "--renderer-process-limit=1"
"""All tabs of a window have one process: a new one would compile anew what it has compiled for another."""

SETTLED = """([width, frames]) => new Promise((done) => {
    let quiet = 0;
    const watcher = new MutationObserver(() => { quiet = -1; });
    watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    const look = () => {
        quiet = innerWidth === width ? quiet + 1 : 0;
        if (quiet < frames) return requestAnimationFrame(look);
        watcher.disconnect();
        return done(true);
    };
    requestAnimationFrame(look);
})"""
"""Waits until a window has its width and so many frames in turn were drawn in which nothing changed."""
QUIET_FRAMES = 4
"""JupyterLab arranges its parts a frame after a window has changed, and tables their columns one later."""
KEEPER = "http://127.0.0.1/keeper"
"""Address of the tab that keeps the process of a window's tabs; a process is of one site, whatever the port."""


def chromium(*, whole: bool = False) -> Path:
    """Return the path of a Chromium, or of a ``whole`` one; fail the test when this machine has none."""
    found = find_program(CHROMIUM) if whole else find_browser()
    if found is None:
        pytest.fail("There is no Chromium on this machine: run `make tools`")
    return found


def heard(window: BrowserContext) -> list[str]:
    """Listen to all tabs of a window; return the list of what goes wrong in them, which grows from now on."""
    wrong: list[str] = []

    def say(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            wrong.append(f"{message.type}: {message.text}")

    window.on("console", say)
    window.on("weberror", lambda error: wrong.append(f"uncaught: {error.error}"))
    window.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}: {request.failure}"))
    return wrong


def resize(page: Page, width: int, height: int = 900) -> None:
    """Give a window another size, and wait until what is in it has taken its place."""
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function(SETTLED, arg=[width, QUIET_FRAMES])


def keep_process(window: BrowserContext) -> None:
    """Keep the process of a window's tabs, with the scripts that it has compiled, while all of them are closed."""

    def answer(route: Route) -> None:
        route.fulfill(body="")

    keeper = window.new_page()
    keeper.route(KEEPER, answer)
    keeper.goto(KEEPER)


def tabs_of(window: BrowserContext) -> list[Page]:
    """Return the tabs that tests or pages have opened in a window."""
    return [tab for tab in window.pages if tab.url != KEEPER]


@contextmanager
def launched(of: BrowserType, *, whole: bool = False, processes_apart: bool = False) -> Iterator[Browser]:
    """Start Chromium, or a ``whole`` one, which hears nothing of changes of the machine's network interfaces.

    All tabs of a window have one process unless ``processes_apart``.
    """
    args = BROWSER_ARGS if processes_apart else [*BROWSER_ARGS, ONE_PROCESS]
    with TemporaryDirectory() as folder:
        environment: dict[str, str | float | bool] = {
            **os.environ,
            "LD_PRELOAD": str(compile_library(SOURCE, Path(folder) / "no_network_news.so")),
        }
        with of.launch(executable_path=chromium(whole=whole), args=args, env=environment) as browser:
            yield browser


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start Chromium, give it, and end it; no test with an event loop of its own can run meanwhile."""
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright, launched(playwright.chromium) as browser:
        yield browser
