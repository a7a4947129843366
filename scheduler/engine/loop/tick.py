"""One tick: requests and observations become a transaction, and the planner's decisions join it."""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from springtide.scheduler.engine import messages, test_runs
from springtide.scheduler.engine.loop import apply, launch_stops, reconcile
from springtide.scheduler.engine.loop.due_ends import end_due
from springtide.scheduler.engine.loop.guard import enforce_promises
from springtide.scheduler.engine.loop.mailbox import (
    EngineObservation,
    LaunchFailed,
    NodesObserved,
    Request,
    StartChecked,
    StopTried,
)
from springtide.scheduler.engine.loop.reconcile import UnexpectedAttempt, match_gpus, numbering
from springtide.scheduler.engine.loop.start_checks import StartChecks
from springtide.scheduler.engine.requests import change_requests, freezes
from springtide.scheduler.engine.settings import EngineSettings, Stats
from springtide.scheduler.engine.state import ledger, lifecycle
from springtide.scheduler.engine.state.journal import JournaledPlanner, change_between
from springtide.scheduler.engine.state.lifecycle import Action, Effect
from springtide.scheduler.engine.state.line_without_gpus import LineName, line_of
from springtide.scheduler.engine.state.observed import ObservedNodes, Unexpected
from springtide.scheduler.engine.state.state import State, policy_job
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.sweeps.advance import advance
from springtide.scheduler.engine.without_gpus import start_waiting
from springtide.scheduler.executors.base import (
    AttemptPhase,
    AttemptStatus,
    Exit,
    InventoryChanged,
    LogGrew,
    Reported,
)
from springtide.scheduler.model import NodesChanged, ProjectsChanged, SettingsChanged
from springtide.scheduler.notifications import Delivery, Notification
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import AttemptRecord, AttemptState, DecisionRecord, JobRecord
from springtide.scheduler.workload import Line, Workload

logger = logging.getLogger(__name__)


class TimeLimits:
    """A priority queue of times to look at jobs, at most one for each job, in seconds since the epoch."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._check_of: dict[str, float] = {}

    def watch(self, job_id: str, job: JobRecord | None) -> None:
        """Set the next time to look at a job from its record; None, or a job with nothing to wait for, removes it.

        The planner wakes jobs that need GPUs after their back-off.
        """
        at = None if job is None else lifecycle.time_limit_check(job) or lifecycle.back_off_end(job)
        if at is None:
            self._check_of.pop(job_id, None)
        elif self._check_of.get(job_id) != at:
            self._check_of[job_id] = at
            heapq.heappush(self._heap, (at, job_id))

    def take_due(self, now: float) -> list[str]:
        """Remove and return the ids of the jobs whose time has come."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            at, job_id = heapq.heappop(self._heap)
            if self._check_of.get(job_id) == at:
                del self._check_of[job_id]
                due.append(job_id)
        return due

    def next_at(self) -> float | None:
        """Return the earliest time at which `take_due` may return something, None if there is none."""
        return self._heap[0][0] if self._heap else None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request: its result, or the error to raise. Given after the commit."""

    request: Request
    result: Any = None
    error: Exception | None = None

    def give(self) -> None:
        """Resolve the request's future, unless the caller has gone away."""
        self.give_error(self.error) if self.error is not None else self._give_result()

    def give_error(self, error: Exception) -> None:
        """Resolve the request's future with another error, because the commit failed."""
        if not self.request.future.done():
            self.request.future.set_exception(error)

    def _give_result(self) -> None:
        if not self.request.future.done():
            self.request.future.set_result(self.result)


def _reply(transaction: Transaction, request: Request) -> Reply:
    """Apply a request. Raises what it raises but `Refusal`, after which the transaction may be incomplete."""
    try:
        return Reply(request, request.apply(transaction))
    except Refusal as refusal:
        return Reply(request, error=refusal)


