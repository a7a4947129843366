"""Measured use of GPUs over intervals by holder, and its down-sampling to longer intervals; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from springtide.scheduler.gpu_reading import METRICS, Metric, Reading, Summary

FINE = 10
MINUTE = 60
HOUR = 3_600
DAY = 86_400
KEPT = {FINE: DAY, MINUTE: 31 * DAY}
"""Seconds for which intervals of a length are kept; those of an hour are kept for good."""


class UsageKey(Struct, frozen=True):
    """The GPU and its holder: a job, a workspace, something ``foreign`` to the pool, or none.

    ``kind`` is ``job``, ``workspace``, ``foreign`` or empty; ``server`` is the name of a workspace, ``user`` and
    ``project`` are those of the holder.
    """

    gpu: str
    kind: str = ""
    job: str = ""
    user: str = ""
    server: str = ""
    project: str = ""


class UsageRecord(Struct, frozen=True, kw_only=True):
    """Use of one GPU by one holder in the ``step`` seconds from ``at``, which is in seconds since the epoch.

    ``seconds`` is how long it was measured. ``reading`` sums up the values of that time as their `Metric` says;
    ``memory_peak`` is the most memory in use, in bytes.
    """

    step: int
    at: int
    seconds: int
    key: UsageKey
    simulated: bool = False
    memory_peak: int | None = None
    reading: Reading


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Use over a span, of what ``key`` names; its other fields are empty.

    ``held`` and ``used`` are GPU-seconds: ``used`` is the part of ``measured`` in which the GPUs computed, and
    ``measured`` the part of ``held`` in which they reported that. ``memory_peak`` is the most that one GPU had in
    use, in bytes.
    """

    key: UsageKey
    held: float
    measured: float
    used: float
    memory_peak: int | None
    simulated: bool


MOST_POINTS = 1_500
"""Maximum number of intervals of a series."""


def downsample(records: Iterable[UsageRecord], step: int) -> list[UsageRecord]:
    """Return the same use in intervals of ``step`` seconds, a multiple of the length of the given ones."""
    groups: dict[tuple[int, UsageKey], list[UsageRecord]] = {}
    for record in sorted(records, key=lambda record: record.at):
        groups.setdefault((record.at // step * step, record.key), []).append(record)
    return [_merged(group, step, at) for (at, _), group in groups.items()]


def _merged(group: Sequence[UsageRecord], step: int, at: int) -> UsageRecord:
    """Return one record for those of one holder, in the order of time."""
    return replace(
        group[-1],
        step=step,
        at=at,
        seconds=sum(record.seconds for record in group),
        memory_peak=max((record.memory_peak for record in group if record.memory_peak is not None), default=None),
        reading=Reading(**{name: _summary(group, name, metric) for name, metric in METRICS.items()}),
    )


def _summary(group: Sequence[UsageRecord], name: str, metric: Metric) -> Any:
    """Return a value over the time in which the GPU reported it; None if it never did."""
    values = [(value, record.seconds) for record in group if (value := getattr(record.reading, name)) is not None]
    if not values:
        return None
    match metric.summary:
        case Summary.NEWEST:
            return values[-1][0]
        case Summary.HIGHEST:
            return max(value for value, _ in values)
        case Summary.MEAN:
            mean = sum(value * seconds for value, seconds in values) / sum(seconds for _, seconds in values)
            return mean if metric.most is None else round(mean)


def step_for(start: float, end: float, now: float) -> int:
    """Return the length of the shortest intervals that are kept since ``start`` and not too many, in seconds."""
    for step, kept in KEPT.items():
        if start >= now - kept and (end - start) / step <= MOST_POINTS:
            return step
    return 3_600
