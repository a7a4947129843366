"""The policy's packages are layers: each imports only from those below, and files do not import in circles."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

POLICY = Path(__file__).parents[2] / "scheduler" / "policy"
PREFIX = "springtide.scheduler.policy."
LAYERS = ("state", "reasons", "ordering", "memo", "placement", "plan_builder", "preemption", "phases", "diagnosis")
TOP = ("cycle", "planner", "__init__")


def imports() -> dict[str, set[str]]:
    """The modules of the policy that each of its modules imports, without the common prefix."""
    modules = {
        ".".join(path.relative_to(POLICY).with_suffix("").parts): path
        for path in POLICY.rglob("*.py")
        if path.name != "__init__.py"
    }
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module + ".", *(f"{node.module}.{alias.name}." for alias in node.names)}
        found[module] = {other for other in modules if any(f"{PREFIX}{other}." == name for name in names)}
    return found


def test_a_package_imports_only_from_packages_below_it():
    order = {name: at for at, name in enumerate((*LAYERS, *TOP))}
    wrong = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if order[module.split(".")[0]] < order[other.split(".")[0]]
    ]

    assert wrong == []


def test_no_files_import_each_other_in_a_circle():
    assert len(list(TopologicalSorter(imports()).static_order())) > len(LAYERS)
