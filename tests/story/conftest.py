"""A hub with eight simulated train GPUs, a real browser, and what the trainings come to without a pause."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsers.browser import running_browser
from hubs.hub_people import Hub, until
from patience import PATIENCE_S
from playwright.sync_api import Browser
from plugins.failures import has_failed

from springtide.scheduler.client import Client
from springtide.scheduler.executors.local.executor import service_environment
from springtide.scheduler.wire import ProjectEdit

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/digits"
CONFIG = f"""
c.Springtide.min_runtime = 1.0
c.LocalProcessSpawner.interrupt_timeout = {PATIENCE_S:.0f}  # a page of one that is stopping is looked at
"""
EPOCHS = 24
EPOCH_S = 0.75
LOG_END = 6000
UNFINISHED = "queued,starting,running,pausing,cancelling,ending,paused"


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub of all tests of the group ``story``."""
    hub = Hub(tmp_path_factory.mktemp("hub") / "state", CONFIG)
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()


@pytest.fixture(scope="session")
def group_browser() -> Iterator[Browser]:
    """The browser of a group of these tests."""
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def browser(group_browser: Browser) -> Iterator[Browser]:
    """The browser, whose windows are closed when the tests of a file have ended."""
    yield group_browser
    for context in group_browser.contexts:
        context.close()


@pytest.fixture(autouse=True)
def told(hub: Hub, browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """When a story has failed, print the state of the windows and the end of the hub's log, which show why."""
    yield
    if not has_failed(request.node):
        return
    for number, page in enumerate(page for context in browser.contexts for page in context.pages):
        page.screenshot(path=tmp_path / f"window-{number}.png")
        print(f"window {number}, {page.url}:", *page.get_by_test_id("job-card").all_inner_texts(), sep="\n")
    print((hub.state_dir / "hub/hub.log").read_text()[-LOG_END:])


@pytest.fixture
def empty_pool(hub: Hub) -> Iterator[None]:
    """A pool without jobs; those of the test are ended, and quotas put back."""
    with Client(f"{hub.url}/services/springtide", hub.token("admin")) as admin:
        quotas = {project.name: project.quota for project in admin.pool().projects}
        yield
        for job in list(admin.all_jobs(state=UNFINISHED)):
            admin.cancel(job.id)
        until("the end of all jobs", lambda: not admin.jobs(state=UNFINISHED).items)
        projects = [project for project in admin.pool().projects if project.quota != quotas[project.name]]
        for project in sorted(projects, key=lambda project: project.quota or 0, reverse=True):
            admin.edit_project(project.name, ProjectEdit(quota=quotas[project.name]))


def example(*, pause_s: float = 0) -> str:
    """Return the example's script with small networks, whose epochs last at least so long, in seconds.

    Its trainings last long enough for all that happens meanwhile, and leave the processor to that.
    """
    script = (EXAMPLE / "train.py").read_text()
    for line, instead in (
        ("MLPClassifier(layers,", "MLPClassifier([units // 8 for units in layers],"),
        ("model.partial_fit(", f"__import__('time').sleep({pause_s}); model.partial_fit("),
    ):
        assert line in script
        script = script.replace(line, instead)
    return script


@pytest.fixture(scope="session")
def epochs() -> int:
    """Number of epochs of susan's trainings."""
    return EPOCHS


@pytest.fixture(scope="session")
def slow_example() -> str:
    """The script that susan trains by."""
    return example(pause_s=EPOCH_S)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Tells the digest of the weights of a training of the example, by name, when nothing pauses it."""

    @functools.cache
    def weights(name: str) -> str:
        """Train outside any pool, in a job's environment: other settings would change the last bits."""
        variable = name.rsplit(maxsplit=1)[-1]
        submitted = rf"{variable} = pool\.submit\(train, layers=\[([\d, ]+)\]"
        found = re.search(submitted, (EXAMPLE / "digits.ipynb").read_text())
        assert found, f"the example submits {name!r}"
        script = tmp_path_factory.mktemp("alone") / "train.py"
        script.write_text(example())
        command = [sys.executable, str(script), "--epochs", str(EPOCHS), "--layers", *found.group(1).split(", ")]
        done = subprocess.run(
            command, cwd=script.parent, env=service_environment(), stdout=subprocess.PIPE, text=True, check=True
        )
        return str(json.loads(done.stdout.splitlines()[-1])["weights"])

    return weights
