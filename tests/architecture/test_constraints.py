"""The versions that CI installs are pinned, every one of them, within the bounds that are declared."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distributions

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from product_modules import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = ("constraints.txt", "tests/support/airflow_packages.txt", "tests/support/tracking_packages.txt")
"""The environment of everything but Airflow and W&B, which have their own."""
LINES = [line for file in FILES for line in (ROOT / file).read_text().splitlines() if not line.startswith("#")]
PINNED = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in LINES[::-1])}
DECLARED = [
    Requirement(text)
    for text in sorted(
        {*PROJECT["dependencies"], *(each for of in PROJECT["optional-dependencies"].values() for each in of)}
    )
    if not text.startswith("springtide")
]


def test_a_dependency_is_pinned_within_its_bounds() -> None:
    installed = [each for each in DECLARED if each.marker is None or each.marker.evaluate()]
    pinned = {str(each): PINNED.get(canonicalize_name(each.name)) for each in installed}
    wrong = [each for each in installed if not each.specifier.contains(pinned[str(each)] or "0")]
    assert len(installed) > 50
    assert [f"{each} is pinned to {pinned[str(each)]}: `make constraints`" for each in wrong] == []


def test_the_oldest_python_can_install_every_pinned_version() -> None:
    oldest = f"{PROJECT['requires-python'].removeprefix('>=')}.0"
    needs = {
        f"{each.name}=={each.version}": each.metadata["Requires-Python"]
        for each in distributions()
        if PINNED.get(canonicalize_name(each.name)) == each.version and "Requires-Python" in each.metadata
    }
    refused = {pin: need for pin, need in needs.items() if oldest not in SpecifierSet(need)}
    assert len(needs) > 200
    assert refused == {}, f"Python {oldest} cannot install these: pin versions that it can"


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
