"""The cells of a notebook with its parameters: their names, their defaults, and values that are typed for them."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from springtide.scheduler.arguments import Argument, BadArgument, is_literal, literal, typed_value
from springtide.scheduler.capture.arguments import rendered
from springtide.scheduler.capture.parameter_types import OF_NOTEBOOKS, misfit
from springtide.scheduler.capture.set_names import set_names
from springtide.scheduler.wording import as_python

TAG: Final = "parameters"
INJECTED: Final = "injected-parameters"
MAX_TEXT: Final = 200
"""Maximum length of the text of a default, in characters."""

OTHER_TYPE: Final = "For a value of another type, change the default in the notebook."

IPYTHON_LINE: Final = re.compile(r"\s*(?:([\w.]+\s*=)\s*)?(?:!(?!=)|%{1,2}[A-Za-z]|\?|.*\?\s*$)")
"""A line that IPython makes into Python, with the variable to which it assigns what it returns."""

PYTHON_CELLS: Final = frozenset({"%%capture", "%%prun", "%%time"})
"""Magics of cells that run the rest of the cell as Python."""

COMPUTED: Final = "computed"
"""The default of a parameter that its notebook sets more than once, or not by a value alone."""

Cells = Sequence[Mapping[str, Any]]

ERRORS = (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError)
"""Errors of a cell that is no Python, such as one in the language of a magic."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as people read it. ``text`` is its default, ``type`` its annotation or the type of the default.

    ``before`` is the default that typed values are compared with, None if the notebook computes it. ``annotated``
    says that its type is its annotation.
    """

    name: str
    text: str
    type: str
    before: Argument | None
    annotated: bool = False


UNDECLARED: Final = Parameter("", "", "", None)
"""A parameter that its notebook does not have: nothing is known of it."""


@dataclass(frozen=True, slots=True)
class _Assigned:
    """What a variable is assigned, None if that is not known, its text and its annotation."""

    value: ast.expr | None
    text: str
    annotation: str = ""


def cells_of(path: Path) -> Cells:
    """Return the cells of a notebook; none if it is not in Python or cannot be read."""
    try:
        notebook = json.loads(path.read_bytes())
        cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
        return cells if language(notebook) in {"", "python"} else []
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def known_parameters(path: Path) -> tuple[str, ...]:
    """Return the names of the parameters of a notebook; none if it has no cell for them, or cannot be read."""
    return tuple(names(cells_of(path)))


def parameters(cells: Cells) -> list[Parameter]:
    """Return the parameters of the cells. The values in an injected cell are the defaults: they hold."""
    known = names(cells)
    assigned = _assigned(cells, (TAG, INJECTED))
    return [_parameter(name, value) for name, value in assigned.items() if name in known or not known]


def typed_parameters(cells: Cells, typed: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the parameters that are typed, and the errors of the others, by name.

    An empty text leaves the default. With any value come those of an injected cell, which the new one replaces.
    """
    known = {each.name: each for each in parameters(cells)}
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    in_the_way = obstacle(cells)
    for name, text in typed.items():
        if not text.strip():
            continue
        if in_the_way:
            problems[name] = in_the_way
            continue
        parameter = known.get(name, UNDECLARED)
        try:
            value = _read(name, parameter.before, text)
        except BadArgument as error:
            problems[name] = f"{error.message} {OTHER_TYPE}"
            continue
        if wrong := misfit(name, _expected_of(parameter), value, OF_NOTEBOOKS):
            problems[name] = f"{wrong} {OTHER_TYPE}"
        else:
            values[name] = value
    held = {name: value for name, value in _literals(_assigned(cells, (INJECTED,))).items() if name in known}
    return ({**held, **values} if values else {}), problems


def misfits(cells: Cells, values: Mapping[str, Any]) -> list[str]:
    """Return why values do not fit the types of the parameters, by their annotations or their defaults.

    A default that is a whole number lets any number fit.
    """
    known = {each.name: _expected_of(each) for each in parameters(cells)}
    found = (misfit(name, known.get(name, ""), value, OF_NOTEBOOKS) for name, value in values.items())
    return [wrong for wrong in found if wrong]


def _expected_of(parameter: Parameter) -> str:
    return "float" if not parameter.annotated and parameter.type == "int" else parameter.type


def names(cells: Cells) -> list[str]:
    """Return the variables that the cells with the tag assign."""
    return list(_assigned(cells, (TAG,)))


def defaults(cells: Cells) -> dict[str, Any]:
    """Return the values of parameters that the cells for them write out: those of others are not known."""
    return _literals(_assigned(cells, (TAG, INJECTED)))


def obstacle(cells: Cells) -> str:
    """Return why no values can be set after the cell with the tag, empty if they can."""
    tagged = [cell for cell in cells if TAG in tags(cell)]
    if len(tagged) > 1:
        return (
            f"{len(tagged)} cells have the tag “{TAG}”: given values come after one of them, and the next would "
            "set its own again. Leave the tag to one."
        )
    for cell in tagged:
        try:
            _parsed(cell)
        except ERRORS as error:
            at = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            why = error.msg if isinstance(error, SyntaxError) else str(error)
            return f"The cell with the tag “{TAG}” is no Python: {why}{at}. Mend it, or remove the tag."
    return ""


