"""The arguments of a function, as its signature names them and as they are typed into the form."""

from __future__ import annotations

import ast
import inspect
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from springtide.scheduler.wording import given
from springtide.widgets.errors import CaptureError, OptionError
from springtide.widgets.submission.functions import check_arguments, declared, wrong_arguments

REST = "*"
"""Name of the field for further arguments, for functions that take them."""
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter to type an argument for. ``default`` is shown while none is typed."""

    name: str
    default: str = ""
    required: bool = False
    type: str = ""


class Callee(msgspec.Struct, frozen=True, kw_only=True):
    """A function to call. ``rest`` is true if it takes further arguments."""

    name: str
    about: str
    parameters: list[Parameter]
    rest: bool


def described(name: str, function: Callable[..., Any]) -> Callee:
    """Return the form's description of a function: its parameters, and the first line of its docstring."""
    found = _parameters(function)
    return Callee(
        name=name,
        about=(inspect.getdoc(function) or "").partition("\n")[0],
        parameters=[_described(each) for each in found if each.kind not in VARIADIC],
        rest=any(each.kind in VARIADIC for each in found),
    )


def call_of(
    function: Callable[..., Any], typed: Mapping[str, str], variables: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, str]]:
    """Return the arguments of the call, and the errors of typed ones by parameter."""
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    further: tuple[list[Any], dict[str, Any]] = [], {}
    for name, text in typed.items():
        if not text.strip():
            continue
        try:
            if name == REST:
                further = parse_arguments(text, variables)
            else:
                values[name] = parse_value(text, variables)
        except OptionError as error:
            problems[name] = str(error)
    missing = [
        each.name
        for each in _parameters(function)
        if each.kind not in VARIADIC and each.default is each.empty and each.name not in {*values, *problems}
    ]
    problems |= {name: f"{name} has no default: give it a value." for name in missing}
    if problems:
        return (), {}, problems
    args, kwargs = _bound(function, values, *further)
    if wrong := wrong_arguments(function, args, kwargs):
        return (), {}, {(name if name in values else REST): words for name, words in wrong.items()}
    try:
        check_arguments(function, args, kwargs)
    except CaptureError as error:
        return (), {}, {REST: str(error)}
    return args, kwargs, {}


def parse_value(text: str, variables: Mapping[str, Any]) -> Any:
    """Read one argument: a plain value, or the name of a variable. Raises `OptionError` for anything else."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, variables)
    except SyntaxError:
        msg = f"{given(text.strip())} cannot be read. Write a value as in Python: 0.1, 'text', [1, 2]."
        raise OptionError(msg) from None


def parse_arguments(text: str, variables: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Read ``0.1, epochs=n`` as the arguments of a call: plain values, and names of the notebook's variables.

    Raises `OptionError` for anything else.
    """
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "_":
        msg = f"The arguments {given(text)} cannot be read. Write them as in a call: 0.1, epochs=30."
        raise OptionError(msg)
    keywords = {keyword.arg: _value(keyword.value, variables) for keyword in call.keywords if keyword.arg}
    return [_value(node, variables) for node in call.args], keywords


def _value(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name) and node.id in variables:
        return variables[node.id]
    try:
        return ast.literal_eval(node)
    except ValueError:
        written = ast.unparse(node)
        quotes = f" Write text in quotes: '{written}'." if isinstance(node, ast.Name) else ""
        msg = f"`{written}` is neither a plain value nor a variable of the notebook.{quotes}"
        raise OptionError(msg) from None


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _described(parameter: inspect.Parameter) -> Parameter:
    required = parameter.default is parameter.empty
    default = "" if required else _short(parameter.default)
    return Parameter(name=parameter.name, default=default, required=required, type=declared(parameter)[:80])


def _short(value: object) -> str:
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001 - the user's own class may raise anything
        return f"<{type(value).__name__}>"


def _bound(
    function: Callable[..., Any], values: Mapping[str, Any], args: list[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the call with the values by name; further positional arguments come last."""
    positional: list[Any] = []
    keywords = {**values, **kwargs}
    for each in _parameters(function):
        takes_place = each.kind is each.POSITIONAL_ONLY or (args and each.kind is each.POSITIONAL_OR_KEYWORD)
        if takes_place and each.name in keywords:
            positional.append(keywords.pop(each.name))
        elif takes_place and each.default is not each.empty:
            positional.append(each.default)
    return (*positional, *args), keywords
