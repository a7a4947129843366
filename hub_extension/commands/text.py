"""Output of the commands. Names, reasons and logs are other people's: no control character gets through."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from springtide.scheduler.client import PoolError

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Add ``--json``, as the parameter ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def printable(text: str) -> str:
    """Return the text without the control characters of a terminal; newlines and tabs stay."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c in "\n\t" or c.isprintable())


def refusal_words(error: PoolError) -> str:
    """Return the message and the hint of a refusal, with the field that it is about."""
    field, said = error.problem.field, printable(str(error))
    return said if field is None or field in said else f"{field}: {said}"


def terminal() -> tuple[int | None, bool]:
    """Return the width of the output's terminal, None if it goes elsewhere, and whether colours are shown."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return None, False
    return shutil.get_terminal_size().columns, not os.environ.get("NO_COLOR")


def one_line(text: str) -> str:
    """Return the text on one line."""
    return " ".join(printable(text).split())


def print_json(value: object) -> None:
    """Print a struct, or a container of structs, as one line of JSON."""
    click.echo(msgspec.json.encode(value))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print rows under a header, numbers to the right; ``empty`` is printed if there are none."""
    for line in table(header, rows) or [empty]:
        click.echo(line)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table, the last column as long as it is; no lines if there are no rows."""
    cells = [[one_line("" if cell is None else str(cell)) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]
    numeric = [
        all(row[i].lstrip("-").isdigit() or row[i] in {"", "none"} for row in cells) for i in range(len(header))
    ]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(header), *cells]
    ]


def say(text: str) -> None:
    """Print a remark, which is not part of the result, to standard error."""
    click.echo(printable(text), file=sys.stderr)
