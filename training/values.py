"""Conversion of frameworks' logged values into plain numbers, of these into JSON, and of typed values."""

from __future__ import annotations

import ast
import math
from typing import Any, Callable, Dict, Mapping, Union


def written(number: float) -> Union[float, str]:
    """Return a number as JSON has it: one that is not finite as ``NaN``, ``Infinity`` or ``-Infinity``."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def plain(values: Mapping[str, Any]) -> Dict[str, float]:
    """Return the values that are numbers, or hold exactly one, as numbers."""
    found: Dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, (str, bytes, bool)):
            continue
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            continue
    return found


class _Unwritten(ast.NodeTransformer):
    """Replaces the names of numbers without a literal, ``nan`` and ``inf``, by what ``make`` makes of them."""

    def __init__(self, make: Callable[[str], ast.AST]) -> None:
        self._make = make
        self.found = False

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in ("nan", "inf"):
            return node
        self.found = True
        return self._make(node.id)


def literal(text: str) -> Any:
    """Return the value of a literal of Python in which ``nan`` and ``inf`` are numbers."""
    tree = ast.parse(text.strip(), mode="eval")
    return ast.literal_eval(_Unwritten(lambda name: ast.Constant(float(name))).visit(tree))


def as_code(text: str) -> str:
    """Return such a literal as code that needs no names: ``float('nan')``."""
    unwritten = _Unwritten(lambda name: ast.parse(f"float({name!r})", mode="eval").body)
    code = unwritten.visit(ast.parse(text.strip(), mode="eval"))
    return ast.unparse(code) if unwritten.found else text
