"""A hub with eight simulated train GPUs, a real browser, and what the trainings come to without a pause."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import running_browser
from hub_people import Hub
from playwright.sync_api import Browser

from springtide.scheduler.executors.local.executor import service_environment

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/digits"
LONG_ENOUGH_S = 6
LOG_END = 6000


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub of all tests of the group ``story``."""
    hub = Hub(tmp_path_factory.mktemp("hub") / "state", "c.Springtide.min_runtime = 1.0")
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(autouse=True)
def told(hub: Hub, browser: Browser, tmp_path: Path) -> Iterator[None]:
    """Print the state of the windows and the end of the hub's log, which show why a story failed."""
    yield
    for number, page in enumerate(page for context in browser.contexts for page in context.pages):
        page.screenshot(path=tmp_path / f"window-{number}.png")
        print(f"window {number}, {page.url}:", *page.get_by_test_id("job-card").all_inner_texts(), sep="\n")
    print((hub.state_dir / "hub/hub.log").read_text()[-LOG_END:])


def trained_alone(directory: Path, name: str, epochs: int) -> Iterator[str]:
    """Yield the lines that a training of the example prints when it runs by itself, outside any pool.

    It has the environment of a job: settings of numerical libraries would change the last bits of its weights.
    """
    variable = name.rsplit(maxsplit=1)[-1]
    submitted = rf"{variable} = pool\.submit\(train, layers=\[([\d, ]+)\]"
    found = re.search(submitted, (EXAMPLE / "digits.ipynb").read_text())
    assert found, f"the example submits {name!r}"
    command = [sys.executable, str(EXAMPLE / "train.py"), "--epochs", str(epochs)]
    command += ["--layers", *found.group(1).split(", ")]
    environment = service_environment()
    with subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from process.stdout
    assert process.returncode == 0


@pytest.fixture(scope="session")
def epochs(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How long susan trains: long enough on this machine for all that happens meanwhile, and no longer."""
    directory = tmp_path_factory.mktemp("measured")
    at = [time.monotonic() for line in trained_alone(directory, "digits deep", 3) if line.startswith("epoch")]
    each = (at[-1] - at[0]) / (len(at) - 1)
    return max(16, min(100, round(LONG_ENOUGH_S / each)))


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, epochs: int) -> Callable[[str], str]:
    """Tells the digest of the weights of a training of the example, by name, when nothing pauses it."""

    @functools.cache
    def weights(name: str) -> str:
        *_, last = trained_alone(tmp_path_factory.mktemp("alone"), name, epochs)
        return str(json.loads(last)["weights"])

    return weights
