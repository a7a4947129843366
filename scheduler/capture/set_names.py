"""The variables that a statement sets, deletes or changes, found in its text; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_OWN_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def set_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the variables that a statement sets, deletes or changes in place, once for each time.

    Those of a function or a class are its own, without what it declares as global.
    """
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield from _names_of(node)
        pending += _parts(node)


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            for inner in ast.walk(node):
                if isinstance(inner, ast.Global):
                    yield from inner.names
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            yield from _base(value)
        case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()):
            yield from _base(value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value))):  # such as sizes.append(8)
            yield from _base(value)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name.partition(".")[0] for each in names)
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            yield name


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that have the same variables."""
    match node:
        case ast.Lambda():
            return
        case ast.comprehension(iter=values, ifs=conditions):
            yield values
            yield from conditions
        case _ if not isinstance(node, _OWN_SCOPES):
            yield from ast.iter_child_nodes(node)


def _base(node: ast.expr) -> Iterator[str]:
    """Yield the variable that an attribute or an item belongs to."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
