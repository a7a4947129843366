"""The scenarios of ``examples/scenarios`` come out as the comments at their tops say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

SCENARIOS = Path(__file__).parents[2] / "examples" / "scenarios"
FILES = sorted(SCENARIOS.glob("*.yaml"), key=lambda path: path.stem)

# The workers that run of each job once the pool has come to rest.
RUNNING = {
    "borrow": {"deep": 1, "wide": 1},
    "departments": {"v": 4, "a": 2, "s": 2},
    "elastic-gang": {"sweep": 2, "listen": 2},
    "reclaim": {"deep": 1, "wide": 0, "listen": 1},
    "story": {"wide": 1, "deep": 0, "faces": 1, "speech": 1},
    "two-types": {"wide": 1, "deep": 1, "any": 1},
}

RunCommand = Callable[..., Result]


def test_every_scenario_has_an_outcome_and_is_listed() -> None:
    readme = (SCENARIOS / "README.md").read_text()
    assert {path.stem for path in FILES} == set(RUNNING)
    assert [path.name for path in FILES if f"`{path.name}`" not in readme] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_is_planned_as_its_comment_says(run_plan: RunCommand, path: Path) -> None:
    planned = printed(run_plan(str(path)))
    assert planned["stable"]
    assert {name: job["running"] for name, job in planned["jobs"].items()} == RUNNING[path.stem]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_is_simulated_to_its_end(run_simulate: RunCommand, path: Path) -> None:
    simulated = printed(run_simulate(str(path)))
    assert simulated["finished"] == simulated["jobs"] == len(RUNNING[path.stem])
    assert simulated["guarantee_violation_s"] == 0


def test_sharing_beats_static_quotas_on_the_example_trace(run_simulate: RunCommand) -> None:
    trace = ("--trace", str(SCENARIOS / "jobs.csv"), "--quotas", str(SCENARIOS / "quotas.csv"), "--nodes", "2x8")
    shared, static = (
        printed(run_simulate(*trace, "--policy", policy, "--restart-cost", "60"))
        for policy in ("guaranteed", "static")
    )
    assert shared["finished"] == shared["jobs"] == 6
    assert static["left_out"] == 1  # 16 GPUs, which no quota holds
    assert shared["projects"]["vision"]["mean_jct_s"] < static["projects"]["vision"]["mean_jct_s"]


def printed(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found
