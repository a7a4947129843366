"""What only a notebook runs of a cell: the lines that IPython makes into Python, and calls of its shell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from springtide.scheduler.wording import given, listed
from springtide.widgets.submission.names import needed_names
from springtide.widgets.submission.sent import compile_cell

MAGIC: Final = "%%train"
"""The magic that sends the rest of its cell."""
CELL: Final = "The cell"
INSTEAD: Final = "Use Python instead, such as subprocess.run, or send the whole notebook."
LEAVE_OUT: Final = "Leave it out, use Python instead, or send the whole notebook."
SHELL: Final = "get_ipython"
"""The function of notebooks that returns IPython's shell."""
_LINE = re.compile(r"\s*(?:[\w.,\[\] ]+=\s*)?(?:!(?!=)|%{1,2}[A-Za-z])")
"""A line for a shell or for a magic."""
_OTHER_LINE = re.compile(r"\s*(?:\?{1,2}%{0,2}[\w.*]+|%{0,2}[A-Za-z_][\w.*\[\]]*\?{1,2}|[/,;][A-Za-z_].*)\s*$")
"""A line for help (``x?``) or a call without parentheses (``/print 1``)."""
MAX_FOUND: Final = 20
"""Maximum number of lines that are looked for."""


def lines_before(cell: str) -> int:
    """Return the number of lines of a cell up to the one with the magic that sends the rest; 0 without it."""
    lines = cell.splitlines()
    return next((place for place, line in enumerate(lines, 1) if line.split()[:1] == [MAGIC]), 0)


def refusal_of(cell: str, name: str = CELL) -> str:
    """Return why a cell is not sent because of such lines or calls; empty if none of them is in its way."""
    try:
        compile_cell(cell)
        called = _shell_calls(ast.parse(cell))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        places = _places(cell, error)
        return _refused(cell, places, name) if places else ""
    if not called:
        return ""
    what = f"line {called[0]} calls {SHELL}(), the shell of a notebook, which its job does not have"
    return f"{name} cannot be sent: {what}. {LEAVE_OUT}"


def _shell_calls(tree: ast.Module) -> list[int]:
    """Return the numbers of the lines that call the shell, but for those that try whether there is one."""
    return sorted(_unguarded(tree)) if SHELL in needed_names(tree.body) else []


def _unguarded(node: ast.AST) -> Iterator[int]:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name == SHELL:
            yield node.lineno
        case ast.Try(handlers=[_, *_]):
            return
        case ast.If(test=test) if any(getattr(part, "value", None) == SHELL for part in ast.walk(test)):
            return
    for part in ast.iter_child_nodes(node):
        yield from _unguarded(part)


def mistake_of(cell: str, error: SyntaxError) -> str:
    """Return why a cell is no plain Python, with its lines."""
    return refusal_of(cell) or f"{CELL} cannot be sent: {error.msg} in line {error.lineno}."


def _refused(cell: str, places: list[int], name: str) -> str:
    lines = cell.splitlines()
    shown = {place: given(lines[place - 1].strip(), 60) for place in places}
    are_commands = all(_LINE.match(lines[place - 1]) for place in places)
    if len(shown) == 1:
        named = "".join(f"line {place}, {line}, is" for place, line in shown.items())
        kind = "a shell or magic line" if are_commands else "a line of IPython, no Python"
    else:
        named = f"{listed([f'line {place} ({line})' for place, line in shown.items()])} are"
        kind = "shell or magic lines" if are_commands else "lines of IPython, no Python"
    instead = INSTEAD if are_commands else LEAVE_OUT
    return f"{name} cannot be sent: {named} {kind}, which only notebooks run. {instead}"


def _places(cell: str, error: Exception) -> list[int]:
    """Return the numbers of such lines: those at which reading the cell fails until they are passed over."""
    lines = cell.splitlines()
    found: list[int] = []
    while isinstance(error, SyntaxError) and len(found) < MAX_FOUND:
        first = next((place for place, line in enumerate(lines, 1) if line.strip()), 0)
        here = next((place for place in (error.lineno or first, first) if _is_of_ipython(lines, place)), 0)
        if not here:
            break
        found.append(here)
        if lines[here - 1].lstrip().startswith("%%"):  # what follows is the magic's own
            break
        indent = lines[here - 1][: len(lines[here - 1]) - len(lines[here - 1].lstrip())]
        lines[here - 1] = f"{indent}pass"
        try:
            compile_cell("\n".join(lines))
        except SyntaxError as next_error:
            error = next_error
        else:
            break
    return sorted(found)


def _is_of_ipython(lines: list[str], place: int) -> bool:
    if not 0 < place <= len(lines):
        return False
    line = lines[place - 1]
    return bool(_LINE.match(line) or _OTHER_LINE.match(line))
