"""What the supervisor of a worker leaves in the attempt's directory, where a job may write, too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files.plain import open_plain
from springtide.scheduler.executors.kubernetes.ends import WorkerEnd, recorded_end
from springtide.scheduler.executors.supervisor.records import Names

LONGEST_RECORD = 1 << 16
"""Maximum size of a record, in bytes."""


class _Began(msgspec.Struct, frozen=True):
    """The part of a supervisor's first record that is of interest here."""

    started: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The known facts of a worker without its pod.

    ``began``: its supervisor has run; ``started`` is when the worker started, ``end`` how it ended, None if that
    is not recorded.
    """

    began: bool = False
    started: float | None = None
    end: WorkerEnd | None = None


def read_trace(directory: Path, rank: int, now: float) -> Trace:
    """Return what the supervisor of a worker has recorded; no time is later than ``now``."""
    names = Names(rank)
    began, ended = _read(directory, names.record), _read(directory, names.exit)
    end = None if ended is None else recorded_end(ended, now)
    if began is None:
        return Trace(began=end is not None, end=end)
    try:
        started = msgspec.json.decode(began, type=_Began).started
    except (msgspec.DecodeError, msgspec.ValidationError):
        started = None
    return Trace(began=True, started=None if started is None else min(started, now), end=end)


def read_traces(directory: Path, ranks: Sequence[int], now: float) -> dict[int, Trace]:
    """Return the traces of these workers."""
    return {rank: read_trace(directory, rank, now) for rank in ranks}


def _read(directory: Path, name: str) -> bytes | None:
    try:
        file = open_plain(directory, (name,))
    except ExecutorError:
        return None
    if file is None:
        return None
    try:
        return os.read(file, LONGEST_RECORD)
    except OSError:
        return None
    finally:
        os.close(file)
