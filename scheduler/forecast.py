"""When a job will start, and how the pool would stand, by running the same policy forward."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from springtide.scheduler.model import (
    Change,
    Job,
    JobChanged,
    JobRemoved,
    NodesChanged,
    Phase,
    ProjectsChanged,
    SettingsChanged,
    Snapshot,
    Standing,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.simulate.carry_out import paused
from springtide.scheduler.simulate.virtual import Course, VirtualPool

HORIZON = 14 * 86400.0
"""How far to look ahead, in seconds."""

UNKNOWN = 3600.0
"""The likely run time, in seconds, of a job of which nothing is known and that has not run longer yet."""

SPREAD = 2.0
"""A run time that was learnt, not limited, may well be this many times shorter or longer."""


@dataclass(frozen=True, slots=True)
class Window:
    """When a job is expected to start, on the snapshot's clock.

    ``earliest`` is if all run times turn out short, ``latest`` if they turn out long; None means not within the
    horizon, or that it cannot be told. Jobs that will be submitted later are not foreseen.
    """

    earliest: float | None
    likely: float | None
    latest: float | None


@dataclass(frozen=True, slots=True)
class Outlook:
    """What lies ahead: the windows of the jobs asked for, and how projects stand after the next decisions."""

    starts: Mapping[str, Window]
    standing: Mapping[str, Standing]


def forecast(
    snapshot: Snapshot,
    asked: Collection[str] | None = None,
    changes: Sequence[Change] = (),
    *,
    horizon: float = HORIZON,
) -> Outlook:
    """Look ahead from a snapshot.

    ``asked`` are ids of waiting jobs; None means all of them. ``changes`` are made first: a job that is not
    submitted yet, other quotas, weights or nodes. Run times are those `Job.expected` and `Job.time_limit`
    suggest, and the longer a job of unknown length has run, the longer it is taken to run on.
    """
    start = prepared(snapshot, changes)
    waiting = {job.id for job in start.jobs if job.phase is Phase.WAITING}
    wanted = waiting if asked is None else waiting & set(asked)
    runs = [_starts(start, wanted, rule, horizon) for rule in (shortest, likeliest, longest)]
    starts = {job: _window([run.get(job) for run in runs]) for job in sorted(wanted)}
    missing = dict.fromkeys(set(asked or ()) - wanted, Window(None, None, None))
    return Outlook({**starts, **missing}, _standing(start))


def prepared(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """The snapshot after the changes, with pauses under way completed and jobs of vanished nodes waiting again."""
    jobs = {job.id: job for job in snapshot.jobs}
    for change in changes:
        match change:
            case JobChanged(job):
                jobs[job.id] = job
            case JobRemoved(job_id):
                jobs.pop(job_id, None)
            case NodesChanged(nodes):
                snapshot = replace(snapshot, nodes=nodes)
            case ProjectsChanged(projects):
                snapshot = replace(snapshot, projects=projects)
            case SettingsChanged(settings):
                snapshot = replace(snapshot, settings=settings)
    room = {(node.name, gpu) for node in snapshot.nodes for gpu in range(node.gpus)}
    return replace(snapshot, jobs=tuple(_grounded(job, room, snapshot.now) for job in jobs.values()))


def shortest(job: Job, now: float) -> float:
    """How long the job may still run, at the least, in seconds with all its workers."""
    if job.expected is None:
        return 0.0 if job.time_limit is None else max(0.0, _most(job, now) / SPREAD - worked(job, now) / SPREAD)
    return max(0.0, job.expected / SPREAD - worked(job, now))


def likeliest(job: Job, now: float) -> float:
    """How long the job will probably still run, in seconds with all its workers."""
    done = worked(job, now)
    if job.expected is None:
        return min(_most(job, now), max(UNKNOWN - done, done))
    over = job.expected - done
    return min(_most(job, now), over if over > 0 else done / SPREAD)


def longest(job: Job, now: float) -> float:
    """How long the job may still run, at the most; infinite if nothing tells."""
    if job.time_limit is not None:
        return _most(job, now)
    if job.expected is None:
        return math.inf
    return max(job.expected, worked(job, now)) * SPREAD - worked(job, now)


def worked(job: Job, now: float) -> float:
    """Seconds of work done so far, counted with all workers."""
    live = 0.0 if job.started is None else max(0.0, now - job.started) * job.held_gpus
    return (job.served + live) / (job.workers * job.gpus)


def _most(job: Job, now: float) -> float:
    return math.inf if job.time_limit is None else max(0.0, job.time_limit - worked(job, now))


def _grounded(job: Job, room: set[tuple[str, int]], now: float) -> Job:
    seated = all((worker.node, gpu) in room for worker in job.placement for gpu in worker.gpus)
    if job.phase is Phase.PAUSING or (job.phase is Phase.RUNNING and not seated):
        job = paused(job, now)
    promised = all((worker.node, gpu) in room for worker in job.reserved for gpu in worker.gpus)
    return job if promised else replace(job, reserved=())


def _starts(
    start: Snapshot, wanted: Collection[str], rule: Callable[[Job, float], float], horizon: float
) -> dict[str, float]:
    """When each wanted job starts if all run times follow the rule."""
    pool = VirtualPool(
        Planner(start),
        now=start.now,
        running=[_midway(job, rule, start.now) for job in start.jobs if job.phase is Phase.RUNNING],
        waiting=[Course(job, rule(job, start.now)) for job in start.jobs if job.phase is Phase.WAITING],
    )
    left = set(wanted)

    def all_started() -> bool:
        left.difference_update([job for job in left if pool.courses[job].first_start is not None])
        return not left

    pool.step()
    pool.run(until=start.now + horizon, enough=all_started)
    found = ((job, pool.courses[job].first_start) for job in wanted)
    return {job: at for job, at in found if at is not None}


def _midway(job: Job, rule: Callable[[Job, float], float], now: float) -> Course:
    """The course of a running job, counted from the start of its live attempt."""
    ran = now - (now if job.started is None else job.started)
    return Course(job, rule(job, now) + ran * len(job.placement) / job.workers, first_start=job.started)


def _window(starts: Sequence[float | None]) -> Window:
    """A range from the starts under short, likely and long run times; shorter runs may delay a start too."""
    known = sorted(at for at in starts if at is not None)
    if not known:
        return Window(None, None, None)
    likely = starts[1]
    return Window(known[0], likely, None if None in starts else known[-1])


def _standing(start: Snapshot) -> Mapping[str, Standing]:
    planner = Planner(start)
    courses = [Course(job, math.inf) for job in start.jobs if job.phase in {Phase.WAITING, Phase.RUNNING}]
    pool = VirtualPool(
        planner,
        now=start.now,
        running=[course for course in courses if course.job.phase is Phase.RUNNING],
        waiting=[course for course in courses if course.job.phase is Phase.WAITING],
    )
    pool.step()
    return planner.standing()
