"""The lines a job reports. They come from the job, so nothing in them is believed without a look."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springtide.scheduler.executors.base import ExecutorError, Report
from springtide.scheduler.executors.files.plain import open_plain

LONGEST_LINE = 16 * 1024
MOST_VALUES = 64
LONGEST_NAME = 128
BATCH = 1 << 19
MOST_READ = 1 << 24


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def parse(line: bytes, seq: int, attempt: int, now: float) -> Report | None:
    """A line as a report, None if it is not one. What it says of time and attempt may not lie ahead of ours."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    values: dict[str, float] = {}
    given = said.get("values")
    for name, value in list(given.items())[:MOST_VALUES] if isinstance(given, dict) else ():
        number = _number(value)
        if number is not None and 0 < len(name) <= LONGEST_NAME:
            values[name] = number
    told, at = said.get("attempt"), _number(said.get("at"))
    return Report(
        seq=seq,
        at=now if at is None else min(at, now),
        attempt=told if isinstance(told, int) and not isinstance(told, bool) and 1 <= told <= attempt else attempt,
        step=_number(said.get("step")),
        of=_number(said.get("of")),
        values=values,
        saved=said.get("saved") is True,
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """Reports that were read, and where to read on."""

    reports: tuple[Report, ...]
    offset: int
    more: bool = False


def read(path: Path, after: int, limit: int, attempt: int, now: float) -> Batch:
    """Up to ``limit`` reports from byte ``after``; each one's ``seq`` is the byte at which its line ends.

    A last line without its end is left for the next time. Reads no more than `MOST_READ` bytes.
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
        while len(found) < limit and offset - after < MOST_READ:
            data = os.pread(file, BATCH, offset)
            end = data.rfind(b"\n") + 1
            if end == 0 and len(data) <= LONGEST_LINE:
                return Batch(tuple(found), offset)
            for line in data[: end or len(data)].splitlines(keepends=True):
                offset += len(line)
                report = parse(line, offset, attempt, now)
                if report is not None:
                    found.append(report)
                    if len(found) == limit:
                        break
        return Batch(tuple(found), offset, more=True)
    finally:
        os.close(file)
