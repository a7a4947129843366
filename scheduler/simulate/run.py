"""Complete simulations: from a pool, its jobs and a policy to a report and the course of each job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from msgspec import structs

from springtide.scheduler.history.run_times import ExpectedRunTimes, RunTimes
from springtide.scheduler.model import Job, Node, Project, Settings, Snapshot, Surplus
from springtide.scheduler.policy import Planner
from springtide.scheduler.promises import Breach, Watch
from springtide.scheduler.scenario import Scenario
from springtide.scheduler.simulate.report import Report, summarize
from springtide.scheduler.simulate.static import StaticPlanner
from springtide.scheduler.simulate.virtual import FREE, Costs, Course, VirtualPool, course_of

DEFAULTS = Settings()


class Policy(StrEnum):
    """The rules of a simulation."""

    GUARANTEED = "guaranteed"
    """The pool's own policy."""
    STATIC = "static"
    """Static quotas: each project stays within its quota, first in first out with backfill."""


@dataclass(frozen=True, slots=True)
class Load:
    """The input of a simulation: jobs with their run times in seconds, nodes, and the projects that share them.

    ``gpu_types`` is the pool's order of GPU types; ``surplus`` is the rule for GPUs that quotas leave.
    """

    nodes: tuple[Node, ...]
    projects: tuple[Project, ...]
    jobs: tuple[tuple[Job, float], ...]
    gpu_types: tuple[str, ...] = ()
    surplus: Surplus = Surplus.FAIR


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a simulation."""

    report: Report
    courses: Sequence[Course]
    breaches: tuple[Breach, ...]


def load_of(scenario: Scenario) -> Load:
    """Return the jobs of a scenario with their durations. Raises `KeyError` with the id of a job without one."""
    return Load(
        scenario.nodes,
        scenario.projects,
        tuple((job, scenario.durations[job.id]) for job in scenario.jobs),
        scenario.gpu_types,
        scenario.surplus,
    )


def simulate(
    load: Load,
    policy: Policy = Policy.GUARANTEED,
    settings: Settings = DEFAULTS,
    costs: Costs = FREE,
    *,
    clock: Callable[[], float] = time.monotonic,
    expected: ExpectedRunTimes | None = None,
) -> Result:
    """Run a load through virtual time. ``clock`` measures the real time that this takes, in seconds.

    ``expected`` estimates how long jobs run, by default from those that have ended in the simulation.
    ``settings`` that name no GPU types take those of the load. Under `Policy.STATIC`, jobs larger than their
    project's quota are left out, because they could never run.
    """
    began = clock()
    settings = settings if settings.gpu_types else replace(settings, gpu_types=load.gpu_types)
    start = min((job.submitted for job, _ in load.jobs), default=0.0)
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
        watch = Watch(snapshot, standing=planner.standing)
    pool = VirtualPool(
        planner,
        now=start,
        costs=costs,
        witness=watch,
        running=[course_of(job, duration, first_start=start) for job, duration in running],
        use_half_life=settings.use_half_life,
        expected=ExpectedRunTimes(RunTimes()) if expected is None else expected,
    )
    for job, duration in arriving:
        pool.submit(job, duration)
    pool.run()
    if watch is not None:
        watch.finish(pool.now, over=True)
    courses = tuple(pool.courses.values())
    report = summarize(
        courses,
        sum(node.gpus for node in load.nodes),
        dict.fromkeys((project.name for project in load.projects), 0.0)
        | (watch.meter.violations if watch else {}),
        left_out=left_out,
        breaches=(watch.count if watch else 0) + pool.unsettled,
        wall_s=clock() - began,
    )
    return Result(report, courses, tuple(watch.breaches) if watch else ())
