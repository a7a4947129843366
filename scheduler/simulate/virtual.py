"""A pool in virtual time: decisions are carried out at once, and only this module knows the run times."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from springtide.scheduler.history.recent_use import renewed
from springtide.scheduler.history.run_times import ExpectedRunTimes
from springtide.scheduler.model import (
    Change,
    Decision,
    Job,
    JobChanged,
    JobRemoved,
    Move,
    Pause,
    Phase,
    Placement,
    Plan,
    RecentUse,
    Settings,
    Start,
    UseChanged,
    UseKey,
)
from springtide.scheduler.simulate.carry_out import carried_out, paused

ROUNDS_AT_ONCE = 50
"""Number of plans at one instant that counts as an endless loop of the policy."""


Cell: TypeAlias = tuple[str, int]
"""A GPU: the name of its node, and its index there."""


def cells(placement: Placement) -> Iterator[Cell]:
    """Iterate over the GPUs of a placement."""
    return ((worker.node, gpu) for worker in placement for gpu in worker.gpus)


class Planner(Protocol):
    """A policy: the pool's own, or another one to compare it with."""

    def apply(self, change: Change) -> None:
        """Record a change."""

    def take_borrowing(self) -> Mapping[UseKey, int]:
        """Return the borrowed GPUs of the projects for which they may have changed since the last call."""

    def plan(self, now: float) -> Plan:
        """Return the decisions to carry out now."""


class Witness(Protocol):
    """An observer of every change and every plan of a virtual pool."""

    def apply(self, change: Change) -> None:
        """Record a change."""

    def decided(self, plan: Plan, now: float) -> None:
        """Check a plan before it is carried out."""

    def settled(self, now: float) -> None:
        """Check the pool at an instant at which no more decisions are due."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of pauses, in seconds.

    Each attempt after the first runs ``restart`` longer. A pause loses the work since the last checkpoint, which
    is written every ``checkpoint_every`` seconds of running; None means that jobs save when asked to pause.
    """

    restart: float = 0.0
    checkpoint_every: float | None = None


FREE = Costs()
"""Costs of pauses that are free."""


@dataclass(slots=True)
class Course:
    """The course of a job.

    In seconds, ``duration`` is its run time with all workers, ``done`` the saved part, ``limit`` the longest total
    run time of its attempts, and ``ran`` the total of the ended ones. ``timed_out``: the limit ended it. A pause
    loses all that a job that never ``saves`` has done; ``checkpoint_every`` is as in `Costs`, for this job alone.
    A pause takes ``stop`` seconds, in which its GPUs are not free: an attempt on them works after a ``delay``, and
    the job itself is not before ``stopped``.
    """

    job: Job
    duration: float
    limit: float = math.inf
    saves: bool = True
    checkpoint_every: float | None = None
    done: float = 0.0
    ran: float = 0.0
    overhead: float = 0.0
    stop: float = 0.0
    stopped: float = -math.inf
    delay: float = 0.0
    version: int = 0
    pauses: int = 0
    lost: float = 0.0
    """GPU-seconds spent on restarts and on work that pauses discarded."""
    first_start: float | None = None
    finish: float | None = None
    timed_out: bool = False
    cancelled: bool = False
    spans: list[tuple[float, float, int, str]] = field(default_factory=list)
    """Ended attempts: start, end, number of GPUs, and the node of the first worker."""

    @property
    def rate(self) -> float:
        """Seconds of work done per second."""
        return len(self.job.placement) / self.job.workers

    @property
    def works_from(self) -> float:
        """Time at which the GPUs of the live attempt are free for it."""
        assert self.job.started is not None
        return self.job.started + self.delay

    @property
    def completes(self) -> float:
        """Time at which the live attempt completes the work."""
        return self.works_from + self.overhead + (self.duration - self.done) / self.rate

    @property
    def ends(self) -> float:
        """Time at which the live attempt completes the work, or reaches the job's time limit before that."""
        return min(self.completes, self.works_from + max(0.0, self.limit - self.ran))

    def worked_by(self, now: float) -> float:
        """Return the seconds of work done by ``now``, a time of the live attempt, counted with all workers."""
        return self.done + max(0.0, now - self.works_from - self.overhead) * self.rate

    def end_attempt(self, now: float) -> None:
        """Add the live attempt to the ended ones."""
        began = min(self.works_from, now)
        self.spans.append((began, now, self.job.held_gpus, self.job.placement[0].node))
        self.ran += now - began

    def interrupt(self, now: float, checkpoint_every: float | None) -> None:
        """Record a pause: the kept and the lost work."""
        self.end_attempt(now)
        elapsed = max(0.0, now - self.works_from)
        worked = max(0.0, elapsed - self.overhead)
        every = checkpoint_every if self.checkpoint_every is None else self.checkpoint_every
        kept = (worked if every is None else worked - worked % every) if self.saves else 0.0
        self.done += kept * self.rate
        self.lost += (elapsed - kept) * self.job.held_gpus
        self.pauses += 1
        self.version += 1
        self.stopped = now + self.stop


