"""The lines of a cell that IPython makes into Python: no job of the cell runs them."""

from __future__ import annotations

import re
from typing import Final

from springtide.scheduler.wording import given, listed
from springtide.widgets.submission.sent import compile_cell

MAGIC: Final = "%%train"
"""The magic that sends the rest of its cell."""
CELL: Final = "The cell"
INSTEAD: Final = "Use Python instead, such as subprocess.run, or send the whole notebook."
_LINE = re.compile(r"\s*(?:[\w.,\[\] ]+=\s*)?(?:!(?!=)|%{1,2}[A-Za-z])")
"""A line for a shell or for a magic."""
MAX_FOUND: Final = 20
"""Maximum number of lines that are looked for."""


def lines_before(cell: str) -> int:
    """Return the number of lines of a cell up to the one with the magic that sends the rest; 0 without it."""
    lines = cell.splitlines()
    return next((place for place, line in enumerate(lines, 1) if line.split()[:1] == [MAGIC]), 0)


def refusal_of(cell: str, name: str = CELL) -> str:
    """Return why a cell is not sent because of such lines; empty if none of them is in its way."""
    try:
        compile_cell(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        places = _places(cell, error)
        return _refused(cell, places, name) if places else ""
    return ""


def mistake_of(cell: str, error: SyntaxError) -> str:
    """Return why a cell is no plain Python, with its lines."""
    return refusal_of(cell) or f"{CELL} cannot be sent: {error.msg} in line {error.lineno}."


def _refused(cell: str, places: list[int], name: str) -> str:
    lines = cell.splitlines()
    shown = {place: given(lines[place - 1].strip(), 60) for place in places}
    if len(shown) == 1:
        named = "".join(f"line {place}, {line}, is a shell or magic line" for place, line in shown.items())
    else:
        named = f"{listed([f'line {place} ({line})' for place, line in shown.items()])} are shell or magic lines"
    return f"{name} cannot be sent: {named}, which only notebooks run. {INSTEAD}"


def _places(cell: str, error: Exception) -> list[int]:
    """Return the numbers of such lines: those at which reading the cell fails until they are passed over."""
    lines = cell.splitlines()
    found: list[int] = []
    while isinstance(error, SyntaxError) and len(found) < MAX_FOUND:
        first = next((place for place, line in enumerate(lines, 1) if line.strip()), 0)
        here = next((place for place in (error.lineno or first, first) if _is_magic(lines, place)), 0)
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


def _is_magic(lines: list[str], place: int) -> bool:
    return 0 < place <= len(lines) and _LINE.match(lines[place - 1]) is not None
