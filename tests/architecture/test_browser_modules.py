"""The modules of pages and cards: what they import is there, and folders stay layered."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from product_modules import ROOT

from springtide.widgets import browser_modules

VISUALS = ROOT / "widgets/visuals"
PAGES = ROOT / "hub_extension/pages/static"
LAB = ROOT / "widgets/lab_extension/static"
GALLERY = ROOT / "tests/pages"
LAYERS = ("base", "charts", "outputs", "views", "live", "notebook")
"""The folders of the picture language, from the lowest to the highest."""
IMPORT = re.compile(r'^import (?:\* as \w+|\{([^}]*)\}) from "([^"]+)";', re.MULTILINE)
EXPORT = re.compile(r"^export (?:default )?(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)
MODULES = sorted([*VISUALS.rglob("*.js"), *PAGES.rglob("*.js"), *LAB.rglob("*.js"), *GALLERY.glob("*.js")])


def target(path: Path, imported: str) -> Path:
    """The file that a browser gets: pages have the picture language below their own files."""
    if imported.startswith("/"):
        imported = f".{imported}"
        path = GALLERY / "x"
    folders, _, name = imported.rpartition("visuals/")
    return VISUALS / name if folders else (path.parent / imported).resolve()


def test_what_a_module_imports_is_exported() -> None:
    exported = cache(lambda path: set(EXPORT.findall(path.read_text())))
    wrong = [
        f"{path.name} imports {missing} from {imported}"
        for path in MODULES
        for names, imported in IMPORT.findall(path.read_text())
        if (
            missing := {name.split(" as ")[0].strip() for name in names.split(",") if name.strip()}
            - exported(target(path, imported))
        )
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", LAYERS)
def test_a_folder_of_the_picture_language_uses_only_those_below_it(folder: str) -> None:
    allowed = LAYERS[: LAYERS.index(folder) + 1]
    for path in (VISUALS / folder).glob("*.js"):
        for _, imported in IMPORT.findall(path.read_text()):
            assert target(path, imported).parent.name in allowed, f"{path.name} imports {imported}"


def test_every_module_and_sheet_of_the_picture_language_is_in_a_layer() -> None:
    folders = {path.parent.name for path in VISUALS.rglob("*") if path.suffix in {".js", ".css"}}
    assert folders == {*LAYERS, "styles"}


@pytest.mark.parametrize("name", sorted(path.name for path in (VISUALS / "notebook").glob("*_widget.js")))
def test_a_widget_is_one_module_without_imports(name: str) -> None:
    source = browser_modules.bundle(f"notebook/{name}")
    assert not IMPORT.search(source)
    declared = re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", source, re.MULTILINE)
    assert len(declared) == len(set(declared))
