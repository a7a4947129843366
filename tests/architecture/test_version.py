"""The version is written by one command in every file that repeats it."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
from product_modules import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION: str = PYPROJECT["project"]["version"]
TBUMP = PYPROJECT["tool"]["tbump"]


def places() -> list[tuple[Path, str]]:
    """Return each file that `tbump` rewrites, with the text that it looks for."""
    return [
        (path, rule["search"].replace("{current_version}", VERSION))
        for rule in TBUMP["file"]
        for path in sorted(ROOT.glob(rule["src"]))
    ]


def test_the_version_to_replace_is_that_of_the_project() -> None:
    assert TBUMP["version"]["current"] == VERSION


@pytest.mark.parametrize(
    ("path", "text"), places(), ids=lambda value: value.name if isinstance(value, Path) else ""
)
def test_each_file_has_the_version_where_it_is_replaced(path: Path, text: str) -> None:
    assert text in path.read_text()


def test_no_other_file_of_docs_chart_or_product_repeats_the_version() -> None:
    folders = ["docs", "helm", "widgets", "hub_extension", "README.md", "CONTRIBUTING.md"]
    found = subprocess.run(
        ["git", "grep", "-lF", VERSION, "--", *folders], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    known = {str(path.relative_to(ROOT)) for path, _ in places()}
    assert set(found.split()) <= known