def _starts_without_gpus(job: JobRecord, now: float) -> bool:
    """Return whether an attempt of a job without GPUs begins at this time."""
    return job.line is Line.WITHOUT_GPUS and job.live is not None and job.live.created == now and not job.live.seen


@dataclass(slots=True)
class Tick:
    """The result of one tick.

    ``reported`` are ids of jobs with new progress, ``logs`` the logs that grew, ``due`` the jobs whose time limit
    was examined. ``read_inventory`` says that the executor announced a change of its nodes, ``nodes_changed`` that
    the observed nodes differ, ``replan`` that the planner has learned of something that calls for a plan.
    ``decided`` says that at least one decision was applied, ``new_trials`` how many trials of sweeps were begun.
    ``deliveries`` are those of ``notifications``.
    """

    transaction: Transaction
    replies: list[Reply] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    logs: list[LogGrew] = field(default_factory=list)
    due: list[str] = field(default_factory=list)
    read_inventory: bool = False
    nodes_changed: bool = False
    replan: bool = False
    decision: DecisionRecord | None = None
    decided: bool = False
    new_trials: int = 0
    notifications: list[Notification] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    wake_at: float | None = None


class TickBuilder:
    """Builds ticks from arrived input. Commits nothing and has no effects on the executor.

    ``first`` begins each transaction: the pool's own decisions that need no plan. ``accept`` completes new jobs
    from the history of others.
    """

    def __init__(
        self,
        state: State,
        nodes: ObservedNodes,
        planner: JournaledPlanner,
        settings: EngineSettings,
        stats: Stats,
        *,
        checks: StartChecks,
        first: Callable[[Transaction], None],
        accept: Callable[[Transaction], None],
    ) -> None:
        self._checks = checks
        self.state = state
        self.nodes = nodes
        self.planner = planner
        self._settings = settings
        self._stats = stats
        self._first = first
        self._accept = accept
        self._sweeps_due: Collection[str] = ()
        self._lines_due: Collection[LineName] = ()
        self._examine_all()

    def restart(self, now: float) -> None:
        """Build the planner again from the committed state, and examine what the last tick examined again."""
        snapshot = self.state.snapshot(self.nodes, now, self._settings.policy)
        self.planner.restart(snapshot, self.state.last_decision)
        self._examine_all()

    def _examine_all(self) -> None:
        """Let the next tick examine all sweeps, and all lines of jobs without GPUs."""
        self._sweeps_due = [job.id for job in self.state.jobs.values() if job.workload is Workload.SWEEP]
        self._lines_due = self.state.without_gpus.lines

    def collect(
        self,
        requests: Iterable[Request],
        observations: Iterable[EngineObservation],
        due: Iterable[str],
        now: float,
        *,
        ended: Mapping[str, JobRecord],
    ) -> Tick:
        """Take in arrived input, without planning.

        ``due`` are ids of jobs that may be near their time limit, or wait and can run again; ``ended`` are jobs
        that have ended and to which one of the observations refers. A request that fails is answered with its
        error and changes nothing. Raises whatever the state of jobs and sweeps raises that no request has changed.
        """
        tick = Tick(Transaction(self.state, self.nodes, now), due=list(due))
        end_due(tick.transaction)
        self._first(tick.transaction)
        for observation in observations:
            try:
                self._observe(tick, observation, ended)
            except Exception:  # one invalid observation must not stop the engine
                logger.exception("The observation %r is invalid; it is ignored.", observation)
        for job_id in tick.due:
            job = tick.transaction.job(job_id)
            if job is not None:
                tick.transaction.apply(lifecycle.check_time_limit(job, now))
        waiting = (tick.transaction.job(job_id) for job_id in tick.due)
        everywhere = self.state.without_gpus.lines if tick.nodes_changed else ()
        ready = (line_of(job) for job in waiting if job is not None)
        self._lines_due = {*self._lines_due, *everywhere, *ready}
        self._decide(tick, [request for request in requests if not request.future.done()])
        self._stats.refused += sum(isinstance(reply.error, Refusal) for reply in tick.replies)
        self._stats.starts += sum(_starts_without_gpus(job, now) for job in tick.transaction.jobs.values())
        self._sweeps_due, self._lines_due = (), ()
        return tick

    def _decide(self, tick: Tick, requests: Sequence[Request]) -> None:
        """Decide requests together; after an error, which may be that of any of them, one by one."""
        before = tick.transaction.copy()
        try:
            tick.replies = [_reply(tick.transaction, request) for request in requests]
            tick.new_trials = self._advance(tick.transaction)
        except Exception:
            if not requests:
                raise
            logger.exception("A request failed; all that came with it are decided one by one.")
            tick.transaction = before
            self._decide_one_by_one(tick, requests)

    def _decide_one_by_one(self, tick: Tick, requests: Sequence[Request]) -> None:
        tick.new_trials = self._advance(tick.transaction)
        tick.replies = []
        for request in requests:
            tried = tick.transaction.copy()
            try:
                reply = _reply(tried, request)
                tick.new_trials += self._advance(tried)
            except Exception as error:
                logger.exception("A request failed; nothing of it is kept.")
                reply = Reply(request, error=error)
            else:
                tick.transaction = tried
            tick.replies.append(reply)

    def _advance(self, transaction: Transaction) -> int:
        test_runs.follow(transaction)
        freezes.follow(transaction)
        launch_stops.follow(transaction)
        begun = advance(transaction, self._settings, self._sweeps_due)
        while start_waiting(transaction, self._settings.jobs_without_gpus, self._lines_due):
            begun += advance(transaction, self._settings)
        if begun:
            freezes.follow(transaction)
            launch_stops.follow(transaction)
        change_requests.follow(transaction)
        self._accept(transaction)
        return begun

    # ---------- observations

    def _observe(self, tick: Tick, observation: EngineObservation, ended: Mapping[str, JobRecord]) -> None:
        match observation:
            case AttemptStatus():
                self._observe_attempt(tick, observation, ended)
            case Reported(key=key):
                job = tick.transaction.job(key.job)
                if job is not None:
                    tick.transaction.put_report(lifecycle.reported(job, observation))
                    tick.reported.append(job.id)
            case LogGrew():
                tick.logs.append(observation)
            case InventoryChanged():
                tick.read_inventory = True
            case NodesObserved(nodes=nodes):
                if nodes != self.nodes.all:
                    numbered_otherwise = numbering(nodes) != numbering(self.nodes.all)
                    self.nodes.all = nodes
                    tick.nodes_changed = True
                    if numbered_otherwise:
                        match_gpus(tick.transaction)
                tick.transaction.follow_types()
                ledger.follow_facts(tick.transaction)
            case StartChecked(job=job_id, attempt=attempt, refused=refused):
                self._observe_check(tick, job_id, attempt, refused)
            case LaunchFailed(key=key, detail=detail):
                job = tick.transaction.job(key.job)
                if job is not None and job.live is not None and job.live.number == key.attempt:
                    tick.transaction.put_job(job.with_standing(reason=messages.not_launched(detail)))
            case StopTried(key=key, detail=detail):
                job = tick.transaction.job(key.job)
                if job is not None and job.live is not None and job.live.number == key.attempt:
                    tick.transaction.put_job(lifecycle.not_stopped(job, detail))

    def _observe_check(self, tick: Tick, job_id: str, attempt: int, refused: Exit | None) -> None:
        """Take in whether a start was refused beforehand; plan again what waited for that."""
        job, transaction = tick.transaction.job(job_id), tick.transaction
        tick.replan = True
        if job is not None and job.standing.attempt == attempt and refused is not None and not job.state.final:
            transaction.put_job(
                lifecycle.refused_beforehand(job, refused, transaction.now, self._settings.retries)
            )

    def _observe_attempt(self, tick: Tick, status: AttemptStatus, ended: Mapping[str, JobRecord]) -> None:
        key, transaction = status.key, tick.transaction
        job = transaction.job(key.job)
        if job is None or job.live is None or job.live.number != key.attempt:
            self._observe_unexpected(tick, status, job or ended.get(key.job))
            return
        before = job.live
        after = transaction.apply(lifecycle.observed(job, status, transaction.now, self._settings.retries))
        self._count(before, status, after)

    def _count(self, before: AttemptRecord, status: AttemptStatus, after: JobRecord) -> None:
        stats = self._stats
        if before.started is None and status.started is not None:
            stats.start_seconds += max(0.0, status.started - before.created)
        if status.phase is AttemptPhase.GONE:
            if before.asked_at is not None and status.exit is not None:
                stats.pause_seconds += max(0.0, status.exit.at - before.asked_at)
            if after.state.final:
                stats.ended[after.state.value] += 1
            stats.lost_attempts += after.attempts[-1].state is AttemptState.LOST
            stats.blocked_attempts += after.attempts[-1].state is AttemptState.BLOCKED

    def _observe_unexpected(self, tick: Tick, status: AttemptStatus, job: JobRecord | None) -> None:
        """Take in an attempt that is not the live one of its job."""
        kind = reconcile.classify_unexpected(status, job)
        quarantine, effects = self.nodes.quarantine, tick.transaction.effects
        if kind is UnexpectedAttempt.GONE:
            tick.nodes_changed = quarantine.pop(status.key, None) is not None or tick.nodes_changed
            effects.append(Effect(Action.DISCARD, status.key.job, status.key.attempt))
            return
        if kind is UnexpectedAttempt.SUPERSEDED:
            effects.append(Effect(Action.KILL_NOW, status.key.job, status.key.attempt))
        if status.key in quarantine:
            return
        since = status.started if status.started is not None else tick.transaction.now
        quarantine[status.key] = Unexpected(self.nodes.places.identified(status.placement), kind.value, since)
        tick.nodes_changed = True
        self._stats.quarantined += 1
        logger.error("Attempt %s runs but %s; its GPUs are not used until it is gone.", status.key, kind)

    # ---------- planning

    def update_planner(self, tick: Tick) -> None:
        """Give the planner the changes of the tick. Raises what the planner raises."""
        transaction = tick.transaction
        transaction.forget_use_of_deleted_projects()
        if transaction.new_types is not None:
            settings = replace(self._settings.policy, gpu_types=transaction.types.train)
            self.planner.apply(SettingsChanged(settings))
        if tick.nodes_changed or transaction.closes_otherwise:
            self.planner.apply(NodesChanged(self.nodes.train(transaction.drained())))
            tick.replan = True
        if transaction.plans_otherwise:
            self.planner.apply(ProjectsChanged(tuple(transaction.planned_projects().values())))
            tick.replan = True
        for job in transaction.jobs.values():
            change = change_between(self.planner.job(job.id), policy_job(job), job.id)
            if change is not None:
                self.planner.apply(change)
                tick.replan = tick.replan or transaction.must_commit
        for use in self.planner.renew_use(transaction.now):
            if use.project in transaction.projects:
                transaction.recent_use.put(use)

    def plan(self, tick: Tick) -> None:
        """Plan, and add the decisions to the transaction. Raises what the planner raises."""
        transaction, stats = tick.transaction, self._stats
        began = time.perf_counter()
        plan = self.planner.plan(transaction.now)
        stats.plans += 1
        stats.plan_seconds += time.perf_counter() - began
        tick.wake_at = plan.wake_at
        if not plan.decisions:
            return
        tick.decision = self.planner.record_decision(plan, transaction.now)
        transaction.require_commit()
        plan = self._checks.confirmed(plan, transaction.job)
        plan, breaches = enforce_promises(self.planner, plan, transaction.now)
        stats.breaches += len(breaches)
        tick.decided = apply.apply_plan(transaction, plan, stats)
        tick.replan = False
        tick.new_trials += self._advance(transaction)
        self.update_planner(tick)
