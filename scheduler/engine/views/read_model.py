"""The read model: views of the committed state, cached until it changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import msgspec

from springtide.scheduler import model, wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.node_groups import NodeRequests
from springtide.scheduler.engine.placements.slow import SlowPlacement
from springtide.scheduler.engine.state.booked import closes_under, with_booking
from springtide.scheduler.engine.state.borrowing import Borrowing
from springtide.scheduler.engine.state.drain_ends import DrainEnd, drain_ends, with_drain_ends, with_undrains
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.journal import JournaledPlanner
from springtide.scheduler.engine.state.line_without_gpus import LineView, out_of_service
from springtide.scheduler.engine.state.lineage import lineage
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.restraints import with_budget
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.views import idle_view, job_view, node_views, pool_view, prospects
from springtide.scheduler.engine.views.diagnoses import Diagnosed, Diagnoses, Sees, diagnosed
from springtide.scheduler.engine.views.node_views import GpuLabels
from springtide.scheduler.model import JobState, Standing
from springtide.scheduler.store.ledger import Holding, HoldingKey
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.workload import Line, Workload

logger = logging.getLogger(__name__)
T = TypeVar("T")


class ReadModel:
    """Views of the committed state, the observed nodes and the planner.

    ``starts`` are the forecasts of waiting jobs' starts, ``diagnoses`` what lets them start, ``usage`` the
    measured use of running jobs, all by job.
    ``jobs_without_gpus`` is the pool's number of jobs without GPUs of a project at a time,
    ``slow_placement`` has the placement with which a running job would be faster, ``node_requests`` the nodes that
    jobs wait for. Jobs can be paused ``min_runtime`` seconds after their start. ``version`` counts the changes.
    """

    def __init__(
        self,
        state: State,
        nodes: ObservedNodes,
        planner: JournaledPlanner,
        jobs: JobLookup,
        *,
        starts: Mapping[str, wire.Starts],
        diagnoses: Diagnoses,
        usage: Mapping[str, wire.JobUsage],
        clock: Callable[[], float],
        jobs_without_gpus: int,
        min_runtime: float,
        grace: float,
        slow_placement: Callable[[JobRecord], SlowPlacement | None],
        node_requests: NodeRequests,
        takes_sessions: bool,
        store_trouble: Callable[[], str],
    ) -> None:
        self._store_trouble = store_trouble
        self._takes_sessions = takes_sessions
        self.state = state
        self.nodes = nodes
        self.planner = planner
        self.jobs = jobs
        self.version = 0
        self._starts = starts
        self._diagnoses = diagnoses
        self._usage = usage
        self._clock = clock
        self._jobs_without_gpus = jobs_without_gpus
        self._min_runtime = min_runtime
        self._grace = grace
        self._slow_placement = slow_placement
        self._node_requests = node_requests
        self._context: job_view.ViewContext | None = None
        self._labels: GpuLabels | None = None
        self._standing: Mapping[str, Standing] | None = None
        self._pool: wire.PoolView | None = None
        self._node_views = node_views.NodeViews()

    def invalidate(self) -> None:
        """Drop the cached views, because the state or the nodes have changed."""
        self._context = None
        self._standing = None
        self._pool = None
        self.version += 1

    def view_context(self) -> job_view.ViewContext:
        """Return what views of jobs need besides the record."""
        if self._context is None:
            self._context = self.view_context_with(
                self.state.borrowing(), self.state.trials_of, self.state.holdings.get, {}
            )
        return self._context

    def view_context_with(
        self,
        borrowing: Borrowing,
        trials_of: Callable[[str], Sequence[JobRecord]],
        holding: Callable[[HoldingKey], Holding | None],
        changed: Mapping[str, JobRecord],
    ) -> job_view.ViewContext:
        """Return what views need, with borrowed GPUs, trials, holdings and changed jobs of a transaction."""
        line = self.line_without_gpus(changed)

        def without_gpus(job_id: str) -> JobRecord | None:
            job = changed.get(job_id) or self.state.jobs.get(job_id)
            return None if job is None or job.line is not Line.WITHOUT_GPUS else job

        def waiting_reason(job_id: str) -> model.Reason | None:
            job = without_gpus(job_id)
            if job is None:
                return self.waiting_reason(job_id)
            why = line.reason(job, self._clock())
            return None if why is None else self._while_writing(with_drain_ends(why, self._drain_ends()))

        def place_in_line(job_id: str) -> int | None:
            job = without_gpus(job_id)
            return self._place_in_line(job_id) if job is None else line.place(job)

        def has_ended(job_id: str) -> bool:
            job = changed.get(job_id) or self.state.jobs.get(job_id)
            return job is None or job.state.final

        if self._labels is None or self._labels.nodes is not self.nodes.all:
            self._labels = GpuLabels(self.nodes.all, self.nodes.places)
        return job_view.ViewContext(
            self._labels,
            borrowing,
            waiting_reason,
            place_in_line,
            self._expected_starts,
            self._starts_if,
            self._usage.get,
            trials_of,
            holding,
            has_ended,
            self._slow_placement,
            self._at_stake,
            self.state.deleted_jobs.__contains__,
            self._closes,
            self._grace,
        )

    def _closes(self, job: JobRecord) -> model.Reason | None:
        return closes_under(job, self.state.bookings.values(), self._clock())

    def pausable_from(self, job: JobRecord) -> float | None:
        """Return from when on others can have a running job paused, None if they cannot."""
        live = job.live
        if live is None or live.started is None or job.state is not JobState.RUNNING:
            return None
        if not (job.line is Line.GPUS and job.spec.options.is_preemptible):
            return None
        return live.started + self._min_runtime

    def _at_stake(self, job: JobRecord) -> float | None:
        since, now = self.pausable_from(job), self._clock()
        return None if since is None or since > now else now - since + self._min_runtime

    def line_without_gpus(self, changed: Mapping[str, JobRecord] = MappingProxyType({})) -> LineView:
        """Return the lines of jobs without GPUs, after changes of jobs that are not committed yet."""
        state = self.state
        closed = out_of_service(self.nodes.train(), state.drains)
        return LineView(state.without_gpus, changed, state.projects.get, self._jobs_without_gpus, closed=closed)

    def waiting_reason(self, job_id: str) -> model.Reason | None:
        """Return why a job waits for GPUs, or None if the planner does not know yet that it waits."""
        why = _or_default(lambda: self.planner.reason(job_id, self._clock()), None)
        if why is None or why.code in {"running", "pausing"}:
            return None
        why = with_drain_ends(self._with_budget(job_id, why), self._drain_ends())
        why = with_undrains(why, self.nodes.train(), self.state.drains)
        why = with_booking(why, self.state.bookings.values())
        return self._while_writing(self._node_requests.reason(job_id, why))

    def _while_writing(self, why: model.Reason) -> model.Reason:
        """Return why a job waits, or that nothing starts as long as the store takes no writes."""
        trouble = self._store_trouble()
        return messages.store_trouble(trouble) if trouble else why

    def _drain_ends(self) -> list[DrainEnd]:
        return drain_ends(self.nodes.train(), self.state.drains, self.state.gpu_drains)

    def _with_budget(self, job_id: str, why: model.Reason) -> model.Reason:
        """Return why a job waits, with the budget that has a part in it."""
        state, job = self.state, self.state.jobs.get(job_id)
        if not state.budgets or job is None:
            return why
        parents = {name: record.project.parent for name, record in state.projects.items()}
        return with_budget(why, lineage(job.spec.project, parents), state.budgets, state.currency)

    def _expected_starts(self, job_id: str) -> wire.Starts | None:
        """Return the forecast of a start; none for a job whose node has to come first, or while nothing starts."""
        if not self.is_planned(job_id) or self._store_trouble():
            return None
        return prospects.start_now(self._starts.get(job_id), self.waiting_reason(job_id))

    def _starts_if(self, job_id: str, sees: Sees) -> Diagnosed | None:
        """Return what lets a waiting job start, if that is known; nothing for one that has no forecast."""
        has_forecast = self.is_planned(job_id) and not self._store_trouble()
        found = self._diagnoses.of(job_id) if has_forecast else None
        return None if found is None else diagnosed(found, self.state, self.waiting_reason(job_id), sees)

    def is_planned(self, job_id: str) -> bool:
        """Return whether the planner decides when a job starts: neither a person, nor the cluster by a node."""
        job = self.state.jobs.get(job_id)
        return job is not None and prospects.is_planned(job) and not self._node_requests.awaits_node(job_id)

    def _place_in_line(self, job_id: str) -> int | None:
        return _or_default(lambda: self.planner.position(job_id), None)

    def job(self, record: JobRecord, *, full: bool = True) -> wire.Job:
        """Return the view of a job; ``full`` adds its earlier attempts and its source."""
        return job_view.job(record, self.view_context(), self._clock(), full=full)

    def waiting_id(self, job_id: str) -> str:
        """Return the id of a sweep's first waiting trial, of any other job its own id."""
        job = self.state.jobs.get(job_id)
        if job is None or job.workload is not Workload.SWEEP:
            return job_id
        waits = job_view.waiting_trial(self.state.trials_of(job_id))
        return job_id if waits is None else waits.id

    def trial_row(self, trial: JobRecord) -> wire.TrialRow:
        """Return the view of a begun trial, as a row of a table."""
        return job_view.row(trial, self.view_context().borrowing, self._clock())

    def standing(self) -> Mapping[str, Standing]:
        """Return the standing of each project."""
        if self._standing is None:
            unknown: Mapping[str, Standing] = {}
            self._standing = _or_default(self.planner.standing, unknown)
        return self._standing

    def idle(self) -> wire.Idle:
        """Return the idle train GPUs and why they are idle."""
        state = self.state
        waiting = (job for job in state.jobs.values() if job.live is None and job.line is Line.GPUS)
        held, reserved = node_views.occupied(state, self.nodes), node_views.reservations(state)
        nodes, drained = self.nodes.train(state.drained), state.drains.keys()
        return idle_view.idle(nodes, held, reserved, waiting, self.waiting_reason, drained=drained)

    def pool(self) -> wire.PoolView:
        """Return the view of the whole pool."""
        if self._pool is None:
            views = self._node_views.update(self.state, self.nodes, self.view_context().borrowing)
            self._pool = pool_view.pool(
                self.state,
                self.nodes,
                self.standing(),
                views,
                self.version,
                takes_sessions=self._takes_sessions,
            )
        groups, trouble = self._node_requests.views(), self._store_trouble()
        if (groups, trouble) != (self._pool.node_groups, self._pool.store_trouble):
            self._pool = msgspec.structs.replace(self._pool, node_groups=groups, store_trouble=trouble)
        return self._pool


def _or_default(ask_planner: Callable[[], T], default: T) -> T:
    """Return the planner's answer, or the default if it fails: a defect in it must not prevent reading."""
    try:
        return ask_planner()
    except Exception:
        logger.exception("The planner could not answer.")
        return default
