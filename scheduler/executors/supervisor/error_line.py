"""The error at the end of a log, in one line; pure."""

from __future__ import annotations

import re

TAIL = 32768
"""Length of the end of a log in which the error is looked for, in bytes."""
MOST_AFTER = 60
"""Maximum number of lines between an error and the end, such as the summary of a launcher or a tracker.

Indented lines right after the error do not count: they are of its message, such as the parameters in one of torch.
"""
LONGEST = 300
"""Maximum length of the line, in characters."""

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_RANK = re.compile(r"^\[rank\d+\]:\s?")
"""The mark that torch puts before each line of a traceback."""
_GROUP = re.compile(r"^  [+|] ?")
"""The frame that Python draws around a group of exceptions."""
_TRACEBACK = re.compile(r"^(?:Exception Group |(?P<kind>\w+)\s+)?Traceback \(most recent call last\)")
_UNENDED = re.compile(
    r"(?<=[^\n])(?=Traceback \(most recent call last\):\s*$"
    r"|  (?:File \"[^\"\n]+\"|Cell In ?\[\d+\]), line \d+\s*$)",
    re.MULTILINE,
)
"""Where a traceback begins behind output without an end of line, such as a progress bar or a prompt."""
_ERROR = re.compile(r"^(?:(?:\w+|<locals>)\.)*(?P<kind>[A-Za-z_]\w*)(?P<message>: .*|:?)$")
_QUALIFIED = re.compile(r"^(?:\w+\.)+(?P<kind>[A-Za-z_]\w*(?:Error|Exception))(?P<message>: .*)$")
"""An exception with its module, as it is printed without the head of a traceback."""
_CELL = re.compile(r'^(?:(?:  )?Cell In ?\[(?P<cell>\d+)\]|  File "In \[(?P<sent>\d+)\]"), line (?P<line>\d+)')
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)|^File (?P<shown>[^:]+):(?P<at>\d+), in ')
_FOREIGN = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|/springtide/training/|^<")
"""Files that are not the user's: of installed packages, of Python, and of the library that runs the job."""
_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
"""Errors that Python prints without the head of a traceback."""
_LAUNCHERS = frozenset({"ChildFailedError"})
"""Errors of programs that start others: they say that a process failed, whose own error comes before."""


def error_line(text: str, code: int) -> str:
    """Return the error with which a program ended, by the end of its log; empty if nothing was written.

    That is the exception with its message and its place in the user's code, such as
    ``ValueError: no data (train.py, line 12)`` or ``(In [8], line 3)``. Without a traceback it is the exception in
    the last line, else the exit code with that line, and with the last exception if that is far from the end.
    """
    plain = _UNENDED.sub("\n", _ESCAPES.sub("", text))
    lines = [_GROUP.sub("", _RANK.sub("", line)).rstrip() for line in plain.splitlines()]
    found = next(filter(None, (_error_of(lines, start) for start in range(len(lines) - 1, -1, -1))), None)
    if found is not None and found[1] <= MOST_AFTER:
        return found[0]
    last = next((line for line in reversed(lines) if _shown(line)), "")
    alone = _QUALIFIED.match(last)
    if alone is not None:
        return _shown(f"{alone['kind']}{alone['message']}")[:LONGEST]
    if found is not None:
        error, after = found
        return f"It ended with exit code {code}, {after} lines after {error}; its log ends: {_shown(last)}"[
            :LONGEST
        ]
    return f"It ended with exit code {code}; its log ends: {_shown(last)}"[:LONGEST] if last else ""


def _error_of(lines: list[str], start: int) -> tuple[str, int] | None:
    """Return the error of the traceback that starts at this line, and the number of lines after it.

    None if none starts there.
    """
    header = _TRACEBACK.match(lines[start])
    if header is None and not (_FRAME.match(lines[start]) or _CELL.match(lines[start])):
        return None
    kind = header["kind"] if header else None
    for place in range(start + 1, len(lines)):
        line = lines[place]
        if not line or line.startswith((" ", "\t")):
            continue
        error = _ERROR.match(line)
        if kind is not None and (error is None or error["kind"] != kind):
            continue
        if error is None or (header is None and error["kind"] not in _SYNTAX):
            return None
        if error["kind"] in _LAUNCHERS:
            return None
        words = _shown(f"{error['kind']}{error['message'].rstrip(':')}")
        where = _place(lines[start:place])
        message = next(
            (i for i in range(place + 1, len(lines)) if not lines[i].startswith((" ", "\t"))), len(lines)
        )
        return f"{words[: LONGEST - len(where)]}{where}", len(lines) - message
    return None


def _place(frames: list[str]) -> str:
    """Return the last place in the user's code, in brackets; empty if there is none."""
    for line in reversed(frames):
        cell = _CELL.match(line)
        if cell is not None:
            return f" (In [{cell['cell'] or cell['sent']}], line {cell['line']})"
        frame = _FRAME.match(line)
        file = (frame["file"] or frame["shown"]) if frame is not None else ""
        if frame is not None and not _FOREIGN.search(file):
            return _shown(f" ({file.rpartition('/')[2]}, line {frame['line'] or frame['at']})", " ")
    return ""


def _shown(line: str, before: str = "") -> str:
    """Return a line on one line, without what cannot be printed."""
    return before + " ".join("".join(filter(str.isprintable, word)) for word in line.split())
