"""What is told of a sweep and of its trials."""

from __future__ import annotations

from springtide.scheduler.wire.shapes import Answer
from springtide.scheduler.wire.sweeps.requests import Parameter

MAX_TRIALS_PAGE = 1_000
"""Maximum number of trials in one answer."""


class Outcome(Answer, frozen=True, kw_only=True):
    """What is known of a trial: its parameters, and what it reported of the sweep's metric.

    ``value`` is the latest one, at the end that by which it is compared; ``curve`` has up to 100 pairs of step and
    value. ``pruned`` says that it ended itself early, because others were better.
    """

    parameters: dict[str, Parameter] | None = None
    value: float | None = None
    curve: list[tuple[float, float]] = []
    pruned: bool = False


class Best(Answer, frozen=True, kw_only=True):
    """The best trial of a sweep among those that succeeded: its number, its job, and its outcome."""

    trial: int
    job: str
    value: float
    parameters: dict[str, Parameter] | None = None


class TrialCounts(Answer, frozen=True, kw_only=True):
    """The trials of a sweep by state; their sum is ``number``.

    ``queued`` are those that have not begun or wait for their first start, ``paused`` those that wait for another
    one. ``gpus`` is the number of GPUs that its trials hold now, ``borrowed`` how many of these are borrowed.
    """

    number: int
    queued: int
    running: int
    paused: int
    succeeded: int
    pruned: int
    failed: int
    cancelled: int
    gpus: int = 0
    borrowed: int = 0
    at_most: int | None = None
    at_least: int = 1
    metric: str = ""
    goal: str = "minimize"
    best: Best | None = None


class TrialRow(Answer, frozen=True, kw_only=True):
    """One trial of a sweep in a table.

    ``job`` is None as long as it has not begun; ``state`` is that of its job, ``pruned`` for one that ended itself
    early, or ``queued`` before it has begun. ``values`` are the numbers that it last reported, ``value`` and
    ``curve`` those of the sweep's metric.
    """

    trial: int
    job: str | None = None
    state: str = "queued"
    parameters: dict[str, Parameter] | None = None
    value: float | None = None
    values: dict[str, float] = {}
    step: float | None = None
    of: float | None = None
    curve: list[tuple[float, float]] = []
    attempt: int = 0
    started: float | None = None
    ended: float | None = None
    gpu_seconds: float = 0.0
    borrowed: int = 0
    error: str = ""


class TrialPage(Answer, frozen=True, kw_only=True):
    """A page of the trials of a sweep. ``next`` is the cursor of the next page, None on the last."""

    items: list[TrialRow]
    next: str | None = None
