"""What shares a hub or a cluster runs on one worker, which ends it with the last of these tests.

Were the groups lost, every worker would start its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from plugins import group_fixtures

GROUPED = """
import pytest
from pathlib import Path

@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(6))
def test_shares(number, worker_id):
    with (Path(__file__).parent / "workers").open("a") as workers:
        workers.write(worker_id + "\\n")
"""

ENDED = """
import pytest

happened = []

@pytest.fixture(scope="session")
def cluster():
    happened.append("cluster")
    yield
    happened.append("end of the cluster")

@pytest.fixture(scope="session")
def node(cluster):
    happened.append("node")
    yield
    happened.append("end of the node")

@pytest.fixture(scope="session")
def database():
    happened.append("database")
    yield
    happened.append("end of the database")

@pytest.fixture(scope="session")
def browser():
    happened.append("browser")
    yield
    happened.append("end of the browser")

@pytest.mark.xdist_group("cluster")
def test_uses_a_node(node, database):
    assert happened == ["cluster", "node", "database"]

@pytest.mark.xdist_group("cluster")
def test_uses_the_same_cluster(cluster):
    assert happened == ["cluster", "node", "database"]
    happened.clear()

@pytest.mark.xdist_group("hub")
def test_uses_a_browser(browser, database):
    assert happened == ["end of the node", "end of the cluster", "browser"]
    happened.clear()

@pytest.mark.xdist_group("pages")
def test_uses_a_browser_of_another_group(browser):
    assert happened == ["end of the browser", "browser"]
    happened.clear()

def test_without_group_uses_what_groups_use_too(database):
    assert happened == ["end of the browser"]
"""


def run_tests(directory: Path, *options: str) -> None:
    """Run the tests in a directory with these options of pytest, and no plugin but those named."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist.plugin", *options]
    support = Path(group_fixtures.__file__).parents[1]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(support)}
    ran = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=120, env=alone
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_tests_of_a_group_run_on_one_worker(tmp_path: Path) -> None:
    for name in ("test_one.py", "test_other.py"):
        (tmp_path / name).write_text(GROUPED)
    run_tests(tmp_path, "-n", "2", "--dist", "loadgroup")
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 12
    assert len(set(workers)) == 1, "this pytest and this pytest-xdist do not go together"


def test_what_only_groups_use_ends_with_each_group(tmp_path: Path) -> None:
    (tmp_path / "test_all.py").write_text(ENDED)
    run_tests(tmp_path, "-p", "plugins.group_fixtures")
