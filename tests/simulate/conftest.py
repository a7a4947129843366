from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from springtide.scheduler.plan_commands import plan, simulate


@pytest.fixture
def scenario() -> Callable[..., dict]:
    """Eight GPUs on one node, three people with a quota of 2 each; jobs as given."""

    def made(*jobs: dict, nodes: list[dict] | None = None, projects: list[dict] | None = None) -> dict:
        return {
            "nodes": nodes or [{"name": "dgx", "gpus": 8}],
            "projects": projects or [{"name": name, "quota": 2} for name in ("susan", "joe", "jemma")],
            "jobs": list(jobs),
        }

    return made


@pytest.fixture
def written(tmp_path) -> Callable[[object, str], Path]:
    """Write data, text or bytes to a file."""

    def write(content: object, name: str = "pool.json") -> Path:
        file = tmp_path / name
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    return write


@pytest.fixture
def run_plan() -> Callable[..., Result]:
    return lambda *args: CliRunner().invoke(plan, [str(arg) for arg in args])


@pytest.fixture
def run_simulate() -> Callable[..., Result]:
    return lambda *args: CliRunner().invoke(simulate, [str(arg) for arg in args])


@pytest.fixture
def simulated(run_simulate) -> Callable[..., dict]:
    def outcome(*args: object) -> dict:
        result = run_simulate(*args)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return outcome
