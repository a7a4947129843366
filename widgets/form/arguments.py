"""The arguments of a call, as typed into the form."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from springtide.widgets.errors import OptionError


def parse_arguments(text: str, variables: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Read ``0.1, epochs=n`` as the arguments of a call: plain values, and names of the notebook's variables.

    Raise `OptionError` for anything else.
    """
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "_":
        msg = f"The arguments {text!r} cannot be read. Write them as in a call: 0.1, epochs=30."
        raise OptionError(msg)
    keywords = {keyword.arg: _value(keyword.value, variables) for keyword in call.keywords if keyword.arg}
    return [_value(node, variables) for node in call.args], keywords


def _value(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name) and node.id in variables:
        return variables[node.id]
    try:
        return ast.literal_eval(node)
    except ValueError:
        msg = f"`{ast.unparse(node)}` is neither a plain value nor a variable of the notebook."
        raise OptionError(msg) from None
