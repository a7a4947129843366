"""JupyterLab and Notebook 7 of one notebook server, in a browser, in front of a real pool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from benches.lab_bench import VIEWPORT, Desk, Lab
from benches.server_extension_bench import start_server, stop
from browsers.browser import heard, keep_process, running_browser, tabs_of
from patience import PATIENCE_S
from playwright.sync_api import Browser, BrowserContext, Page
from plugins.failures import has_failed
from pools.pool_process import ServiceProcess

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import Job, Submission

STEPS = """
import time
from springtide.training import current_job
job = current_job()
for step in range(6000):
    job.report(step=step + 1, of=6000, loss=1 / (step + 1))
    print("line", step, flush=True)
    time.sleep(0.5)
"""


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """The pool's service; it can be killed and started again."""
    service = ServiceProcess(tmp_path_factory.mktemp("pool"))
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, service: ServiceProcess) -> Iterator[Lab]:
    """Susan's notebook server."""
    root = tmp_path_factory.mktemp("susan")
    environment = {"SPRINGTIDE_URL": service.url, "JUPYTERHUB_API_TOKEN": "susan", "SPRINGTIDE_PAGES": "/pages/"}
    server = start_server(root, environment, pages=True)
    yield Lab(root, server)
    stop(server)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of the group ``lab``."""
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """The browser window of all tests of the group: what JupyterLab loads is kept from one to the next."""
    window = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    window.set_default_timeout(PATIENCE_S * 1000)
    keep_process(window)
    yield window
    window.close()


@pytest.fixture(scope="session")
def wrong(window: BrowserContext) -> list[str]:
    """What goes wrong in the tabs of the window."""
    return heard(window)


@pytest.fixture
def context(
    window: BrowserContext, wrong: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[BrowserContext]:
    """A browser window that is empty at first; its tabs are photographed when the test has failed.

    What went wrong in them is printed then. A test that uses `desk` has the tab of the test before it.
    """
    wrong.clear()
    if "desk" not in request.fixturenames:
        for tab in tabs_of(window):
            tab.close()
    yield window
    if has_failed(request.node):
        print(*wrong, sep="\n")
    window.set_offline(False)
    for number, tab in enumerate(tabs_of(window)):
        if has_failed(request.node):
            tab.screenshot(path=tmp_path / f"tab-{number}.png")
        if number or has_failed(request.node) or "desk" not in request.fixturenames:
            tab.close()
    window.clear_cookies()


@pytest.fixture
def desk(lab: Lab, context: BrowserContext) -> Desk:
    """Opens a notebook in JupyterLab, in the tab that the test before it has left, if any.

    Loading JupyterLab is most of the work of a short test. One about what a page loads or keeps opens its own.
    """

    def open_(name: str) -> Page:
        if not tabs_of(context):
            return lab.open(context, name)
        (tab,) = tabs_of(context)
        lab.show(tab, name)
        return tab

    return open_


@pytest.fixture
def steps() -> str:
    """The program of a job that reports a step twice a second."""
    return STEPS


@pytest.fixture
def submit(service: ServiceProcess) -> Iterator[Callable[..., Job]]:
    """Submits jobs of susan's, which report a step twice a second by default; they are ended afterwards."""
    with Client(service.url, "susan") as susan:
        jobs = []

        def submit(name: str, gpus: int = 1, program: str = STEPS, options: Sequence[str] = ()) -> Job:
            argv = [sys.executable, "-c", program, *options]
            body = Submission(argv=argv, kind="command", cwd="/tmp", project="vision", gpus=gpus, name=name)
            jobs.append(susan.submit(body))
            return jobs[-1]

        yield submit
        for job in jobs:
            with suppress(PoolError):
                susan.cancel(job.id)
