"""What each test needs besides Python, and how long it takes, as markers derived from its fixtures and its folder;
and how much the proofs prove.

`make check` leaves out all tests with one of these markers, which are declared in ``pyproject.toml``.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# A test that uses the fixture, directly or through another one, needs what the marker names.
MARKER_OF_FIXTURE = {"browser": "browser", "hub": "hub", "cluster": "cluster", "postgres": "database"}

# Folders and files below this one, to whose tests a marker applies by other reasons than a fixture.
MARKER_OF_FOLDER = {
    "frameworks": "framework",
    "command/test_up.py": "hub",
    "kubernetes/chart": "cluster",  # Helm is one of its programs
    "reliability/test_hub_kills.py": "hub",
    "reliability/test_simulated_histories.py": "slow",
    "proofs/test_histories.py": "slow",
    "proofs/test_tiny_pools.py": "slow",
    "widgets/test_digits_example.py": "slow",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", type=int, metavar="N", help="prove N times as much, on fresh random histories")
    parser.addoption("--full", action="store_true", help="run the tests that `make test` has no time for, too")
    parser.addoption("--seed", type=int, metavar="S", help="seed of the first random history")


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> int:
    """How many times as much is to be proven; 0 for the usual suite."""
    return request.config.getoption("--soak", default=None) or 0


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest, soak: int) -> int:
    """The seed of the first random history: always the same ones in the suite, fresh ones in a soak."""
    asked = request.config.getoption("--seed", default=None)
    return asked if asked is not None else secrets.randbelow(1 << 32) if soak else 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests before pytest selects by `-m`; without --full deselect those that need it."""
    for item in items:
        for marker in sorted(_markers(item)):
            item.add_marker(marker)
    if not config.getoption("--full"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _markers(item: pytest.Item) -> set[str]:
    fixtures = set(getattr(item, "fixturenames", ()))
    here = item.path.relative_to(HERE)
    by_fixture = {marker for name, marker in MARKER_OF_FIXTURE.items() if name in fixtures}
    by_folder = {marker for folder, marker in MARKER_OF_FOLDER.items() if here.is_relative_to(folder)}
    return by_fixture | by_folder


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that changes accounts where only root could; name one that needs a GPU where there is none."""
    if os.geteuid() != 0 and item.get_closest_marker("root"):
        pytest.fail(
            "changes accounts or processes of others: run as root, or leave it out with -m 'not root'", False
        )
    if item.get_closest_marker("gpu") and shutil.which("nvidia-smi") is None:
        pytest.skip("compares with nvidia-smi: this machine has no NVIDIA GPU")
