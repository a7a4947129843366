"""What shares a hub or a cluster runs on one worker: were the groups lost, every worker would start its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GROUPED = """
import pytest
from pathlib import Path

@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(6))
def test_shares(number, worker_id):
    with (Path(__file__).parent / "workers").open("a") as workers:
        workers.write(worker_id + "\\n")
"""


def test_the_tests_of_a_group_run_on_one_worker(tmp_path: Path) -> None:
    for name in ("test_one.py", "test_other.py"):
        (tmp_path / name).write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    command += ["-p", "xdist.plugin"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # all other plugins take longer than the tests
    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, env=alone
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 12
    assert len(set(workers)) == 1, "this pytest and this pytest-xdist do not go together"