def course_of(job: Job, duration: float, first_start: float | None = None) -> Course:
    """Return the course of a running or arriving job, with none of its work done."""
    limit = math.inf if job.time_limit is None else job.time_limit
    return Course(job, duration, limit, first_start=first_start)


ARRIVE, FINISH, SAVE, CHANGE, WAKE = range(5)


class VirtualPool:
    """Runs jobs in virtual time under a planner.

    ``planner`` must have the pool and the running jobs already; ``running`` are the courses of the running jobs.
    ``recent_use`` is the projects' use at the beginning, ``use_half_life`` the setting, in seconds. ``expected``
    learns from ended jobs, and sets the expected run times of the others. Jobs arrive at their time ``submitted``.

    Decisions are carried out at once: a paused job waits from then on, and one that gets its GPUs has started.
    If the pause takes time (`Course.stop`), that attempt works only afterwards. ``vacating`` has the GPUs that
    attempts which stop at the beginning still hold, with the times at which they are free.
    """

    def __init__(
        self,
        planner: Planner,
        *,
        now: float,
        costs: Costs = FREE,
        witness: Witness | None = None,
        running: Iterable[Course] = (),
        waiting: Iterable[Course] = (),
        recent_use: Iterable[RecentUse] = (),
        use_half_life: float = Settings().use_half_life,
        expected: ExpectedRunTimes | None = None,
        vacating: Mapping[Cell, float] = MappingProxyType({}),
    ) -> None:
        self.planner = planner
        self.now = now
        self.costs = costs
        self.witness = witness
        self.courses: dict[str, Course] = {}
        self.unsettled = 0
        """Number of instants at which the policy reached `ROUNDS_AT_ONCE`."""
        self._events: list[tuple[float, int, int, str, int]] = []
        self._acts: list[Callable[[], None]] = []
        self._use = {use.key: use for use in recent_use}
        self._use_half_life = use_half_life
        self._expected = expected
        self._free_from = dict(vacating)
        self._count = 0
        self._live = 0
        self._wake: float | None = None
        for course in running:
            self._expect(course)
            self.courses[course.job.id] = course
            self._live += 1
            self._watch(course)
        for course in waiting:
            self._expect(course)
            self.courses[course.job.id] = course

    def submit(self, job: Job, duration: float) -> None:
        """Schedule the arrival of a job at its time of submission."""
        self.add(course_of(job, duration))

    def add(self, course: Course) -> None:
        """Schedule the arrival of the job of a course at its time of submission, or now if that has passed."""
        self.courses[course.job.id] = course
        self._push(max(course.job.submitted, self.now), ARRIVE, course.job.id)

    def change(self, at: float, change: Change) -> None:
        """Schedule a change of projects, nodes or settings."""
        self.act(at, partial(self._apply, change))

    def act(self, at: float, act: Callable[[], None]) -> None:
        """Schedule a call, or one of now if its time has passed; what it does is planned for at that instant."""
        self._acts.append(act)
        self._push(max(at, self.now), CHANGE, "", len(self._acts) - 1)

    def change_now(self, change: Change) -> None:
        """Make a change at this instant."""
        self._apply(change)

    def drop(self, job_id: str) -> None:
        """Cancel the reservation of a job."""
        course = self.courses[job_id]
        self._set(course, replace(course.job, reserved=(), turn=False))

    def hold(self, job_id: str) -> None:
        """Pause a job, and let it not start again until it is released."""
        course = self.courses[job_id]
        if course.finish is None:
            self.pause(job_id)
            self._set(course, replace(course.job, phase=Phase.HELD, reserved=(), turn=False))

    def release(self, job_id: str) -> None:
        """Let a held job wait in line again."""
        course = self.courses[job_id]
        if course.finish is None and course.job.phase is Phase.HELD:
            self._set(course, replace(course.job, phase=Phase.WAITING))

    def pause(self, job_id: str) -> None:
        """Pause a job that runs; it waits in line again."""
        course = self.courses[job_id]
        if course.finish is None and course.job.phase is Phase.RUNNING:
            course.interrupt(self.now, self.costs.checkpoint_every)
            self._live -= 1
            self._set(course, paused(course.job, self.now))

    def cancel(self, job_id: str) -> None:
        """End a job for good; it counts as cancelled."""
        course = self.courses[job_id]
        if course.finish is not None:
            return
        if course.job.phase is Phase.RUNNING:
            course.end_attempt(self.now)
            self._live -= 1
        course.finish, course.cancelled = self.now, True
        course.version += 1
        self._apply(JobRemoved(job_id))
        if self._expected is not None:
            self._expected.remove(job_id, course.job)

    def cut(self, now: float) -> None:
        """Count what live attempts have held until the end of the simulation; nothing may run after it."""
        for course in self.courses.values():
            if course.finish is None and course.job.started is not None:
                course.end_attempt(now)

    def run(self, until: float = math.inf, enough: Callable[[], bool] = lambda: False) -> None:
        """Process events up to and including the time ``until``; stop early when ``enough`` returns true."""
        idle_wakes = 0
        while self._events and self._events[0][0] <= until and not enough():
            self.now = self._events[0][0]
            news, woken = self._happen()
            if not (news or woken):
                continue
            decided = self._decide()
            idle_wakes = 0 if news or decided or self._live else idle_wakes + 1
            if idle_wakes > ROUNDS_AT_ONCE:
                break

    def step(self) -> None:
        """Plan and carry out at the current time, without an event."""
        self._decide()

    def _push(self, at: float, kind: int, job: str, version: int = 0) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, kind, job, version))

    def _apply(self, change: Change) -> None:
        self.planner.apply(change)
        if self.witness is not None:
            self.witness.apply(change)

    def _set(self, course: Course, job: Job) -> None:
        course.job = job
        self._apply(JobChanged(job))

    def _happen(self) -> tuple[bool, bool]:
        """Process all events of this instant; return whether any was news, and whether a wake-up was due."""
        news = woken = False
        while self._events and self._events[0][0] <= self.now:
            _, _, kind, name, version = heapq.heappop(self._events)
            if kind == WAKE:
                woken = woken or self._wake is not None
                self._wake = None
            elif kind == CHANGE:
                self._acts[version]()
                news = True
            elif kind == ARRIVE:
                self._arrive(self.courses[name])
                news = True
            elif self.courses[name].version == version:
                news = self._progress(self.courses[name], finished=kind == FINISH) or news
        return news, woken

    def _arrive(self, course: Course) -> None:
        if self._expected is not None:
            known = self._expected.of(course.job)
            course.job = replace(course.job, usual_runtime=course.job.usual_runtime if known is None else known)
            self._expect(course)
        self._apply(JobChanged(course.job))

    def _expect(self, course: Course) -> None:
        if self._expected is not None:
            self._expected.put(course.job.id, course.job, course.job.usual_runtime)

    def _learn(self, ended: Job, seconds: float) -> None:
        """Renew the expected run times of jobs similar to an ended one."""
        if self._expected is None:
            return
        self._expected.remove(ended.id, ended)
        self._expected.learn(ended, seconds)
        for renewal in self._expected.renewals():
            alike = [self.courses[job_id] for job_id in renewal.jobs]
            for course in alike:
                self._set(course, replace(course.job, usual_runtime=renewal.seconds))
            self._expect(alike[0])

    def _progress(self, course: Course, *, finished: bool) -> bool:
        if not finished:
            self._set(course, replace(course.job, saved=self.now))
            self._await_save(course)
            return False
        course.timed_out = course.ends < course.completes
        worked = course.worked_by(self.now) if course.timed_out else course.duration
        course.end_attempt(self.now)
        course.lost += course.overhead * course.job.held_gpus
        course.finish = self.now
        course.version += 1
        self._live -= 1
        self._apply(JobRemoved(course.job.id))
        self._learn(course.job, worked)
        return True

    def _decide(self) -> bool:
        """Plan and carry out until no decisions are left; return whether there were any."""
        decided = False
        for _ in range(ROUNDS_AT_ONCE):
            self._renew_use()
            plan = self.planner.plan(self.now)
            if self.witness is not None:
                self.witness.decided(plan, self.now)
            for decision in plan.decisions:
                self._carry_out(decision)
            decided = decided or bool(plan.decisions)
            if not plan.decisions:
                break
        else:
            self.unsettled += 1
        if self.witness is not None:
            self.witness.settled(self.now)
        if plan.wake_at is not None and self.now < plan.wake_at < (math.inf if self._wake is None else self._wake):
            self._wake = plan.wake_at
            self._push(self._wake, WAKE, "")
        return decided

    def _renew_use(self) -> None:
        """Update the recent use of projects that borrow more or less from now on, also in the planner."""
        for use in renewed(self._use, self.planner.take_borrowing(), self.now, self._use_half_life):
            self._use[use.key] = use
            self._apply(UseChanged(use))

    def _carry_out(self, decision: Decision) -> None:
        course = self.courses[decision.job]
        if isinstance(decision, Pause | Move):
            course.interrupt(self.now, self.costs.checkpoint_every)
            if course.stop:
                self._free_from.update(dict.fromkeys(cells(course.job.placement), course.stopped))
            self._live -= 1
        if isinstance(decision, Start):
            course.overhead = self.costs.restart if course.job.attempts else 0.0
            course.delay = self._delay(course, decision.placement)
            course.first_start = self.now + course.delay if course.first_start is None else course.first_start
            self._live += 1
        self._set(course, carried_out(course.job, decision, self.now))
        if isinstance(decision, Start):
            self._watch(course)

    def _delay(self, course: Course, placement: Placement) -> float:
        """Return the seconds until a job and those that were paused for it have left their GPUs."""
        held = [self._free_from[cell] for cell in cells(placement) if cell in self._free_from]
        return max(0.0, max((course.stopped, *held)) - self.now)

    def _watch(self, course: Course) -> None:
        self._push(course.ends, FINISH, course.job.id, course.version)
        self._await_save(course)

    def _await_save(self, course: Course) -> None:
        every = self.costs.checkpoint_every if course.checkpoint_every is None else course.checkpoint_every
        job = course.job
        if every is None or job.started is None or not course.saves:
            return
        due = (course.works_from + course.overhead if job.saved is None else job.saved) + every
        if due < course.ends:
            self._push(due, SAVE, job.id, course.version)
