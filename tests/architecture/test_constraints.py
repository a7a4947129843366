"""The versions that CI installs are pinned, every one of them, within the bounds that are declared."""

from __future__ import annotations

import re
import tomllib

import pytest
from import_graph import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = ("constraints.txt", "tests/support/airflow_packages.txt")
"""The environment of everything but Airflow, which has one of its own."""
LINES = [line for file in FILES for line in (ROOT / file).read_text().splitlines() if not line.startswith("#")]
PINNED = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in LINES[::-1])}
DECLARED = [
    Requirement(text)
    for text in sorted(
        {*PROJECT["dependencies"], *(each for of in PROJECT["optional-dependencies"].values() for each in of)}
    )
    if not text.startswith("springtide")
]


@pytest.mark.parametrize("requirement", DECLARED, ids=lambda requirement: requirement.name)
def test_a_dependency_is_pinned_within_its_bounds(requirement: Requirement) -> None:
    if requirement.marker is None or requirement.marker.evaluate():
        version = PINNED[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}: `make constraints`"


def test_every_line_is_one_exact_version() -> None:
    assert [line for line in LINES if re.fullmatch(r"[A-Za-z0-9._-]+==[^\s=@]+", line) is None] == []


def test_every_installation_of_the_makefile_uses_them() -> None:
    installs = [
        line
        for line in (ROOT / "Makefile").read_text().splitlines()
        if re.search(r"\$\(BIN\)/pip install.*\[", line)
    ]
    assert installs
    assert all("-c constraints.txt" in line for line in installs)
