"""The training library runs where nothing of ours is installed; the layers are contracts in ``pyproject.toml``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_training_library_needs_only_the_standard_library() -> None:
    paths = sorted((ROOT / "training").rglob("*.py"))
    others = {path.name: imported_at_once(path) - sys.stdlib_module_names - {"springtide"} for path in paths}
    assert len(others) > 10
    assert {name: packages for name, packages in others.items() if packages} == {}


def imported_at_once(path: Path) -> set[str]:
    """Return the packages that are imported with the file."""
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}
