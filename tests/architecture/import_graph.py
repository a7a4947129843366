"""Which module of the product imports which, read from the sources."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("hub_extension", "scheduler", "spawner", "training", "widgets")
NAMESPACE = "springtide."

Graph = Mapping[str, frozenset[str]]


def module_files() -> dict[str, Path]:
    """Return the files of the product by module, such as ``scheduler.policy.cycle``."""
    files = {}
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@functools.cache
def import_graph() -> Graph:
    """Return the modules of the product that each module imports, at the top, in functions and for types alike."""
    files = module_files()
    return {
        module: frozenset(_known(name, files) for name in _imported(module, path)) - {"", module}
        for module, path in files.items()
    }


@functools.cache
def import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return the statements of a file that import something, anywhere in it."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def _imported(module: str, path: Path) -> Iterator[str]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            source = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                source = NAMESPACE + ".".join([*above, *([source] if source else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def _known(name: str, files: Mapping[str, Path]) -> str:
    """Return the module that an imported name is or is in; nothing for those of other packages."""
    if not name.startswith(NAMESPACE):
        return ""
    module = name.removeprefix(NAMESPACE)
    while module and module not in files:
        module = module.rpartition(".")[0]
    return module


def cycles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    below = {module: _reachable(graph, module) for module in graph}
    groups = {
        frozenset(other for other in below[module] if module in below[other])
        for module in graph
        if module in below[module]
    }
    return sorted(sorted(group) for group in groups)


def _reachable(graph: Graph, module: str) -> set[str]:
    found: set[str] = set()
    left = list(graph[module])
    while left:
        other = left.pop()
        if other not in found:
            found.add(other)
            left.extend(graph[other])
    return found
