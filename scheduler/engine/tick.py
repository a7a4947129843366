"""One tick: what came in becomes a draft, the planner looks at it, and its decisions join the draft."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from springtide.scheduler.engine import decisions, lifecycle, reconcile, words
from springtide.scheduler.engine.guard import keep_promises
from springtide.scheduler.engine.inbox import Answer, LaunchTrouble, News, NodesSeen, Request
from springtide.scheduler.engine.lifecycle import Act, Do
from springtide.scheduler.engine.planning import Planning, changes_between
from springtide.scheduler.engine.reconcile import Stray
from springtide.scheduler.engine.settings import EngineSettings, Stats
from springtide.scheduler.engine.world import Draft, World, policy_job
from springtide.scheduler.executors.base import (
    AttemptPhase,
    AttemptStatus,
    InventoryChanged,
    LogGrew,
    Reported,
)
from springtide.scheduler.model import NodesChanged, ProjectsChanged
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import AttemptRecord, DecisionRecord, JobRecord

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Tick:
    """What one tick came to. ``logs`` are logs that grew; ``replan`` tells that planning is worth it."""

    draft: Draft
    answers: list[tuple[Request, Answer[Any]]] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    logs: list[LogGrew] = field(default_factory=list)
    due: list[str] = field(default_factory=list)
    look: bool = False
    """The inventory has to be asked for."""
    nodes: bool = False
    replan: bool = False
    decision: DecisionRecord | None = None
    decided: bool = False
    wake_at: float | None = None


class Ticker:
    """Makes ticks. ``find`` looks up jobs that may have ended."""

    def __init__(
        self,
        world: World,
        planning: Planning,
        settings: EngineSettings,
        *,
        stats: Stats,
        find: Callable[[str], JobRecord | None],
    ) -> None:
        self.world = world
        self.planning = planning
        self._settings = settings
        self._stats = stats
        self._find = find

    def make(self, requests: Iterable[Request], news: Iterable[News], due: Iterable[str], now: float) -> Tick:
        """Take in what came, but do not plan yet. ``due`` are jobs that may have reached their time limit."""
        tick = Tick(Draft(self.world, now), due=list(due))
        for item in news:
            try:
                self._take(tick, item)
            except Exception:  # one observation that cannot be understood must not end the engine
                logger.exception("%r could not be taken note of.", item)
        for request in requests:
            self._decide(tick, request)
        for job_id in tick.due:
            job = tick.draft.job(job_id)
            limit = lifecycle.deadline(job) if job is not None else None
            if job is not None and limit is not None and limit <= now:
                tick.draft.step(lifecycle.time_up(job, now))
        return tick

    def _decide(self, tick: Tick, request: Request) -> None:
        if request.future.done():
            return
        try:
            tick.answers.append((request, request.apply(tick.draft)))
        except Refusal as refusal:
            self._stats.refused += 1
            request.future.set_exception(refusal)
        except Exception as error:  # a mistake in one request must not end the engine
            logger.exception("A request failed.")
            request.future.set_exception(error)

    # ---------- news

    def _take(self, tick: Tick, item: News) -> None:
        match item:
            case AttemptStatus():
                self._status(tick, item)
            case Reported(key=key):
                job = tick.draft.job(key.job)
                if job is not None:
                    tick.draft.report(lifecycle.reported(job, item))
                    tick.progress.append(job.id)
            case LogGrew():
                tick.logs.append(item)
            case InventoryChanged():
                tick.look = True
            case NodesSeen(nodes=nodes):
                if nodes != self.world.nodes:
                    self.world.nodes = nodes
                    tick.nodes = True
            case LaunchTrouble(key=key, detail=detail):
                job = tick.draft.job(key.job)
                if job is not None and job.live is not None and job.live.number == key.attempt:
                    tick.draft.put(job.with_standing(reason=words.not_launched(detail)))

    def _status(self, tick: Tick, status: AttemptStatus) -> None:
        key, draft = status.key, tick.draft
        job = draft.job(key.job)
        if job is None or job.live is None or job.live.number != key.attempt:
            self._stray(tick, status, job or self._find(key.job))
            return
        was = job.live
        after = draft.step(lifecycle.observed(job, status, draft.now, self._settings.retries))
        self._count(was, status, after)

    def _count(self, was: AttemptRecord, status: AttemptStatus, after: JobRecord) -> None:
        stats = self._stats
        if was.started is None and status.started is not None:
            stats.start_seconds += max(0.0, status.started - was.created)
        if status.phase is AttemptPhase.GONE:
            if was.asked_at is not None and status.exit is not None:
                stats.pause_seconds += max(0.0, status.exit.at - was.asked_at)
            if after.state.final:
                stats.ended[after.state.value] += 1
            stats.lost_attempts += after.attempts[-1].state.value == "lost"

    def _stray(self, tick: Tick, status: AttemptStatus, job: JobRecord | None) -> None:
        """An attempt that is not the live one of its job."""
        kind = reconcile.stray(status, job)
        quarantine = self.world.quarantine
        if kind is Stray.GONE:
            tick.nodes = quarantine.pop(status.key, None) is not None or tick.nodes
            tick.draft.acts.append(Do(Act.DISCARD, status.key.job, status.key.attempt))
            return
        if status.key in quarantine:
            return
        quarantine[status.key] = status.placement
        tick.nodes = True
        self._stats.quarantined += 1
        logger.error("Attempt %s runs but %s; its GPUs count as taken until it is gone.", status.key, kind)
        if kind is Stray.SUPERSEDED:
            tick.draft.acts.append(Do(Act.KILL, status.key.job, status.key.attempt))

    # ---------- planning

    def note(self, tick: Tick) -> None:
        """Tell the planner what the draft changes."""
        draft = tick.draft
        if tick.nodes:
            self.planning.note(NodesChanged(self.world.train_nodes()))
            tick.replan = True
        if draft.projects:
            projects = tuple(record.project for record in draft.all_projects().values())
            self.planning.note(ProjectsChanged(projects))
            tick.replan = True
        for job in draft.jobs.values():
            change = changes_between(self.planning.known(job.id), policy_job(job), job.id)
            if change is not None:
                self.planning.note(change)
                tick.replan = tick.replan or draft.hard

    def plan(self, tick: Tick) -> None:
        """Plan, and add the decisions to the draft. Raises whatever the planner raises."""
        draft, stats = tick.draft, self._stats
        began = time.perf_counter()
        plan = self.planning.planner.plan(draft.now)
        stats.plans += 1
        stats.plan_seconds += time.perf_counter() - began
        tick.wake_at = plan.wake_at
        if not plan.decisions:
            return
        tick.decision = self.planning.record(plan, draft.now)
        draft.hard = True
        plan, breaches = keep_promises(self.planning, plan, draft.now)
        stats.breaches += len(breaches)
        tick.decided = decisions.carry_out(draft, plan, stats)
        tick.replan = False
        self.note(tick)
