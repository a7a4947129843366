"""Output of the commands. Names, reasons and logs are other people's: no control character gets through."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import click
import msgspec

from springtide.scheduler.client import PoolError

INTERRUPTED: Final = 128 + signal.SIGINT
"""Exit code of a command that Ctrl-C ends, as a shell gives it."""
Command = TypeVar("Command", bound=Callable[..., Any])


class OutputError(click.ClickException):
    """The standard output of the command takes nothing more."""

    exit_code = 1

    def __init__(self, error: OSError) -> None:
        super().__init__(f"The standard output cannot be written: {error.strerror}.")


class _Output(io.FileIO):
    """An output of this process. What it does not take is given up, after one `OutputError` if it ``fails``."""

    def __init__(self, number: int, *, fails: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self._fails = fails
        self._takes = True

    def write(self, data: Any, /) -> int:
        if not self._takes:
            return len(memoryview(data))
        try:
            return super().write(data)
        except (BrokenPipeError, BlockingIOError):
            raise
        except OSError as error:
            self._takes = False
            if self._fails:
                raise OutputError(error) from error
            return len(memoryview(data))


def open_outputs() -> None:
    """Open the outputs of this process so that one that takes nothing is an error of the command, in a sentence.

    One that was closed takes nothing, and its number is occupied: no other file gets it.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            _occupy(number)
        elif stream is not getattr(sys, f"__{name}__"):
            continue
        raw = io.BufferedWriter(_Output(number, fails=name == "stdout"))
        encoding, errors = ("utf-8", "replace") if stream is None else (stream.encoding, stream.errors)
        setattr(sys, name, io.TextIOWrapper(raw, encoding, errors, line_buffering=True))


def _occupy(number: int) -> None:
    """Occupy the number of a closed output with a file that takes nothing."""
    try:
        os.fstat(number)
    except OSError:
        file = os.open(os.devnull, os.O_RDONLY)
        if file != number:
            os.dup2(file, number)
            os.close(file)


def json_option(command: Command) -> Command:
    """Add ``--json``, as the parameter ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def format_option(command: Command) -> Command:
    """Add ``--format`` and ``--json``, as the parameters ``shape`` and ``as_json``."""
    shape = click.option(
        "--format",
        "shape",
        type=click.Choice(("table", "csv", "json")),
        default="table",
        show_default=True,
        help="A table for people, or CSV or JSON with all values for programs.",
    )
    same = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
    return shape(same(command))


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
    numeric = [all(row[i] in {"", "-", "none"} or _is_number(row[i]) for row in cells) for i in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(header), *cells]
    ]


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").replace(".", "", 1).isdigit()


def say(text: str) -> None:
    """Print a remark, which is not part of the result, to standard error."""
    click.echo(printable(text), file=sys.stderr)
