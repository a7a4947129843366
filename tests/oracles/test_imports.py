"""The oracles know the product by its commands and the scenario format, and nothing else of it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

HERE = Path(__file__).parent
OWN = {"judges", "public_reports", "pytest"}
COMMANDS = "springtide.scheduler.plan_commands"
DOOR = HERE / "judges" / "command.py"


def imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return found


def test_only_the_two_commands_are_imported_and_in_one_place():
    files = sorted(HERE.rglob("*.py"))
    strange = {
        str(file.relative_to(HERE)): others
        for file in files
        if (
            others := {
                name
                for name in imported(file)
                if name.partition(".")[0] not in OWN | sys.stdlib_module_names
                and not (file == DOOR and name == COMMANDS)
            }
        )
    }

    assert len(files) > 10
    assert strange == {}


def test_nothing_of_the_other_tests_is_imported():
    others = {
        name.removesuffix(".py")
        for folder in ("support", "proofs")
        for path in (HERE.parent / folder).rglob("*.py")
        for name in path.relative_to(HERE.parent / folder).parts
    }

    assert not [file for file in HERE.rglob("*.py") if imported(file) & others]
