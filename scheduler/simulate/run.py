"""Complete simulations: from a pool, its jobs and a policy to a report and the course of each job."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from msgspec import structs

from springtide.scheduler.history.run_times import ExpectedRunTimes, RunTimes
from springtide.scheduler.model import Job, Settings, Snapshot
from springtide.scheduler.policy import Planner
from springtide.scheduler.promises import Breach, Watch
from springtide.scheduler.scenario.past import USUAL, Circumstances
from springtide.scheduler.simulate.changes import presence, schedule_changes
from springtide.scheduler.simulate.load import Load
from springtide.scheduler.simulate.report import Report, summarize
from springtide.scheduler.simulate.static import StaticPlanner
from springtide.scheduler.simulate.virtual import FREE, Costs, Course, VirtualPool, course_of

DEFAULTS = Settings()
PARTS = 100
"""Number of times that a simulation of a span says how far it is."""


class Policy(StrEnum):
    """The rules of a simulation."""

    GUARANTEED = "guaranteed"
    """The pool's own policy."""
    STATIC = "static"
    """Static quotas: each project stays within its quota, first in first out with backfill."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a simulation."""

    report: Report
    courses: Sequence[Course]
    breaches: tuple[Breach, ...]


def simulate(
    load: Load,
    policy: Policy = Policy.GUARANTEED,
    settings: Settings = DEFAULTS,
    costs: Costs = FREE,
    *,
    clock: Callable[[], float] = time.monotonic,
    expected: ExpectedRunTimes | None = None,
    checked: bool = True,
    passed: Callable[[float], None] | None = None,
) -> Result:
    """Run a load through virtual time. ``clock`` measures the real time that this takes, in seconds.

    ``expected`` estimates how long jobs run, by default from those that have ended in the simulation.
    ``settings`` that name no GPU types take those of the load. Under `Policy.STATIC`, jobs larger than their
    project's quota are left out, because they could never run. Unless ``checked`` no promise is. ``passed`` hears
    now and then which part of the span of a load has passed.
    """
    began = clock()
    settings = settings if settings.gpu_types else replace(settings, gpu_types=load.gpu_types)
    start, end = load.begins, math.inf if load.span is None else load.span[1]
    running = tuple(
        (structs.replace(job, started=start), duration) for job, duration in load.jobs if job.placement
    )
    snapshot = Snapshot(start, load.nodes, load.projects, tuple(job for job, _ in running), settings)
    watch: Watch | None = None
    planner: Planner | StaticPlanner
    left_out = 0
    arriving: Iterable[tuple[Job, float]] = (arrival for arrival in load.jobs if not arrival[0].placement)
    if policy is Policy.STATIC:
        planner = StaticPlanner(snapshot)
        fitting = [arrival for arrival in arriving if planner.fits_quota(arrival[0])]
        left_out = len(load.jobs) - len(running) - len(fitting)
        arriving = fitting
    else:
        planner = Planner(snapshot)
        watch = Watch(snapshot, standing=planner.standing) if checked else None
    own = load.circumstances
    pool = VirtualPool(
        planner,
        now=start,
        costs=costs,
        witness=watch,
        running=[_course(job, duration, own.get(job.id, USUAL), start) for job, duration in running],
        use_half_life=settings.use_half_life,
        expected=ExpectedRunTimes(RunTimes()) if expected is None else expected,
    )
    for job, duration in arriving:
        pool.add(_course(job, duration, own.get(job.id, USUAL)))
    schedule_changes(pool, load)
    if load.span is not None and passed is not None:
        for part in range(1, PARTS + 1):
            pool.run(start + (end - start) * part / PARTS)
            passed(part / PARTS)
    pool.run(end)
    if load.span is not None:
        pool.cut(end)
    if watch is not None:
        watch.finish(pool.now, over=load.span is None)
    courses = tuple(pool.courses.values())
    report = summarize(
        courses,
        lambda since, until: sum(presence(load, since, until).values()),
        dict.fromkeys((project.name for project in load.projects), 0.0)
        | (watch.meter.violations if watch else {}),
        left_out=left_out,
        breaches=(watch.count if watch else 0) + pool.unsettled,
        wall_s=clock() - began,
        span=load.span,
    )
    return Result(report, courses, tuple(watch.breaches) if watch else ())


def _course(job: Job, duration: float, own: Circumstances, first_start: float | None = None) -> Course:
    """Return the course of a running or arriving job."""
    course = course_of(job, duration, first_start if own.started is None else own.started)
    course.saves, course.checkpoint_every = own.saves, own.checkpoint_every
    course.done = course.ran = min(own.worked, duration)
    return course
