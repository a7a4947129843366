"""The workflows of the forge: targets that the Makefile has, and versions that the project supports."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from product_modules import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def commands(workflow: dict[str, Any]) -> str:
    """Return the commands of all steps of a workflow."""
    steps = [step for job in workflow["jobs"].values() for step in job.get("steps", ())]
    return "\n".join(step["run"] for step in steps if "run" in step)


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def workflow(request: pytest.FixtureRequest) -> dict[str, Any]:
    path: Path = request.param
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def test_each_make_target_is_in_the_makefile(workflow: dict[str, Any]) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake (\w+)", commands(workflow))) <= targets


def test_each_job_that_another_one_needs_is_there(workflow: dict[str, Any]) -> None:
    needed = {name for job in workflow["jobs"].values() for name in job.get("needs", ())}
    assert needed <= set(workflow["jobs"])


def test_the_matrix_has_the_versions_that_the_project_supports() -> None:
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["versions"]["strategy"][
        "matrix"
    ]
    python = SpecifierSet(PROJECT["requires-python"])
    hub = next(r for r in map(Requirement, PROJECT["optional-dependencies"]["hub"]) if r.name == "jupyterhub")
    assert matrix["python"]
    assert all(version in python for version in matrix["python"])
    assert all(f"{version}.0" in hub.specifier for version in matrix["jupyterhub"])
    assert any(version in str(hub.specifier) for version in matrix["jupyterhub"])


def test_a_pinned_jupyterhub_is_what_the_matrix_replaces() -> None:
    assert re.search(r"^jupyterhub==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
