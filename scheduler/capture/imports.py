"""The imports of code, read from its text: nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

NOT_THERE = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
"""Errors whose handler marks an import as optional."""
MAGIC = re.compile(r"^([ \t]*)[%!?].*$", re.MULTILINE)
IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Imports:
    """Modules by their absolute names. The code does without those that are ``optional`` and not ``required``."""

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        """All modules."""
        return self.required | self.optional

    def without(self, own: Collection[str]) -> Imports:
        """Return the imports that are not below one of the user's ``own`` modules."""
        return Imports(_others(self.required, own), _others(self.optional, own))

    @property
    def tops(self) -> frozenset[str]:
        """The names of all modules up to the first dot."""
        return frozenset(name.partition(".")[0] for name in self.all)

    def __or__(self, other: Imports) -> Imports:
        """Return the imports of both."""
        return Imports(self.required | other.required, self.optional | other.optional)


def imports_of_tree(tree: ast.AST, package: str = "") -> Imports:
    """Return the imports of the code; ``package`` is the one that its relative imports start from.

    Imports under a condition, or with a handler for their errors, are optional.
    """
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for node, optional in _statements(tree, optional=False):
        found[optional].update(imported_by(node, package))
    return Imports(frozenset(found[False]), frozenset(found[True]))


def imports_of_file(content: bytes, package: str = "") -> Imports:
    """Return the imports of a file of Python, none if it cannot be parsed."""
    try:
        return imports_of_tree(ast.parse(content), package)
    except (SyntaxError, ValueError):
        return Imports()


def imports_of_cells(cells: Iterable[str]) -> Imports:
    """Return the imports of a notebook's cells; cells with other syntax than Python are read line by line."""
    imports = Imports()
    for cell in cells:
        try:
            imports |= imports_of_tree(ast.parse(MAGIC.sub(r"\1pass", cell)))
        except (SyntaxError, ValueError):
            imports |= Imports(optional=frozenset(IMPORT.findall(cell)))
    return imports


def reached_imports(files: Mapping[str, bytes], entries: Iterable[str], first: Imports = Imports()) -> Imports:
    """Return the imports of code from outside of ``files``, which are beside it under their paths.

    It follows the ``entries`` among the files, ``first``, and the files that these import in turn.
    """
    found, pending, seen = first, [name for name in entries if name in files], set[str]()
    pending += _own_files(first, files)
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        reached = imports_of_file(files[path], _package_of(path))
        found |= reached
        pending += _own_files(reached, files)
    own = {path.partition("/")[0].removesuffix(".py") for path in files if path.endswith(".py")}
    return found.without(own)


def imported_by(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the absolute names of the modules in an import statement, and of the names imported from them."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node, package)
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _statements(node: ast.AST, *, optional: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the import statements below a node, each with whether it is optional."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, optional
        return
    tried = isinstance(node, ast.Try | ast.TryStar) and any(map(_handles_imports, node.handlers))
    under = optional or tried or isinstance(node, ast.If | ast.ExceptHandler)
    for child in ast.iter_child_nodes(node):
        yield from _statements(child, optional=under)


def _handles_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)}
    return bool(names & NOT_THERE)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    kept = parents[: len(parents) - node.level + 1]
    return ".".join([*kept, node.module] if node.module else kept)


def _own_files(imports: Imports, files: Collection[str]) -> Iterator[str]:
    for name in imports.all:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            base = "/".join(parts[:length])
            yield from (path for path in (f"{base}.py", f"{base}/__init__.py") if path in files)


def _package_of(path: str) -> str:
    return ".".join(path.split("/")[:-1])


def _others(names: frozenset[str], own: Collection[str]) -> frozenset[str]:
    """Return the names that are not below one of the user's own modules."""
    return frozenset(name for name in names if name.partition(".")[0] not in own and name)
