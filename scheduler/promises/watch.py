"""The check of a pool's history: every change and every plan, as they happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from springtide.scheduler.model import (
    Change,
    Job,
    JobChanged,
    JobRemoved,
    Move,
    Pause,
    Phase,
    Plan,
    Snapshot,
    Standing,
)
from springtide.scheduler.promises.books import Account, Books, Kind
from springtide.scheduler.promises.breach import Breach, Promise
from springtide.scheduler.promises.guarantee import GuaranteeMeter, placeable, sound
from springtide.scheduler.promises.plan_checks import check_decisions
from springtide.scheduler.promises.rest import allowed, check_job, check_rest

ROUNDS_AT_ONCE = 50
"""Number of plans with pauses at one instant that counts as an endless loop of the policy."""

STOPS_AT_ONCE = 3
"""Number of pauses of one job in favour of others, without a new event between them, that counts as a breach."""

KEPT = 100
"""Maximum number of breaches that are kept in full; all are counted."""

StandingOf = Callable[[], Mapping[str, Standing]]


class Watch:
    """Checks the promises over a history, step by step.

    Call `apply` with each change that the planner gets, `decided` with each plan before it is carried out, and
    `settled` when the planner has no more decisions at an instant, before time passes. ``standing`` returns the
    entitlement of each project. ``patience`` is the longest time, in seconds, that a job within its project's
    entitlement may wait without a reservation; None disables this check.
    """

    def __init__(
        self, snapshot: Snapshot, *, standing: StandingOf | None = None, patience: float | None = None
    ) -> None:
        self.books = Books(snapshot)
        self.breaches: list[Breach] = []
        self.count = 0
        self._standing = standing
        self._patience = patience
        self._next_look = -float("inf")
        self._waits_since = {job.id: snapshot.now for job in snapshot.jobs if job.phase is Phase.WAITING}
        self.meter = GuaranteeMeter(self.books, self._waits_since, snapshot.now)
        self._ended: set[str] = set()
        self._newly_waiting: set[str] = set()
        self._rounds = 0
        self._stops = Counter[str]()

    def apply(self, change: Change) -> None:
        """Check and record a change that the planner gets."""
        match change:
            case JobChanged(job):
                self._job_changed(change, job)
            case JobRemoved(job_id):
                if job_id not in self.books.jobs:
                    message = f"job {job_id} ended, but was not there: it ended before or was never accepted"
                    self.report([Breach(Promise.NOTHING_LOST, message, job_id)])
                self._ended.add(job_id)
                self._forget_wait(job_id)
                self.books.apply(change)
            case _:
                self.books.apply(change)

    def _job_changed(self, change: JobChanged, job: Job) -> None:
        if job.id in self._ended:
            message = f"job {job.id} is {job.phase} after its end"
            self.report([Breach(Promise.NOTHING_LOST, message, job.id, job.project)])
        before = self.books.jobs.get(job.id)
        self.books.apply(change)
        if before is None or before.placement != job.placement:
            self.report(check_job(self.books, job))
        if job.phase is not Phase.WAITING:
            self._forget_wait(job.id)
        elif job.id not in self._waits_since:
            self._newly_waiting.add(job.id)

    def decided(self, plan: Plan, now: float) -> None:
        """Check a plan before it is carried out."""
        self.books.pass_time(now)
        self._note_waiting(now)
        if not plan.decisions:
            return
        takes = any(isinstance(decision, Pause | Move) for decision in plan.decisions)
        standing = self._standing() if takes and self._standing is not None else None
        self.report(check_decisions(self.books, plan, now, standing))
        self.report(self._restless(plan))

    def settled(self, now: float) -> None:
        """Check the pool at an instant at which the planner has no more decisions."""
        self.books.pass_time(now)
        self._note_waiting(now)
        self._rounds = 0
        self._stops.clear()
        self.report(check_rest(self.books, now))
        self.report(self.meter.settled(now))
        if self._patience is not None and now >= self._next_look:
            self._next_look = now + self._patience / 8
            self.report(self._starved(now, self._patience))

    def report(self, breaches: Iterable[Breach]) -> None:
        """Record breaches found by any check; the first `KEPT` of them are kept in full."""
        for breach in breaches:
            self.count += 1
            if len(self.breaches) < KEPT:
                self.breaches.append(breach)

    def finish(self, now: float, *, over: bool = False) -> None:
        """End the history; ``over``: nothing happens after it, so that waiting jobs wait for ever."""
        self.report(self.meter.finish(now, over=over))

    def _note_waiting(self, now: float) -> None:
        """Record the start of each wait that began after the last plan."""
        if self._newly_waiting:
            self._waits_since.update(dict.fromkeys(self._newly_waiting, now))
            self._newly_waiting.clear()

    def _forget_wait(self, job: str) -> None:
        self._waits_since.pop(job, None)
        self._newly_waiting.discard(job)

    def _restless(self, plan: Plan) -> Iterable[Breach]:
        """Return the breaches of plans that keep pausing, or pause one job repeatedly, without a new event."""
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
            if not any(
                self._entitled(kind, account, standing) and sound(self.books, account, kind.project)
                for account in self._startable(kind, now)
            ):
                continue
            for job in jobs:
                waited = now - self._waits_since.get(job, now)
                if waited > patience and self.books.jobs[job].priority >= urgent[kind.project]:
                    message = f"job {job} is within what {kind.project} is entitled to, has waited {waited:g} s"
                    yield Breach(Promise.NO_STARVATION, f"{message} and has no promised start", job, kind.project)

    def _most_urgent(self, now: float) -> Mapping[str, int]:
        """Return the highest priority of startable waiting jobs by project; lower ones wait for them."""
        urgent: dict[str, int] = {}
        waiting = [
            job for kind, jobs in self.books.waiting.items() if any(self._startable(kind, now)) for job in jobs
        ]
        for job_id in (*waiting, *self.books.reserved):
            job = self.books.jobs[job_id]
            urgent[job.project] = max(job.priority, urgent.get(job.project, job.priority))
        return urgent

    def _startable(self, kind: Kind, now: float) -> Iterator[Account]:
        """Yield the accounts of the types on which a job of this kind may start now."""
        books = self.books
        for gpu_type in books.accepted(kind) if kind.not_before <= now and kind.require is None else ():
            account = books.accounts[gpu_type]
            if allowed(books, kind, gpu_type) and placeable(books, account, kind):
                yield account

    def _entitled(self, kind: Kind, account: Account, standing: Mapping[str, Standing] | None) -> bool:
        """Return whether a job of this kind stays within the entitlement of its project and of all ancestors."""
        for name in self.books.paths.get(kind.project, ()):
            share = account.entitled(name, standing) if standing is not None and name in standing else 0
            if account.held[name] + account.promised[name] + kind.need > max(account.quota(name), share):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Step:
    """One instant of a history: the changes that became known, and the plan made from them."""

    now: float
    changes: tuple[Change, ...]
    plan: Plan
    settled: bool = True
    """Whether the planner had no more decisions after this plan was carried out."""


def check_history(start: Snapshot, steps: Iterable[Step], *, patience: float | None = None) -> tuple[Breach, ...]:
    """Return the promises broken over a history that began as ``start``.

    The effects of a plan are among the changes of the next step.
    """
    watch = Watch(start, patience=patience)
    for step in steps:
        for change in step.changes:
            watch.apply(change)
        watch.decided(step.plan, step.now)
        if step.settled and not step.plan.decisions:
            watch.settled(step.now)
    return tuple(watch.breaches)
