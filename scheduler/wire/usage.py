"""Measured use of GPUs. *Held* means assigned to a job or a workspace, *used* means busy with computation."""

from __future__ import annotations

from typing import Final

from springtide.scheduler.gpu_reading import METRICS, Reading
from springtide.scheduler.wire.shapes import Answer


class JobUsage(Answer, frozen=True, kw_only=True):
    """Present use of a job's GPUs, measured at ``at``.

    ``gpus`` is how many were measured, ``utilization`` the mean part of the time in which they computed, 0 to 1;
    memory is that of all in bytes; None if the GPUs do not report it. ``unused_for`` is how long they have
    hardly been used, in seconds, and ``unused_share`` their mean utilization in that time; None while they are
    used.
    """

    at: float
    gpus: int
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    simulated: bool = False
    unused_for: float | None = None
    unused_share: float | None = None


class UsagePoint(Answer, frozen=True, kw_only=True):
    """Use of all GPUs of a job in the interval that begins at ``at``, as `JobUsage` has it."""

    at: float
    gpus: int
    utilization: float | None = None
    memory_used: int | None = None
    power: float | None = None
    """In watts, of all GPUs together."""


class UsageSeries(Answer, frozen=True, kw_only=True):
    """Use of a job's GPUs over time, in intervals of ``step`` seconds; none if nothing was measured."""

    step: int
    simulated: bool
    memory_total: int | None
    """Memory of all GPUs that the job held at last, in bytes."""
    points: list[UsagePoint]


class GpuReading(Reading, Answer, frozen=True, kw_only=True, omit_defaults=False):
    """The latest reading of one GPU, with its place and its holder."""

    uuid: str
    node: str
    index: int
    environment: str
    model: str
    simulated: bool
    user: str
    project: str
    """The owner of the job or workspace that holds it; empty while it is free."""
    held: bool


class ShownMetric(Answer, frozen=True, kw_only=True):
    """A value of `Reading` that the tooltip of a GPU says, as its `Metric` declares it."""

    name: str
    words: str
    scale: float
    positive: bool


SHOWN: Final = tuple(
    ShownMetric(name=name, words=metric.words, scale=metric.scale, positive=metric.positive)
    for name, metric in METRICS.items()
    if metric.words
)


class PoolUsage(Answer, frozen=True, kw_only=True):
    """The latest readings of all GPUs that were measured, at ``at``; None before the first and where none are.

    Simulated GPUs are measured while jobs hold them. ``measured`` is whether the pool measures at all. ``shown``
    are the values that tooltips say, in their order.
    """

    measured: bool
    at: float | None
    gpus: list[GpuReading]
    shown: tuple[ShownMetric, ...] = SHOWN
    unrecorded: str = ""
    """Why the latest readings were not recorded; empty if they were."""


class UsageShare(Answer, frozen=True, kw_only=True):
    """Use over a span of one GPU, job, workspace, person or project; names that do not apply are empty.

    ``held`` and ``used`` are GPU-seconds that were measured; ``utilization`` is used / held, None where the GPUs
    do not report it. ``memory_peak`` is the most that one GPU had in use, in bytes.
    """

    gpu: str = ""
    job: str = ""
    user: str = ""
    server: str = ""
    project: str = ""
    held: float
    used: float
    utilization: float | None
    memory_peak: int | None
    simulated: bool


class UsageReport(Answer, frozen=True, kw_only=True):
    """Use over a span by the requested field, the most held first."""

    start: float
    end: float
    items: list[UsageShare]
