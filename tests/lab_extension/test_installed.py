"""The extension is installed whole by the wheel, and JupyterLab and the notebook server find it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALLED = Path(sys.prefix) / "share/jupyter/labextensions/@springtide/lab"
IMPORT = re.compile(r'^import [^"]*"([^"]+)";', re.MULTILINE)
STYLE = re.compile(r"const SHEETS = \[([^\]]+)\]")


def reached(module: Path, found: set[Path]) -> set[Path]:
    """Return the module and all that it imports."""
    if module not in found:
        found.add(module)
        for imported in IMPORT.findall(module.read_text()):
            reached((module.parent / imported).resolve(), found)
    return found


def test_every_module_that_the_extension_imports_is_installed_as_it_is_in_the_tree() -> None:
    for module in reached(INSTALLED / "static/plugins.js", set()):
        part = module.relative_to(INSTALLED / "static")
        source = (
            ROOT / "widgets" / part if part.parts[0] == "visuals" else ROOT / "widgets/lab_extension/static" / part
        )
        assert module.read_bytes() == source.read_bytes(), f"{part}: run `make install`"


def test_its_style_sheets_are_installed() -> None:
    listed = STYLE.search((INSTALLED / "static/plugins.js").read_text())
    assert listed
    for name in re.findall(r'"(\w+)"', listed[1]):
        assert (INSTALLED / f"static/visuals/styles/{name}.css").is_file()


def test_its_version_is_that_of_the_package() -> None:
    assert json.loads((INSTALLED / "package.json").read_text())["version"] == version("springtide")


def test_jupyter_finds_both_extensions() -> None:
    for command, name in (
        (["labextension", "list"], r"@springtide/lab v\S+ .*enabled.* .*OK"),
        (["server", "extension", "list"], r"springtide\.widgets\.server_extension .*OK"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "jupyter", *command], capture_output=True, text=True, check=True
        )
        assert re.search(name, done.stdout + done.stderr)
