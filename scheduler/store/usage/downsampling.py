"""Down-sampling of measured use to longer intervals; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from springtide.scheduler.store.usage.record import KEPT, UsageKey, UsageRecord

MEANS = ("utilization", "power", "nvlink_received", "nvlink_sent", "pcie_received", "pcie_sent")
HIGHEST = ("memory_peak", "temperature", "processes")
NEWEST = ("memory_total", "ecc_corrected", "ecc_uncorrected", "xid")
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
    memory = _mean(group, "memory_used")
    summed: dict[str, Any] = {
        **{name: _mean(group, name) for name in MEANS},
        **{name: max(_known(group, name), default=None) for name in HIGHEST},
        **{name: next(reversed(_known(group, name)), None) for name in NEWEST},
        "memory_used": None if memory is None else round(memory),
        "seconds": sum(record.seconds for record in group),
    }
    return replace(group[-1], step=step, at=at, **summed)


def _known(group: Sequence[UsageRecord], name: str) -> list[int]:
    return [value for record in group if (value := getattr(record, name)) is not None]


def _mean(group: Sequence[UsageRecord], name: str) -> float | None:
    """Return the mean over the time in which the GPU reported the value; None if it never did."""
    reported = [record for record in group if getattr(record, name) is not None]
    seconds = sum(record.seconds for record in reported)
    return sum(record.seconds * getattr(record, name) for record in reported) / seconds if seconds else None


def step_for(start: float, end: float, now: float) -> int:
    """Return the length of the shortest intervals that are kept since ``start`` and not too many, in seconds."""
    for step, kept in KEPT.items():
        if start >= now - kept and (end - start) / step <= MOST_POINTS:
            return step
    return 3_600
