"""Forecasts of the starts of jobs and of the pool after the next decisions, by simulating the same policy."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from msgspec import structs

from springtide.scheduler.history.recent_use import as_of
from springtide.scheduler.model import (
    Change,
    Decision,
    Drop,
    Job,
    JobChanged,
    JobRemoved,
    Move,
    NodesChanged,
    Pause,
    Phase,
    Placement,
    Plan,
    ProjectsChanged,
    Reason,
    Reserve,
    SettingsChanged,
    Snapshot,
    Standing,
    StartsIf,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.state.service import service_rank_of
from springtide.scheduler.simulate.carry_out import paused
from springtide.scheduler.simulate.settle import settle
from springtide.scheduler.simulate.starts_if import Diagnosis, Origin
from springtide.scheduler.simulate.virtual import Course, VirtualPool, cells

HORIZON = 14 * 86400.0
"""Time to look ahead, in seconds."""

SPREAD = 2.0
"""Factor by which an estimated run time may be shorter or longer."""

OUTRUN = 120.0
"""Minimum likely remaining time of a job beyond its expected run time, in seconds."""

BY_LIMIT = 900.0
"""Time that a job may well run that has nothing but a time limit, in seconds: a limit of hours says little."""

TICK = 1 / 1024
"""Unit of rounded times, in seconds."""

DEEP, ENDLESS, FAR, GONE = "deep", "endless", "far", "gone"
NEVER, OPEN, OVERDUE, UNMEASURED = "never", "open", "overdue", "unmeasured"
"""Codes of why a time is unknown: too many jobs are before it in line; nothing is known of the run times before
it; it is beyond the horizon; the job does not wait; it does not start even when all running jobs have ended; the
run times before it have no bound; an attempt that stops takes longer than it may; the start depends on the run
times of jobs of which at most the time limit is known."""


@dataclass(frozen=True, slots=True)
class Window:
    """The expected start of a job, on the snapshot's clock.

    ``earliest`` is for short and ``latest`` for long run times. None means unknown, and ``why`` is one of the
    codes above. Jobs that will be submitted later are not taken into account.
    """

    earliest: float | None
    likely: float | None
    latest: float | None
    why: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Shift:
    """The effect of the next decisions on a job: ``kind`` is ``started``, ``paused`` or ``moved``.

    ``before`` and ``after`` are its placements; ``at_once``: the decision comes before anything has to stop.
    """

    job: str
    kind: str
    reason: Reason
    beneficiary: str | None = None
    before: Placement = ()
    after: Placement = ()
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast: the windows of the requested jobs, and the standing of the projects after the next decisions.

    ``shifts`` are the effects of these decisions; ``until`` is the end of the forecast, on the snapshot's clock.
    ``starts_if`` has the changes that let the diagnosed jobs start.
    """

    starts: Mapping[str, Window]
    standing: Mapping[str, Standing]
    shifts: tuple[Shift, ...] = ()
    until: float = 0.0
    starts_if: Mapping[str, StartsIf] = field(default_factory=dict)


class StopTime(NamedTuple):
    """The seconds until an attempt that is asked to stop has left its GPUs: at least, likely, and at most.

    Infinite if nothing is known of it.
    """

    shortest: float = 0.0
    likely: float = 0.0
    longest: float = 0.0


AT_ONCE = StopTime()
"""The stop of an attempt that takes no time."""


class Stopping(NamedTuple):
    """An attempt that is stopping, the GPUs that it still holds, and for how long from now on."""

    job: str
    placement: Placement
    time: StopTime


Past = Mapping[str, Sequence[float]]
"""Run times of similar ended jobs by job id: seconds with all workers, shortest first."""
Stop = Callable[[int], bool]
"""Returns whether the first (0), second, third or fourth run has used its computing time."""
Rule = Callable[[Job, float, Sequence[float]], float]
Stops = Mapping[str, StopTime]
"""How long a pause of a job takes, by job id; one that is missing stops at once."""


