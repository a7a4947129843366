"""The names that a piece of Python needs from outside, found without running it."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Iterator, Sequence


def needed_names(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the names that may be read before the statements have bound them themselves.

    It errs on the side of naming too many: a name that is bound in one branch only still counts as needed.
    """
    reads: set[str] = set()
    _block(statements, frozenset(), reads)
    return frozenset(reads)


def imported_names(tree: ast.AST) -> frozenset[str]:
    """Return the modules that the code imports by absolute name."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def _block(statements: Sequence[ast.stmt], bound: frozenset[str], reads: set[str]) -> frozenset[str]:
    for statement in statements:
        bound = _statement(statement, bound, reads)
    return bound


def _statement(node: ast.stmt, bound: frozenset[str], reads: set[str]) -> frozenset[str]:
    match node:
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                reads |= _reads(item.context_expr) - bound
                bound |= _targets([item.optional_vars])
            return _block(node.body, bound, reads)
        case ast.For() | ast.AsyncFor():
            reads |= _reads(node.iter) - bound
            _block(node.body, bound | _targets([node.target]), reads)
            _block(node.orelse, bound, reads)
            return bound
        case ast.While() | ast.If():
            reads |= _reads(node.test) - bound
            _block(node.body, bound, reads)
            _block(node.orelse, bound, reads)
            return bound
        case ast.Try() | ast.TryStar():
            after = _block(node.body, bound, reads)
            for handler in node.handlers:
                if handler.type is not None:
                    reads |= _reads(handler.type) - bound
                _block(handler.body, bound | ({handler.name} if handler.name else set()), reads)
            _block(node.orelse, after, reads)
            return _block(node.finalbody, bound, reads)
        case ast.AugAssign():
            reads |= (_reads(node) | _targets([node.target])) - bound
            return bound
        case ast.Delete():
            names = _targets(node.targets)
            reads |= names - bound
            return bound - names
        case ast.ImportFrom() if node.names[0].name == "*":
            return bound
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            reads |= _reads(node) - bound - {node.name}
            return bound | {node.name}
        case _:
            reads |= _reads(node) - bound
            return bound | _binds(node)


def _targets(nodes: Iterable[ast.expr | None]) -> frozenset[str]:
    found = (child for node in nodes if node is not None for child in ast.walk(node))
    return frozenset(node.id for node in found if isinstance(node, ast.Name))


def _reads(node: ast.stmt | ast.expr) -> frozenset[str]:
    top = _table(node)
    own = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    nested = {
        symbol.get_name()
        for table in _below(top)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or symbol.is_free())
    }
    return frozenset(own | nested)


def _binds(node: ast.stmt) -> frozenset[str]:
    symbols = _table(node).get_symbols()
    return frozenset(symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported())


def _table(node: ast.stmt | ast.expr) -> symtable.SymbolTable:
    statement = node if isinstance(node, ast.stmt) else ast.Expr(node)
    text = "\n".join(f" {line}" for line in ast.unparse(statement).splitlines())
    return symtable.symtable(f"async def cell():\n{text}", "<cell>", "exec").get_children()[0]


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _below(child)
