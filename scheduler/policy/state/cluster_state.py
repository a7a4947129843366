"""All that the policy knows of the GPUs of one type, in indexes that are updated job by job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf

from msgspec.structs import replace
from sortedcontainers import SortedList

from springtide.scheduler.gpu_types import accepted_types
from springtide.scheduler.model import Job, Node, Order, Phase, Placement, Project, Settings, Surplus
from springtide.scheduler.policy.state.job_queues import (
    JobQueues,
    PlacementConstraints,
    QueueKey,
    scheduling_class_of,
)
from springtide.scheduler.policy.state.nodes import NodePool
from springtide.scheduler.policy.state.projects import ProjectNode, ProjectTree
from springtide.scheduler.policy.state.running_jobs import RunningJobs
from springtide.scheduler.policy.state.service import (
    AGEING_PER_LEVEL,
    RANKS_PER_LEVEL,
    ROUNDING,
    ServiceLevels,
    aged,
    service_rank_of,
    waiting_since,
)
from springtide.scheduler.policy.state.timers import Timers
from springtide.scheduler.policy.state.undo import UndoLog


class StateObserver:
    """Is told of changes that concern more than the job itself. This one takes no note of them."""

    def job_changed(self, job: Job) -> None:
        """Called after a job was added, and before one is removed."""

    def queue_changed(self, leaf: ProjectNode) -> None:
        """Called after the queues of a project have changed."""

    def usage_changed(self, project: ProjectNode) -> None:
        """Called when what a project holds, or is entitled to, has changed."""


class ClusterState:
    """Nodes with GPUs of one type, the jobs that run on them or wait and accept that type, and all projects.

    ``types`` are all GPU types of the pool in its order, ``gpu_type`` is the one of these nodes. Projects have the
    plain numbers of this type. Usual run times count only where the surplus is divided fairly: shares by service
    do not know them.

    ``queues`` and ``running`` hold the waiting and the preemptible running jobs by project. ``pausing``,
    ``awaiting``, ``incomplete`` and ``growing`` are the jobs that are stopping, that wait for reserved GPUs, that
    run with fewer than their minimum of workers, and that may be restarted with more. ``time_limited`` are the
    queued jobs with a time limit, ordered by limit, submission and id. Changes are recorded in ``undo``.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        projects: Iterable[Project],
        jobs: Iterable[Job],
        settings: Settings,
        *,
        gpu_type: str = "",
        types: Sequence[str] = ("",),
    ) -> None:
        self.settings = settings
        self.gpu_type = gpu_type
        self.types = tuple(types)
        self.undo = UndoLog()
        self.pool = NodePool(nodes, self.undo)
        self.tree = ProjectTree(projects, settings.surplus, self.undo)
        self._service = ServiceLevels() if settings.surplus is Surplus.LEAST_SERVED else None
        self.jobs: dict[str, Job] = {}
        self.constraint_counts: Counter[PlacementConstraints] = Counter()
        self.queues = {name: JobQueues(self.constraint_counts) for name in self.tree.leaves}
        self.running = {name: RunningJobs(self.pool.by_name, settings.min_runtime) for name in self.tree.leaves}
        self.pausing: dict[str, Job] = {}
        self.awaiting: dict[str, Job] = {}
        self.incomplete: dict[str, Job] = {}
        self.growing: dict[str, Job] = {}
        self.service_ranks: dict[str, int] = {}
        self.time_limited: SortedList = SortedList()
        self.observer = StateObserver()
        self._back_offs = Timers()
        self._ageing = Timers()
        for job in jobs:
            self._add(job)
            self._commit()

    # ---------- learning

    def upsert_job(self, job: Job) -> None:
        """Add a job, or replace it."""
        self._remove(job.id)
        self._add(job)
        self._commit()

    def _add(self, job: Job) -> None:
        if self._service is not None and job.usual_runtime is not None:
            job = replace(job, usual_runtime=None)
        self.jobs[job.id] = job
        self._count(job, 1)
        self.pool.occupy(job.id, job.placement)
        self.pool.reserve(job.reserved)
        self.observer.job_changed(job)
        if job.phase is Phase.PAUSING:
            self.pausing[job.id] = job
        elif job.phase is Phase.RUNNING:
            if len(job.placement) < job.min_workers:
                self.incomplete[job.id] = job
            elif len(job.placement) < job.workers and job.preemptible:
                self.growing[job.id] = job
            if job.preemptible and job.project in self.running:
                self.running[job.project].add(job)
        elif job.phase is Phase.WAITING and job.reserved:
            self.awaiting[job.id] = job
            if self._service is not None:
                self._ageing.set(job.id, waiting_since(job) + AGEING_PER_LEVEL)
        elif job.phase is Phase.WAITING and job.not_before > 0:
            self._back_offs.set(job.id, job.not_before)
        elif job.phase is Phase.WAITING:
            self._enqueue(job)

    def remove_job(self, job_id: str) -> None:
        """Remove a job, if it is known."""
        self._remove(job_id)
        self._commit()

    def _remove(self, job_id: str) -> None:
        job = self.jobs.pop(job_id, None)
        if job is None:
            return
        self._count(job, -1)
        self.observer.job_changed(job)
        self.pool.vacate(job.id, job.placement)
        self.pool.unreserve(job.reserved)
        if job.phase is Phase.RUNNING and job.preemptible and job.project in self.running:
            self.running[job.project].remove(job)
        if job_id in self.service_ranks and job.time_limit is not None:
            self.time_limited.remove((job.time_limit, job.submitted, job.id))
        if job_id in self.service_ranks and job.project in self.queues:
            self.queues[job.project].remove(scheduling_class_of(job), self._queue_key(job))
            self.observer.queue_changed(self.tree.leaves[job.project])
        for index in (self.pausing, self.awaiting, self.incomplete, self.growing, self.service_ranks):
            index.pop(job_id, None)
        self._back_offs.discard(job_id)
        self._ageing.discard(job_id)

    def _commit(self) -> None:
        self.undo.commit()
        self.tree.changed.clear()

    def _count(self, job: Job, sign: int) -> None:
        leaf = self.tree.leaves.get(job.project)
        if leaf is None or job.phase is Phase.HELD:
            return
        held = _gpus(job.placement)
        claimed = held if job.phase is Phase.RUNNING else _gpus(job.reserved)
        if held or claimed:
            self.tree.add_usage(leaf, sign * claimed, preemptible=job.preemptible, held=sign * held)
            self.observer.usage_changed(leaf)
        level = 0
        if self._service is not None:
            level = self._service.add(job) if sign > 0 else self._service.remove(job.id)
        self.tree.add_request(leaf, sign * self._requested(job, held), level)

    def _requested(self, job: Job, held: int) -> int:
        """Return the GPUs of this type that the job requests: a waiting one requests the first type it accepts."""
        if not held and not job.reserved and self.rank_of(job.gpu_types):
            return 0
        return max(held, job.workers * job.gpus)

    # ---------- lines

    def _queue_key(self, job: Job) -> QueueKey:
        rank = self.service_ranks.get(job.id)
        rank = service_rank_of(job) if rank is None else rank
        return (-job.priority, rank, job.submitted, job.id)

    def _enqueue(self, job: Job) -> None:
        rank = service_rank_of(job) if self.settings.order is Order.LEAST_SERVED else 0
        self.service_ranks[job.id] = rank
        if job.time_limit is not None:
            self.time_limited.add((job.time_limit, job.submitted, job.id))
        if rank:
            self._ageing.set(job.id, waiting_since(job) + AGEING_PER_LEVEL)
        self._insert(job)

    def _insert(self, job: Job) -> None:
        """Insert a waiting job into its queue, by its service rank."""
        if job.project in self.queues:
            self.queues[job.project].add(scheduling_class_of(job), self._queue_key(job))
            self.observer.queue_changed(self.tree.leaves[job.project])

    def pass_time(self, now: float) -> None:
        """Enqueue jobs whose back-off is over, and move up jobs that have waited for long.

        Running jobs move to later levels of service.
        """
        if self._service is not None:
            for running in [self.jobs[job_id] for job_id in self._service.ends.due(now)]:
                self._relevel(running, self._service.level_at(running, now))
        for job_id in self._back_offs.due(now):
            self._enqueue(self.jobs[job_id])
        for job_id in self._ageing.due(now):
            self._age(self.jobs[job_id], now)

    def _age(self, job: Job, now: float) -> None:
        """Move a waiting job up by the levels that its waiting makes up for, in its queue and in the shares."""
        moved_up = aged(job, now + ROUNDING)
        rank = service_rank_of(job, moved_up)
        if job.id in self.service_ranks and job.project in self.queues:
            self.queues[job.project].remove(scheduling_class_of(job), self._queue_key(job))
            self.service_ranks[job.id] = rank
            self._insert(job)
        self._relevel(job, rank // RANKS_PER_LEVEL)
        if rank:
            self._ageing.set(job.id, waiting_since(job) + (moved_up + 1) * AGEING_PER_LEVEL)

    def _relevel(self, job: Job, level: int) -> None:
        """Count the request of a job at another level of service."""
        leaf = self.tree.leaves.get(job.project)
        if self._service is not None and leaf is not None:
            requested = self._requested(job, _gpus(job.placement))
            self.tree.add_request(leaf, -requested, self._service.remove(job.id))
            self.tree.add_request(leaf, requested, self._service.add(job, level))

    def next_level(self) -> float:
        """Return when a running job has so much service that it may have to give way to others, or infinity."""
        waits = any(queues.by_class for queues in self.queues.values())
        return inf if self._service is None or not waits else self._service.ends.next_time()

    def next_back_off_end(self) -> float:
        """Return the end of the next back-off, or infinity."""
        return self._back_offs.next_time()

    def queue_position(self, job: Job) -> int:
        """Return the job's position among the waiting jobs of its project, counted from 1."""
        queues = self.queues.get(job.project)
        return 1 if queues is None else queues.before(self._queue_key(job)) + 1

    # ---------- looking things up

    def rank_of(self, gpu_types: tuple[str, ...]) -> int:
        """Return the position of this GPU type among those of the pool that a job accepts, 0 for the first."""
        if len(self.types) == 1:
            return 0
        accepted = accepted_types(gpu_types, self.types)
        return accepted.index(self.gpu_type) if self.gpu_type in accepted else 0

    @property
    def ranks(self) -> set[int]:
        """The positions of this GPU type among those that waiting jobs accept."""
        return {self.rank_of(each.gpu_types) for each in self.constraint_counts}

    @property
    def shares_jobs(self) -> bool:
        """Whether a waiting job accepts other types of the pool, too."""
        return any(self.accepts_several(each.gpu_types) for each in self.constraint_counts)

    def accepts_several(self, gpu_types: tuple[str, ...]) -> bool:
        """Tell whether a job with these accepted types can run on several types of the pool."""
        return len(self.types) > 1 and len(accepted_types(gpu_types, self.types)) > 1

    def leaf_of(self, job: Job) -> ProjectNode:
        """Return the project that the job counts for. Raises `KeyError` if it is unknown."""
        return self.tree.leaves[job.project]

    def update_shares(self) -> None:
        """Bring the fair shares up to date."""
        for project in self.tree.update_shares(self.pool.total):
            self.observer.usage_changed(project)

    # ---------- trying things out

    def release(self, job: Job) -> None:
        """Free the GPUs reserved for the job."""
        self.pool.unreserve(job.reserved)
        self._count_reserved(job, -1)

    def restore(self, job: Job) -> None:
        """Reserve the GPUs again that `release` has freed."""
        self.pool.reserve(job.reserved)
        self._count_reserved(job, 1)

    def _count_reserved(self, job: Job, sign: int) -> None:
        if job.project in self.tree.leaves:
            self.tree.add_usage(self.leaf_of(job), sign * _gpus(job.reserved), preemptible=job.preemptible)


def _gpus(placement: Placement) -> int:
    return sum(len(worker.gpus) for worker in placement)