def forecast(
    snapshot: Snapshot,
    asked: Collection[str] | None = None,
    changes: Sequence[Change] = (),
    *,
    diagnosed: Collection[str] = (),
    horizon: float = HORIZON,
    past: Past | None = None,
    most: int | None = None,
    grain: float = 0.0,
    stops: Stops = MappingProxyType({}),
    stopping: Sequence[Stopping] = (),
    stop: Stop = lambda _run: False,
) -> Outlook:
    """Return the outlook from a snapshot.

    ``asked`` are ids of waiting jobs, None for all. ``changes`` are made first: a job that is not submitted, other
    projects or nodes. ``diagnosed`` are waiting jobs for which to find the changes that let them start. Run times
    are estimated from ``past``, `Job.expected` and `Job.time_limit`; the longer a job of unknown length has run,
    the longer is its expected remaining time. A job that gets the GPUs of others starts when these have stopped:
    ``stops`` says how long a pause takes, ``stopping`` which attempts have been asked already.

    The policy is simulated three times, with likely, long and short times, for ``horizon`` seconds; and once more
    with jobs of unknown length that end sooner: a start that this brings much nearer has no likely time. The cost
    is bounded by ``most``, the number of waiting jobs, and by ``stop``. A ``grain`` above 0 rounds run times up by
    less than that part of them, so that many jobs end at once and fewer plans are made.
    """
    start = prepared(snapshot, changes)
    starts_if = _diagnosis(start, diagnosed)
    if grain:
        start = _ticked(start)
    waiting = {job.id for job in start.jobs if job.phase is Phase.WAITING}
    known = waiting if asked is None else waiting & set(asked)
    start, cut = nearest(start, known, most)
    wanted = known & {job.id for job in start.jobs} if cut else known
    until = start.now + horizon

    def times(rule: Rule, which: str) -> _Times:
        return _Times(rule, attrgetter(which), past or {}, stops, stopping, grain)

    likely = _run(start, wanted, times(likeliest, "likely"), until, partial(stop, 0))
    runs = [likely]
    if likely.starts or likely.until >= until:
        runs += [
            _run(start, wanted, times(longest, "longest"), until, partial(stop, 1)),
            _run(start, wanted, times(shortest, "shortest"), until, partial(stop, 2)),
        ]
    sooner: Mapping[str, float] = {}
    if likely.starts and not all(_is_measured(job, start.now, (past or {}).get(job.id, ())) for job in start.jobs):
        sooner = _run(start, wanted, times(soonish, "likely"), until, partial(stop, 3)).starts
    starts = {job: _window(job, runs, sooner.get(job), start.now, cut=cut) for job in sorted(wanted)}
    starts |= dict.fromkeys(sorted(known - wanted), Window(None, None, None, DEEP))
    starts |= dict.fromkeys(sorted(set(asked or ()) - known), Window(None, None, None, GONE))
    return Outlook(starts, runs[0].standing, runs[0].shifts, runs[0].until, starts_if)


def _diagnosis(start: Snapshot, diagnosed: Collection[str]) -> Mapping[str, StartsIf]:
    """Return the changes that let these jobs start, for those that still wait once the pool is at rest."""
    known = {job.id for job in start.jobs} & set(diagnosed)
    if not known:
        return {}
    rest = settle(start)
    jobs = tuple(rest.jobs.values())
    decisions = sum(before is not after for before, after in zip(start.jobs, jobs, strict=True))
    diagnosis = Diagnosis(replace(start, jobs=jobs), rest.planner, [Origin(start, decisions=decisions)])
    return {job_id: diagnosis.starts_if(job_id) for job_id in sorted(known)}


def prepared(snapshot: Snapshot, changes: Sequence[Change]) -> Snapshot:
    """Return the snapshot after the changes. Pauses under way are completed; jobs of vanished nodes wait again."""
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
    half_life = snapshot.settings.use_half_life
    return replace(
        snapshot,
        jobs=tuple(_grounded(job, room, snapshot.now) for job in jobs.values()),
        recent_use=tuple(as_of(use, snapshot.now, half_life) for use in snapshot.recent_use),
    )


