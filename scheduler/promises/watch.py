"""A witness of a pool's history: every change and every plan, checked as it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from springtide.scheduler.model import (
    Change,
    JobChanged,
    JobRemoved,
    Move,
    Pause,
    Phase,
    Plan,
    Snapshot,
    Standing,
    Start,
)
from springtide.scheduler.promises.books import Books, Kind
from springtide.scheduler.promises.breach import Breach, Promise
from springtide.scheduler.promises.guarantee import GuaranteeMeter, placeable, sound
from springtide.scheduler.promises.plan_checks import check_decisions
from springtide.scheduler.promises.rest import allowed, check_job, check_rest

ROUNDS_AT_ONCE = 50
"""Plans with pauses at one instant before the policy is held to be going in circles."""

STOPS_AT_ONCE = 3
"""How often one job may not make way for others before anything new has happened."""

KEPT = 100
"""Breaches that are kept in full; all are counted."""

StandingOf = Callable[[], Mapping[str, Standing]]


class Watch:
    """Checks the promises over a history, told step by step.

    Tell it what the planner is told with `apply`, each plan with `decided` before it is carried out, and with
    `settled` when the planner has nothing more to do at an instant. ``standing`` gives what projects are
    entitled to. ``patience`` is how long, in seconds, a job that its project is entitled to may wait without a
    promised start; None leaves that unchecked.
    """

    def __init__(
        self, snapshot: Snapshot, *, standing: StandingOf | None = None, patience: float | None = None
    ) -> None:
        self.books = Books(snapshot)
        self.meter = GuaranteeMeter(self.books)
        self.breaches: list[Breach] = []
        self.count = 0
        self._standing = standing
        self._patience = patience
        self._next_look = -float("inf")
        self._waits_since = {job.id: snapshot.now for job in snapshot.jobs if job.phase is Phase.WAITING}
        self._ended: set[str] = set()
        self._now = snapshot.now
        self._rounds = 0
        self._stops = Counter[str]()

    def apply(self, change: Change) -> None:
        """A change that the planner is told of."""
        if isinstance(change, JobRemoved):
            if change.job_id not in self.books.jobs:
                message = f"job {change.job_id} ended, but was not there: it ended before or was never accepted"
                self.report([Breach(Promise.NOTHING_LOST, message, change.job_id)])
            self._ended.add(change.job_id)
            self._waits_since.pop(change.job_id, None)
        elif isinstance(change, JobChanged) and change.job.id in self._ended:
            message = f"job {change.job.id} is {change.job.phase} after its end"
            self.report([Breach(Promise.NOTHING_LOST, message, change.job.id, change.job.project)])
        before = self.books.jobs.get(change.job.id) if isinstance(change, JobChanged) else None
        self.books.apply(change)
        if isinstance(change, JobChanged) and (before is None or before.placement != change.job.placement):
            self.report(check_job(self.books, change.job))
        if isinstance(change, JobChanged):
            self._note_waiting(change)

    def decided(self, plan: Plan, now: float) -> None:
        """A plan, before it is carried out."""
        self._now = now
        if not plan.decisions:
            return
        takes = any(isinstance(decision, Pause | Move) for decision in plan.decisions)
        standing = self._standing() if takes and self._standing is not None else None
        self.report(check_decisions(self.books, plan, now, standing))
        self.report(self._restless(plan))
        for decision in plan.decisions:
            if isinstance(decision, Start) and decision.job in self.books.jobs:
                self.meter.started(self.books.jobs[decision.job].project)

    def settled(self, now: float) -> None:
        """The planner has nothing more to do now."""
        self._now, self._rounds = now, 0
        self._stops.clear()
        self.report(check_rest(self.books, now))
        self.report(self.meter.settled(now))
        if self._patience is not None and now >= self._next_look:
            self._next_look = now + self._patience / 8
            self.report(self._starved(now, self._patience))

    def report(self, breaches: Iterable[Breach]) -> None:
        """Take down breaches, wherever they were found; the first ones are kept in full."""
        for breach in breaches:
            self.count += 1
            if len(self.breaches) < KEPT:
                self.breaches.append(breach)

    def finish(self, now: float) -> None:
        """The history is over."""
        self.meter.finish(now)

    def _note_waiting(self, change: JobChanged) -> None:
        if change.job.phase is Phase.WAITING:
            self._waits_since.setdefault(change.job.id, max(self._now, change.job.submitted))
        else:
            self._waits_since.pop(change.job.id, None)

    def _restless(self, plan: Plan) -> Iterable[Breach]:
        """Plans that go on pausing, or pause the same job again, though nothing new has happened."""
        stops = [decision for decision in plan.decisions if isinstance(decision, Pause | Move)]
        for_others = [decision.job for decision in stops if decision.beneficiary is not None]
        self._rounds += bool(stops)
        self._stops.update(for_others)
        if self._rounds == ROUNDS_AT_ONCE:
            message = f"{ROUNDS_AT_ONCE} plans in a row pause jobs without anything new having happened"
            yield Breach(Promise.NO_THRASHING, message)
        for job in for_others:
            if self._stops[job] == STOPS_AT_ONCE:
                message = f"job {job} makes way {STOPS_AT_ONCE} times without anything new having happened"
                yield Breach(Promise.NO_THRASHING, message, job)

    def _starved(self, now: float, patience: float) -> Iterable[Breach]:
        standing = self._standing() if self._standing is not None else None
        urgent = self._most_urgent(now)
        for kind, jobs in self.books.waiting.items():
            if not (
                self._startable(kind, now) and self._entitled(kind, standing) and sound(self.books, kind.project)
            ):
                continue
            for job in jobs:
                waited = now - self._waits_since.get(job, now)
                if waited > patience and self.books.jobs[job].priority >= urgent[kind.project]:
                    message = f"job {job} is within what {kind.project} is entitled to, has waited {waited:g} s"
                    yield Breach(Promise.NO_STARVATION, f"{message} and has no promised start", job, kind.project)

    def _most_urgent(self, now: float) -> Mapping[str, int]:
        """The highest priority, by project, of the jobs that wait and may start: those below it wait for them."""
        urgent: dict[str, int] = {}
        waiting = [job for kind, jobs in self.books.waiting.items() if self._startable(kind, now) for job in jobs]
        for job_id in (*waiting, *self.books.reserved):
            job = self.books.jobs[job_id]
            urgent[job.project] = max(job.priority, urgent.get(job.project, job.priority))
        return urgent

    def _startable(self, kind: Kind, now: float) -> bool:
        return (
            kind.not_before <= now
            and kind.require is None
            and allowed(self.books, kind)
            and placeable(self.books, kind)
        )

    def _entitled(self, kind: Kind, standing: Mapping[str, Standing] | None) -> bool:
        """Whether a job of this kind stays within what its project and all above it are entitled to."""
        for name in self.books.paths.get(kind.project, ()):
            share = standing[name].fair_share if standing is not None and name in standing else 0
            if self.books.held[name] + self.books.promised[name] + kind.need > max(self.books.quota(name), share):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Step:
    """One instant of a history: what became known, and what was decided upon it."""

    now: float
    changes: tuple[Change, ...]
    plan: Plan
    settled: bool = True
    """Whether the planner had nothing more to do after this plan was carried out."""


def check_history(start: Snapshot, steps: Iterable[Step], *, patience: float | None = None) -> tuple[Breach, ...]:
    """The promises broken over a history that began as ``start``.

    The carrying out of a plan appears among the changes of the next step.
    """
    watch = Watch(start, patience=patience)
    for step in steps:
        for change in step.changes:
            watch.apply(change)
        watch.decided(step.plan, step.now)
        if step.settled and not step.plan.decisions:
            watch.settled(step.now)
    return tuple(watch.breaches)
