"""Nodes that close, seen from outside: by the commands ``plan`` and ``simulate``."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

SPRINGTIDE = Path(sys.executable).parent / "springtide"


def called(command: str, *files: Path) -> list[dict[str, Any]]:
    """Return the lines of JSON that a command prints."""
    run = subprocess.run([SPRINGTIDE, command, *files], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def made(seed: int) -> dict[str, Any]:
    """Return a random pool with waiting jobs."""
    pick = random.Random(seed)
    nodes = [{"name": f"n{at}", "gpus": pick.choice([2, 4, 8])} for at in range(3)]
    projects = [{"name": name, "quota": pick.choice([0, 2, 4])} for name in ("vision", "speech")]
    jobs = [
        {
            "name": f"j{at}",
            "project": pick.choice(["vision", "speech"]),
            "gpus": pick.choice([1, 2, 4]),
            "workers": pick.choice([1, 1, 2]),
            "submitted": 0,
            "duration": pick.choice([600, 3000, 9000]),
            "time_limit": pick.choice([900, 4000, 10_000]),
        }
        for at in range(8)
    ]
    return {"nodes": nodes, "projects": projects, "jobs": jobs}


def files_of(path: Path, *scenarios: dict[str, Any]) -> list[Path]:
    """Write scenarios to files."""
    files = [path / f"{at}.json" for at in range(len(scenarios))]
    for file, scenario in zip(files, scenarios, strict=True):
        file.write_text(json.dumps(scenario))
    return files


def placed(plan: dict[str, Any]) -> dict[str, Any]:
    """Return where the jobs of a plan run."""
    return {name: job["nodes"] for name, job in plan["jobs"].items()}


@pytest.mark.parametrize("seed", range(12))
def test_a_closed_node_is_one_that_is_not_available(tmp_path: Path, seed: int) -> None:
    closed, away, later, never = (made(seed) for _ in range(4))
    closed["nodes"][0]["closed"] = [[0, 1000]]
    away["nodes"][0]["available"] = False
    later["nodes"][0]["closed"] = [[1e9, 2e9]]
    plans = called("plan", *files_of(tmp_path, closed, away, later, never))
    assert placed(plans[0]) == placed(plans[1])
    assert placed(plans[2]) == placed(plans[3])
    assert not any("n0" in nodes for nodes in placed(plans[0]).values())


@pytest.mark.parametrize("seed", range(12))
def test_no_job_starts_on_a_node_that_closes_before_its_time_limit(tmp_path: Path, seed: int) -> None:
    scenario = made(seed)
    closes = 3000
    for node in scenario["nodes"][:2]:
        node["closed"] = [[closes, closes + 500]]
    [plan] = called("plan", *files_of(tmp_path, scenario))
    limits = {job["name"]: job["time_limit"] for job in scenario["jobs"]}
    on_closing = {name for name, nodes in placed(plan).items() if {"n0", "n1"} & set(nodes)}
    assert all(limits[name] < closes for name in on_closing)


@pytest.mark.parametrize("seed", range(8))
def test_all_jobs_end_in_a_pool_whose_nodes_close_and_no_promise_is_broken(tmp_path: Path, seed: int) -> None:
    scenario = made(seed)
    weekly = deepcopy(scenario)
    for at, node in enumerate(weekly["nodes"]):
        node["closed"] = [[start + 1500 * at, start + 1500 * at + 600] for start in (2000, 9000, 16_000)]
    weekly["projects"][0]["at_times"] = [{"start": 4000, "end": 8000, "quota": 6}]
    [file] = files_of(tmp_path, weekly)
    [report] = called("simulate", file)
    assert report["breaches"] == 0
    assert report["guarantee_violation_s"] == 0