def nearest(snapshot: Snapshot, wanted: Collection[str], most: int | None) -> tuple[Snapshot, bool]:
    """Return the snapshot with at most ``most`` waiting jobs, and whether any were left out.

    Each project keeps the next ones of its queue, in turn; the wanted jobs, and those before them, come first.
    """
    waiting = [job for job in snapshot.jobs if job.phase is Phase.WAITING]
    if most is None or len(waiting) <= most:
        return snapshot, False
    lines: dict[str, deque[Job]] = {}
    for job in sorted(
        waiting, key=lambda job: (not job.reserved, -job.priority, service_rank_of(job), job.submitted, job.id)
    ):
        lines.setdefault(job.project, deque()).append(job)
    last = {job.project: place for line in lines.values() for place, job in enumerate(line) if job.id in wanted}
    kept: set[str] = set()
    for turn in sorted(lines, key=lambda project: project not in last):
        for _ in range(min(last.get(turn, -1) + 1, most - len(kept))):
            kept.add(lines[turn].popleft().id)
    while len(kept) < most:
        for line in [line for line in lines.values() if line][: most - len(kept)]:
            kept.add(line.popleft().id)
    jobs = tuple(job for job in snapshot.jobs if job.phase is not Phase.WAITING or job.id in kept)
    return replace(snapshot, jobs=jobs), True


# ---------- how long a job still runs


def shortest(job: Job, now: float, past: Sequence[float] = ()) -> float:
    """Return how long the job may still run, at the least, in seconds with all its workers."""
    if left := _left(job, now, past):
        return min(_most(job, now), _quantile(left, 0.1) / _margin(left))
    if job.expected is None:
        return 0.0
    return max(0.0, job.expected / SPREAD - job.worked_by(now))


def likeliest(job: Job, now: float, past: Sequence[float] = ()) -> float:
    """Return how long the job will probably still run, in seconds with all its workers; infinite if unknown.

    For a job with only a time limit, all lengths up to it are equally likely. A job beyond its expected run time
    continues for a fraction of its run time so far, so that its end is never expected at once. Of one that has run
    for `SPREAD` times as long, and `OUTRUN`, nothing is known any more.
    """
    done, most = job.worked_by(now), _most(job, now)
    if left := _left(job, now, past):
        return min(most, _quantile(left, 0.5))
    expected = _known(done, past[-1] if past else job.expected)
    if expected is None:
        return most / 2
    return min(most, expected - done if expected > done else max(OUTRUN, done / SPREAD))


def soonish(job: Job, now: float, past: Sequence[float] = ()) -> float:
    """Return as `likeliest`, but for a job of unknown length as long again as it has run, at least `OUTRUN`.

    With a time limit it is at least the likely time, up to `BY_LIMIT`.
    """
    if _is_measured(job, now, past):
        return likeliest(job, now, past)
    most = _most(job, now)
    by_limit = 0.0 if math.isinf(most) else min(BY_LIMIT, most / 2)
    return min(most, max(OUTRUN, job.worked_by(now), by_limit))


def longest(job: Job, now: float, past: Sequence[float] = ()) -> float:
    """Return how long the job may still run, at the most; infinite if nothing bounds it."""
    if job.time_limit is not None:
        return _most(job, now)
    if left := _left(job, now, past):
        return _quantile(left, 0.9) * _margin(left)
    done = job.worked_by(now)
    expected = _known(done, past[-1] if past else job.expected)
    if expected is None:
        return math.inf
    return expected * SPREAD - done if expected > done else max(OUTRUN * SPREAD, done)


def _is_measured(job: Job, now: float, past: Sequence[float]) -> bool:
    """Return whether similar jobs, or its reports, say how long the job still runs."""
    done = job.worked_by(now)
    return bool(_left(job, now, past)) or _known(done, past[-1] if past else job.expected) is not None


def _known(done: float, expected: float | None) -> float | None:
    """Return an expected run time, None if it says nothing of a job any more that has ``done`` so much."""
    return None if expected is None or done > max(OUTRUN, SPREAD * expected) else expected


