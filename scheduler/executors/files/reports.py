"""The reports of a job. The job writes them, so every field is validated."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springtide.scheduler import metrics
from springtide.scheduler.executors.base import ExecutorError, Milestone, Report, TrialReport
from springtide.scheduler.executors.files.plain import LONGEST_PATH, open_plain
from springtide.scheduler.model import Checkpoint

MAX_LINE = 256 * 1024
"""Maximum size of a line, in bytes, which bounds its metrics."""
MAX_PARAMETERS = 64
MAX_NAME = 128
MAX_CURVE = 100
MAX_TEXT = 1000
MAX_COUNT = 1 << 40
LONGEST_WAIT = 86_400.0
"""Maximum time that a result may wait for room, in seconds."""
READ_SIZE = 1 << 19
"""Number of bytes that are read from the file at a time."""
MAX_READ = 1 << 24
"""Maximum number of bytes that one call of `read` reads."""


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _attempt(value: Any, newest: int) -> int | None:
    """Return the number of an existing attempt, None for any other ``value``."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= newest else None


@dataclass(frozen=True, slots=True)
class Writer:
    """The attempt that wrote a line without a number; ``certain`` if it is known where its reports begin."""

    attempt: int
    certain: bool


def writer_at(offset: int, beginnings: Sequence[tuple[int, int]], newest: int) -> Writer:
    """Return who wrote the line at an offset; before the first known beginning it is the attempt before that one.

    ``beginnings`` are those of `JobPlaces`, ``newest`` is the last attempt.
    """
    before = [attempt for begin, attempt in beginnings if begin <= offset]
    if before:
        return Writer(before[-1], certain=True)
    return Writer(max(1, beginnings[0][1] - 1) if beginnings else newest, certain=False)


def parse(line: bytes, seq: int, newest: int, now: float, writer: Writer | None = None) -> Report | None:
    """Return the report in a line, None if it is not one; a later time or attempt than the present is replaced.

    ``newest`` is the last attempt, ``writer`` that of a line without a number, None for the last one. Of a line
    that is too long only that it was left out is known.
    """
    by = writer or Writer(newest, certain=False)
    if len(line) > MAX_LINE:
        return Report(seq=seq, at=now, attempt=by.attempt, left_out=1) if line.endswith(b"\n") else None
    try:
        decoded = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    values: dict[str, metrics.Value] = {}
    given = decoded.get("values")
    for name, value in given.items() if isinstance(given, dict) else ():
        reported = metrics.value_of(value)
        if reported is not None and _is_name(name):
            values[name] = reported
    at, named = _number(decoded.get("at")), _attempt(decoded.get("attempt"), newest)
    return Report(
        seq=seq,
        at=now if at is None or at < 0 else min(at, now),
        attempt=by.attempt if named is None else named,
        step=_number(decoded.get("step")),
        of=_number(decoded.get("of")),
        values=values,
        saved=decoded.get("saved") is True,
        unsaved=decoded.get("unsaved") is True,
        trial=_trial(decoded.get("trial")),
        milestone=_milestone(decoded.get("milestone")),
        lost_result=_text(decoded.get("lost_result"))[:MAX_TEXT],
        found=_checkpoint(decoded.get("found"), now),
        numbered=named is not None or by.certain,
        left_out=_count(decoded.get("left_out")),
        waits_for_room=_seconds(decoded.get("waits_for_room")),
    )


def _seconds(given: Any) -> float | None:
    """Return a time of at most `LONGEST_WAIT`, None for any other value."""
    seconds = _number(given)
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_WAIT else None


def _count(given: Any) -> int:
    """Return a number of reports, 0 for any other value."""
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < MAX_COUNT else 0


def _milestone(given: Any) -> Milestone | None:
    return Milestone(given) if isinstance(given, str) and given in tuple(Milestone) else None


def _checkpoint(given: Any, now: float) -> Checkpoint | None:
    """Return a recognised checkpoint, None if a part of it is not valid."""
    if not isinstance(given, dict):
        return None
    path, by = _text(given.get("path")), _text(given.get("by"))
    size, written = _number(given.get("size")), _number(given.get("written"))
    if not 0 < len(path) <= LONGEST_PATH or "\0" in path or not 0 < len(by) <= MAX_NAME:
        return None
    if size is None or not 0 <= size < 1 << 63 or written is None or written < 0:
        return None
    return Checkpoint(path, int(size), min(written, now), by)


def _trial(given: Any) -> TrialReport | None:
    """Return the report of a trial without its invalid parts."""
    if not isinstance(given, dict):
        return None
    curve = given.get("curve")
    pairs = [_pair(pair) for pair in curve[:MAX_CURVE]] if isinstance(curve, list) else []
    return TrialReport(
        parameters=_parameters(given.get("parameters")),
        value=_number(given.get("value")),
        curve=tuple(pair for pair in pairs if pair is not None),
        pruned=given.get("pruned") is True,
        memo=_text(given.get("memo")),
    )


def _pair(given: Any) -> tuple[float, float] | None:
    if not isinstance(given, list) or len(given) != 2:
        return None
    step, value = map(_number, given)
    return None if step is None or value is None else (step, value)


def _parameters(given: Any) -> dict[str, str | int | float | bool | None] | None:
    if not isinstance(given, dict):
        return None
    return {
        name: value
        for name, value in list(given.items())[:MAX_PARAMETERS]
        if _is_name(name) and (value is None or isinstance(value, bool) or _is_plain(value))
    }


def _text(given: Any) -> str:
    """Return a text that a job reported, empty if it is not valid."""
    return given if isinstance(given, str) and _is_unicode(given) else ""


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and _is_unicode(name)


def _is_plain(value: Any) -> bool:
    """Return whether a value is a text or a number that all readers of JSON take."""
    if isinstance(value, str):
        return len(value) <= MAX_TEXT and _is_unicode(value)
    return _number(value) is not None and (isinstance(value, float) or abs(value) < 1 << 53)


def _is_unicode(text: str) -> bool:
    """Return whether a text has no halves of characters, which no encoding has."""
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in text)


@dataclass(frozen=True, slots=True)
class Batch:
    """Reports that were read, the offset after them, and whether there may be more."""

    reports: tuple[Report, ...]
    offset: int
    more: bool = False


def read(
    path: Path, after: int, limit: int, attempt: int, now: float, *, beginnings: Sequence[tuple[int, int]] = ()
) -> Batch:
    """Read up to ``limit`` reports from the offset ``after``; the ``seq`` of a report is the offset of its end.

    ``attempt`` is the last one, ``beginnings`` say where the reports of attempts begin, as those of `JobPlaces`.
    A last line without its end is left out. At most `MAX_READ` bytes are read.
    """
    try:
        file = open_plain(path.parent, (path.name,))
    except ExecutorError:
        file = None
    if file is None:
        return Batch((), after)
    try:
        found: list[Report] = []
        offset = after
        while len(found) < limit and offset - after < MAX_READ:
            data = os.pread(file, READ_SIZE, offset)
            end = data.rfind(b"\n") + 1
            if end == 0 and len(data) <= MAX_LINE:
                return Batch(tuple(found), offset)
            for line in data[: end or len(data)].splitlines(keepends=True):
                writer = writer_at(offset, beginnings, attempt) if beginnings else None
                offset += len(line)
                report = parse(line, offset, attempt, now, writer)
                if report is not None:
                    found.append(report)
                    if len(found) == limit:
                        break
        return Batch(tuple(found), offset, more=True)
    finally:
        os.close(file)
