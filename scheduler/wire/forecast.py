"""When jobs are expected to start, and what would be if."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from springtide.scheduler.wire.jobs import Alternative, Reason, Starts
from springtide.scheduler.wire.people import ProjectEdit
from springtide.scheduler.wire.pool import TypeNumbers
from springtide.scheduler.wire.shapes import MAX_NAME, Answer, ProjectName, Request, Word
from springtide.scheduler.wire.submission import Wish

MOST_STARTS = 100
"""Jobs whose start may be asked for at once."""
MOST_PROJECTS = 200
MOST_NODES = 200

Id = Annotated[str, Meta(min_length=1, max_length=64)]
NodeName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]


class NodeEdit(Request, frozen=True, kw_only=True):
    """A train node as it might be. ``gpus`` 0 takes it away; of a known node the rest stays as it is."""

    gpus: Annotated[int, Meta(ge=0, le=64)]
    gpu_type: Word = ""
    labels: Annotated[dict[Word, Word], Meta(max_length=20)] = {}


class WhatIf(Request, frozen=True, kw_only=True):
    """A question about what would be: with a job more, and for admins with other projects and nodes.

    ``projects`` are edits by name, of projects that are there or would be new; ``nodes`` train nodes by name.
    ``starts`` are ids of waiting jobs whose start is asked for; None means those the caller sees, at most 100.
    ``smaller`` asks also for a smaller job that would start at once, if ``job`` would not.
    """

    job: Wish | None = None
    projects: Annotated[dict[ProjectName, ProjectEdit], Meta(max_length=MOST_PROJECTS)] = {}
    nodes: Annotated[dict[NodeName, NodeEdit], Meta(max_length=MOST_NODES)] = {}
    starts: Annotated[list[Id], Meta(max_length=MOST_STARTS)] | None = None
    smaller: bool = False


class ProjectOutlook(Answer, frozen=True, kw_only=True):
    """The numbers of a project after the next decisions, in GPUs; with several GPU types also by type."""

    quota: int | None
    limit: int | None
    fair_share: int
    held: int
    borrowed: int
    waiting: int
    by_type: dict[str, TypeNumbers] = {}


class Shift(Answer, frozen=True, kw_only=True):
    """The effect of the next decisions on a job. ``job`` and ``name`` are empty for who may not see it.

    ``job`` is also empty for the hypothetical job. ``gpus`` are those that the job holds before a pause
    or a move, and after a start.
    """

    kind: str
    """``started``, ``paused`` or ``moved``."""
    user: str
    project: str
    gpus: int
    job: str = ""
    name: str = ""
    reason: Reason | None = None


class Forecast(Answer, frozen=True, kw_only=True):
    """A what-if forecast. ``until`` is its horizon.

    ``job`` is the start of the hypothetical job, ``starts`` those of waiting jobs by id. ``estimate`` says what to
    expect of the hypothetical job: its code is ``estimate-now`` if the next decisions start it, ``estimate-room``
    if they pause or move others for it first, ``estimate-later`` if it waits, and otherwise the code of the reason
    why its start is unknown. Its sentences with the role ``advice`` are those of `Advice`. ``starts_if``
    has what lets jobs start whose starts were asked for by id. ``notes`` say what of changed projects would no
    longer be as decided, such as a booking beyond a limit.
    """

    at: float
    until: float
    job: Starts | None
    starts: dict[str, Starts]
    projects: dict[str, ProjectOutlook]
    shifts: list[Shift]
    starts_if: dict[str, list[Alternative]] = {}
    estimate: Reason | None = None
    notes: list[str] = []


class MeasuredPlacement(Answer, frozen=True, kw_only=True):
    """The speed of a work in one placement: ``workers`` workers with ``gpus`` GPUs each, of one type.

    ``level`` is the tightest topology level that held all workers (empty: the pool), ``nodes`` the number of their
    nodes, and ``placed`` says that in words. ``runs`` are the latest attempts that were measured;
    ``steps_per_second`` is their median, or ``run_seconds`` that of whole runs if no steps are reported.
    """

    gpu_type: str
    workers: int
    gpus: int
    level: str
    nodes: int
    placed: str
    runs: int
    steps_per_second: float | None = None
    run_seconds: float | None = None


class Advice(Answer, frozen=True, kw_only=True):
    """Advice on GPUs for the next run of a work by its earlier runs, with their measurements.

    The same work are jobs of the caller in one project with the same name; digits of names are ignored. ``text``
    is empty if nothing is notably better than the request.
    """

    reasons: list[Reason]
    text: str
    placements: list[MeasuredPlacement]


class ForecastAccuracy(Answer, frozen=True, kw_only=True):
    """The accuracy of the shown forecasts, compared with the starts of jobs.

    ``since`` is the time of the oldest of these, in seconds since the epoch. ``forecasts`` is the number of those
    whose jobs, ``jobs`` of them, have started since: ``inside`` of these started within the window, ``early``
    before it and ``late`` after it. The error is the distance between the likely start and the real one,
    ``mean_width`` that of the bounds of windows with both, in seconds.
    """

    since: float
    forecasts: int
    jobs: int
    inside: int
    early: int
    late: int
    median_error: float | None
    mean_error: float | None
    mean_width: float | None