def _most(job: Job, now: float) -> float:
    return math.inf if job.time_limit is None else max(0.0, job.time_limit - job.worked_by(now))


def _left(job: Job, now: float, past: Sequence[float]) -> list[float]:
    """Return the remaining times of longer similar jobs after as much work as this job has done."""
    done = job.worked_by(now)
    return [time - done for time in past if time > done]


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _margin(sample: Sequence[float]) -> float:
    """Return the factor by which to widen the range of a sample: the smaller the sample, the wider."""
    return 1 + (SPREAD - 1) / math.sqrt(len(sample))


# ---------- running the policy forward


def _grounded(job: Job, room: set[tuple[str, int]], now: float) -> Job:
    seated = all((worker.node, gpu) in room for worker in job.placement for gpu in worker.gpus)
    if job.phase is Phase.PAUSING or (job.phase is Phase.RUNNING and not seated):
        job = paused(job, now)
    promised = all((worker.node, gpu) in room for worker in job.reserved for gpu in worker.gpus)
    return job if promised else structs.replace(job, reserved=())


@dataclass(frozen=True, slots=True)
class _Run:
    """One simulation of the policy.

    At its end no job was running if it is ``idle``, and one that never ends if it is ``endless``. ``overdue`` are
    the jobs whose GPUs are held by attempts that stop at an unknown time.
    """

    starts: Mapping[str, float]
    standing: Mapping[str, Standing]
    shifts: tuple[Shift, ...]
    until: float
    idle: bool
    endless: bool
    overdue: frozenset[str]


class _Notes:
    """A witness that keeps the last of the first decisions about each job."""

    def __init__(self) -> None:
        self.last: dict[str, Decision] = {}
        self.at_once: set[str] = set()
        """The jobs decided about before anything has to stop."""
        self._stopping = False

    def apply(self, change: Change) -> None:
        """Do nothing: changes follow from the decisions."""

    def decided(self, plan: Plan, now: float) -> None:  # noqa: ARG002 - of a witness
        """Record the decisions."""
        found = {item.job: item for item in plan.decisions if not isinstance(item, Reserve | Drop)}
        self.last |= found
        if not self._stopping:
            self.at_once.update(found)
        self._stopping = self._stopping or any(isinstance(item, Pause | Move) for item in plan.decisions)

    def settled(self, now: float) -> None:
        """Do nothing: the decisions are recorded already."""


@dataclass(frozen=True, slots=True)
class _Times:
    """Remaining run times by a rule, and time limits, rounded with ``grain``; and the ``chosen`` stop times."""

    rule: Rule
    chosen: Callable[[StopTime], float]
    past: Past
    stops: Stops
    stopping: Sequence[Stopping]
    grain: float

    def stop(self, job: Job) -> float:
        """Return the seconds that a pause of the job takes."""
        return self.chosen(self.stops.get(job.id, AT_ONCE))

    def of(self, job: Job, now: float) -> float:
        return self._rounded(self.rule(job, now, self.past.get(job.id, ())))

    def most(self, job: Job, now: float) -> float:
        """Return the seconds that the time limit leaves to the job."""
        return self._rounded(_most(job, now))

    def _rounded(self, seconds: float) -> float:
        if not self.grain or not 0 < seconds < math.inf:
            return seconds
        step = 2.0 ** math.floor(math.log2(max(TICK, seconds * self.grain)))
        return math.ceil(seconds / step) * step


def _ticked(start: Snapshot) -> Snapshot:
    """Return the snapshot with times that are whole ticks: their sums are exact, so that equal ends are equal."""

    def tick(at: float) -> float:
        return round(at / TICK) * TICK

    jobs = tuple(
        job if job.started is None else structs.replace(job, started=tick(job.started)) for job in start.jobs
    )
    return replace(start, now=tick(start.now), jobs=jobs)


