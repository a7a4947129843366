"""Measured use of GPUs over intervals by holder, and its down-sampling to longer intervals; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

FINE = 10
MINUTE = 60
HOUR = 3_600
DAY = 86_400
KEPT = {FINE: DAY, MINUTE: 31 * DAY}
"""Seconds for which intervals of a length are kept; those of an hour are kept for good."""


class UsageKey(NamedTuple):
    """The GPU and its holder: a job, a workspace, something ``foreign`` to the pool, or nobody.

    ``kind`` is ``job``, ``workspace``, ``foreign`` or empty; ``server`` is the name of a workspace, ``user`` and
    ``project`` are those of the holder.
    """

    gpu: str
    kind: str = ""
    job: str = ""
    user: str = ""
    server: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """Use of one GPU by one holder in the ``step`` seconds from ``at``, which is in seconds since the epoch.

    ``seconds`` is how long it was measured. None means that the GPU does not report it: ``utilization`` is a mean
    from 0 to 1; ``memory_used`` is a mean, ``memory_peak`` the highest value, in bytes; ``power`` is a mean in
    watts, ``temperature`` the highest in degrees Celsius, ``processes`` the highest number. ECC errors and the Xid
    error are the newest values, traffic is a mean in bytes per second.
    """

    step: int
    at: int
    gpu: str
    kind: str = ""
    job: str = ""
    user: str = ""
    server: str = ""
    project: str = ""
    simulated: bool = False
    seconds: int
    utilization: float | None = None
    memory_used: int | None = None
    memory_peak: int | None = None
    memory_total: int | None = None
    power: float | None = None
    temperature: int | None = None
    processes: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    xid: int | None = None
    nvlink_received: float | None = None
    nvlink_sent: float | None = None
    pcie_received: float | None = None
    pcie_sent: float | None = None

    @property
    def key(self) -> UsageKey:
        """The GPU and its holder."""
        return UsageKey(self.gpu, self.kind, self.job, self.user, self.server, self.project)


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
