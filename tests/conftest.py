"""What each test needs besides Python, and how long it takes, as markers derived from its fixtures and its folder.

`make check` leaves out all tests with one of these markers, which are declared in ``pyproject.toml``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# A test that uses the fixture, directly or through another one, needs what the marker names.
MARKER_OF_FIXTURE = {"browser": "browser", "hub": "hub", "cluster": "cluster", "postgres": "database"}

# Folders and files below this one, to whose tests a marker applies by other reasons than a fixture.
MARKER_OF_FOLDER = {
    "command/test_up.py": "hub",
    "kubernetes/chart": "cluster",  # Helm is one of its programs
    "proofs/test_histories.py": "slow",
    "proofs/test_tiny_pools.py": "slow",
    "widgets/test_digits_example.py": "slow",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests before pytest selects by `-m`."""
    for item in items:
        for marker in sorted(_markers(item)):
            item.add_marker(marker)


def _markers(item: pytest.Item) -> set[str]:
    fixtures = set(getattr(item, "fixturenames", ()))
    here = item.path.relative_to(HERE)
    by_fixture = {marker for name, marker in MARKER_OF_FIXTURE.items() if name in fixtures}
    by_folder = {marker for folder, marker in MARKER_OF_FOLDER.items() if here.is_relative_to(folder)}
    return by_fixture | by_folder


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that changes accounts where only root could."""
    if os.geteuid() != 0 and item.get_closest_marker("root"):
        pytest.fail(
            "changes accounts or processes of others: run as root, or leave it out with -m 'not root'", False
        )