def _run(start: Snapshot, wanted: Collection[str], ahead: _Times, until: float, stop: Callable[[], bool]) -> _Run:
    """Return the simulation in which all run times follow a rule."""
    now = start.now
    planner, notes = Planner(start), _Notes()
    leaves = {each.job: now + ahead.chosen(each.time) for each in ahead.stopping}
    pool = VirtualPool(
        planner,
        now=now,
        witness=notes,
        running=[_midway(job, ahead, now) for job in start.jobs if job.phase is Phase.RUNNING],
        waiting=[
            Course(
                job,
                ahead.of(job, now),
                ahead.most(job, now),
                stop=ahead.stop(job),
                stopped=leaves.get(job.id, now),
            )
            for job in start.jobs
            if job.phase is Phase.WAITING
        ],
        recent_use=start.recent_use,
        use_half_life=start.settings.use_half_life,
        vacating={cell: leaves[each.job] for each in ahead.stopping for cell in cells(each.placement)},
    )
    left = set(wanted)

    def enough() -> bool:
        left.difference_update([job for job in left if pool.courses[job].first_start is not None])
        return not left or stop()

    pool.step()
    pool.witness = None
    standing, shifts = planner.standing(), tuple(_shifts(start.jobs, pool, notes))
    pool.run(until=until, enough=enough)
    found = ((job, pool.courses[job].first_start) for job in wanted)
    starts = {job: at for job, at in found if at is not None and math.isfinite(at)}
    overdue = frozenset(job for job in wanted if pool.courses[job].first_start == math.inf)
    unfinished = [course for course in pool.courses.values() if course.finish is None]
    at_work = [course for course in unfinished if course.job.phase is Phase.RUNNING]
    endless = any(math.isinf(course.duration) for course in at_work)
    return _Run(starts, standing, shifts, pool.now if stop() else until, not at_work, endless, overdue)


def _midway(job: Job, ahead: _Times, now: float) -> Course:
    """Return the course of a running job, counted from the start of its live attempt."""
    ran = now - (now if job.started is None else job.started)
    duration = ahead.of(job, now) + ran * len(job.placement) / job.workers
    return Course(job, duration, ahead.most(job, now) + ran, stop=ahead.stop(job), first_start=job.started)


def _shifts(before: Iterable[Job], pool: VirtualPool, notes: _Notes) -> Iterable[Shift]:
    for job in before:
        decision = notes.last.get(job.id)
        if decision is None:
            continue
        after = pool.courses[job.id].job
        if job.phase is Phase.RUNNING and after.phase is Phase.WAITING:
            kind = "moved" if isinstance(decision, Move) else "paused"
        elif job.phase is Phase.RUNNING and after.placement != job.placement:
            kind = "moved"
        elif job.phase is Phase.WAITING and after.phase is Phase.RUNNING:
            kind = "started"
        else:
            continue
        beneficiary = decision.beneficiary if isinstance(decision, Pause | Move) else None
        at_once = job.id in notes.at_once
        yield Shift(job.id, kind, decision.reason, beneficiary, job.placement, after.placement, at_once)


def _window(job: str, runs: Sequence[_Run], sooner: float | None, now: float, *, cut: bool) -> Window:
    """Return the range of the starts under likely, long and short run times.

    ``sooner`` is the start if jobs of unknown length end soon, None if there are none. If the likely wait is more
    than `SPREAD` times as long, and more than `OUTRUN` longer, no start is likely.
    """
    starts = [run.starts.get(job) for run in runs]
    known = sorted(at for at in starts if at is not None)
    likely = starts[0]
    if likely is None:
        return Window(known[0] if known else None, None, None, _why_unknown(job, runs))
    open_ended = None in starts or cut
    latest = None if open_ended else known[-1]
    if sooner is not None and likely - now > max(SPREAD * (sooner - now), sooner - now + OUTRUN):
        return Window(known[0], None, latest, UNMEASURED)
    return Window(known[0], likely, latest, OPEN if open_ended else "")


def _why_unknown(job: str, runs: Sequence[_Run]) -> str:
    """Return the code of why the job has no start under likely run times."""
    if job in runs[0].overdue:
        return OVERDUE
    if any(run.idle for run in runs) and not any(job in run.starts for run in runs):
        return NEVER
    return ENDLESS if runs[0].endless else FAR