def tags(cell: Mapping[str, Any]) -> Sequence[str]:
    """Return the tags of a cell."""
    metadata = cell.get("metadata")
    found = metadata.get("tags") if isinstance(metadata, dict) else None
    return found if isinstance(found, list) else ()


def language(notebook: Mapping[str, Any]) -> str:
    """Return the language of a notebook in lower case, empty if it says none."""
    spec, info = metadata(notebook, "kernelspec"), metadata(notebook, "language_info")
    return str(spec.get("language") or info.get("name") or "").lower()


def metadata(notebook: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an entry of a notebook's metadata, empty if there is none."""
    found = notebook.get("metadata")
    entry = found.get(name) if isinstance(found, dict) else None
    return entry if isinstance(entry, dict) else {}


def _read(name: str, before: Argument | None, text: str) -> Any:
    """Return a typed value: in place of a computed default one of Python, or else the text."""
    if before is not None:
        return typed_value(name, before, text)
    word = text.strip()
    return literal(word) if is_literal(word) else text


def _parameter(name: str, assigned: _Assigned) -> Parameter:
    found = _literals({name: assigned})
    if name not in found:
        return Parameter(name, _short(assigned.text), _short(assigned.annotation), None)
    before = _whole(name, found[name])
    shown = as_python(before.value) if isinstance(before.value, bool) else before.text or as_python(before.value)
    text = "hidden" if before.hidden else shown
    kind = "" if found[name] is None else type(found[name]).__name__
    return Parameter(name, _short(text), _short(assigned.annotation or kind), before, bool(assigned.annotation))


def _whole(name: str, value: Any) -> Argument:
    """Return a value as one argument, a dictionary, too: the settings in it are not typed one by one."""
    if isinstance(value, dict):
        return Argument(value=_short(as_python(value)), type="dict")
    return rendered({name: value}).get(name, Argument(value=None))


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _literals(assigned: Mapping[str, _Assigned]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, each in assigned.items():
        with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            if each.value is not None:
                values[name] = ast.literal_eval(each.value)
    return values


def _assigned(cells: Cells, of: Iterable[str]) -> dict[str, _Assigned]:
    """Return the variables that cells with these tags assign.

    Cells with a later tag come after those with an earlier one, and their values hold.
    """
    found: dict[str, _Assigned] = {}
    for tag in of:
        found |= _assigned_once([each for cell in cells if tag in tags(cell) for each in _statements(cell)])
    return found


def _assigned_once(statements: Sequence[ast.stmt]) -> dict[str, _Assigned]:
    """Return the variables that statements assign; one that they set again in any way has no known value."""
    found: dict[str, _Assigned] = {}
    annotations: dict[str, str] = {}
    seen: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            annotations[name] = ast.unparse(statement.annotation)
            if statement.value is None:
                found[name] = replace(found.get(name, _Assigned(None, "")), annotation=annotations[name])
                continue
        plain = dict(_plain(statement))
        for name in dict.fromkeys((*plain, *_assigned_within(statement))):
            value = plain.get(name)
            text = COMPUTED if value is None else ast.unparse(value)
            found[name] = _Assigned(value, text, annotations.get(name, ""))
        names_set = Counter(set_names(statement))
        again = {name for name, times in names_set.items() if name in seen or times > 1 or name not in plain}
        found |= {name: replace(found[name], value=None, text=COMPUTED) for name in again if name in found}
        seen |= names_set.keys()
    return found


def _plain(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the variables that a statement alone assigns, with their values; None for one that is computed."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpacked(target, value)
        case ast.AnnAssign(target=target, value=value):
            yield from _unpacked(target, value)


def _unpacked(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    match target:
        case ast.Name(id=name):
            yield name, value
        case ast.Starred(value=inner):
            yield from _unpacked(inner, None)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            starred = any(isinstance(each, ast.Starred) for each in (*parts, *values))
            known = len(parts) == len(values) and not starred
            for place, part in enumerate(parts):
                yield from _unpacked(part, values[place] if known else None)


def _assigned_within(statement: ast.stmt) -> Iterator[str]:
    """Yield the variables that assignments in branches and loops of a statement set."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return
        for inner in getattr(statement, field, ()):
            yield from (name for name, _ in _plain(inner))
            yield from _assigned_within(inner)


def _statements(cell: Mapping[str, Any]) -> Sequence[ast.stmt]:
    try:
        return _parsed(cell)
    except ERRORS:
        return ()


def _parsed(cell: Mapping[str, Any]) -> Sequence[ast.stmt]:
    """Return the statements of a cell, without the lines of IPython that make it no Python. Raises `ERRORS`."""
    text = "".join(cell["source"])
    try:
        return ast.parse(text).body
    except SyntaxError:
        if text.startswith("%%") and text.split()[0] not in PYTHON_CELLS:
            raise
        return ast.parse("\n".join(map(_without_ipython, text.splitlines()))).body


def _without_ipython(line: str) -> str:
    """Return a line of Python in place of one of IPython: with a computed value where it assigns one."""
    found = IPYTHON_LINE.match(line)
    if found is None:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}{found[1]} object()" if found[1] else f"{indent}pass"
