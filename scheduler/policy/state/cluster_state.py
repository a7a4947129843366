"""All that the policy knows of the GPUs of one type, in indexes that are updated job by job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf

from msgspec.structs import replace
from sortedcontainers import SortedList

from springtide.scheduler.gpu_types import accepted_types
from springtide.scheduler.model import Job, Node, Order, Phase, Project, Settings, Surplus
from springtide.scheduler.policy.state.fair_share import divide_below
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
    ROUNDING,
    aged,
    beyond,
    level_of,
    moved_up_at_start,
    service_rank_of,
    waiting_since,
)
from springtide.scheduler.policy.state.sorted_index import SortedIndex
from springtide.scheduler.policy.state.undo import UndoLog


class ClusterState:
    """Nodes with GPUs of one type, the jobs that run on them or wait and accept that type, and all projects.

    ``types`` are all GPU types of the pool in its order, ``gpu_type`` is the one of these nodes. Projects have the
    plain numbers of this type. Usual run times count only where the surplus is divided fairly: shares by service
    do not know them.

    ``queues`` and ``running`` hold the waiting and the preemptible running jobs by project. ``pausing``,
    ``awaiting``, ``incomplete`` and ``growing`` are the jobs that are stopping, that wait for reserved GPUs, that
    run with fewer than their minimum of workers, and that may be restarted with more. ``time_limited`` are the
    queued jobs with a time limit, ordered by limit, submission and id. ``changed_jobs`` were added or removed, and
    the queues, usage or shares of ``changed_projects`` have changed, since the memo took note of them. ``now`` is
    the time of the indexes, in seconds. Changes of usage and GPUs are recorded in ``undo``.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        projects: Iterable[Project],
        settings: Settings,
        *,
        gpu_type: str = "",
        types: Sequence[str] = ("",),
    ) -> None:
        self.settings = settings
        self.gpu_type = gpu_type
        self.types = tuple(types)
        self.now = 0.0
        self.undo = UndoLog()
        self.pool = NodePool(nodes, self.undo)
        self.tree = ProjectTree(projects, settings.surplus, self.undo)
        self.jobs: dict[str, Job] = {}
        self.constraint_counts: Counter[PlacementConstraints] = Counter()
        self.queues = {name: JobQueues() for name in self.tree.leaves}
        self.running = {name: RunningJobs(self.pool.by_name, settings.min_runtime) for name in self.tree.leaves}
        self.pausing: dict[str, Job] = {}
        self.awaiting: dict[str, Job] = {}
        self.incomplete: dict[str, Job] = {}
        self.growing: dict[str, Job] = {}
        self.time_limited: SortedList = SortedList()
        self.changed_jobs: list[Job] = []
        self.changed_projects: set[ProjectNode] = set()
        self._by_service = settings.surplus is Surplus.LEAST_SERVED
        self._levels: dict[str, int] = {}
        self._queue_keys: dict[str, QueueKey] = {}
        self._back_off_ends = SortedIndex()
        self._ageing = SortedIndex()
        self._level_ends = SortedIndex()

    # ---------- learning

    def upsert_job(self, job: Job) -> None:
        """Add a job, or replace it."""
        if job.id in self.jobs:
            self.remove_job(job.id)
        if self._by_service and job.usual_runtime is not None:
            job = replace(job, usual_runtime=None)
        self.jobs[job.id] = job
        self.changed_jobs.append(job)
        self.pool.occupy(job.id, job.placement)
        self.pool.reserve(job.reserved)
        moved_up = self._moved_up(job) if job.phase is Phase.WAITING else 0
        if self._by_service:
            self._levels[job.id] = self._level(job, moved_up or moved_up_at_start(job))
        self._count(job, 1)
        if (group := self._group_of(job)) is not None:
            group[job.id] = job
        if job.phase is Phase.RUNNING and job.preemptible and job.project in self.running:
            self.running[job.project].add(job)
        elif self._is_queued(job) and job.project in self.queues:
            self._enqueue(job, moved_up)
        self.undo.commit()
        self.tree.changed.clear()

    def remove_job(self, job_id: str) -> None:
        """Remove a job, if it is known."""
        job = self.jobs.pop(job_id, None)
        if job is None:
            return
        self.changed_jobs.append(job)
        self._count(job, -1)
        self.pool.vacate(job.id, job.placement)
        self.pool.unreserve(job.reserved)
        if job.phase is Phase.RUNNING and job.preemptible and job.project in self.running:
            self.running[job.project].remove(job)
        key = self._queue_keys.pop(job_id, None)
        if key is not None:
            scheduling_class = scheduling_class_of(job)
            self.queues[job.project].remove(scheduling_class, key)
            self.constraint_counts[scheduling_class.constraints] -= 1
            if not self.constraint_counts[scheduling_class.constraints]:
                del self.constraint_counts[scheduling_class.constraints]
            if job.time_limit is not None:
                self.time_limited.remove((job.time_limit, job.submitted, job.id))
        for group in (self.pausing, self.awaiting, self.incomplete, self.growing):
            group.pop(job_id, None)
        for index in (self._back_off_ends, self._ageing, self._level_ends):
            index.discard(job_id)
        self._levels.pop(job_id, None)
        self.undo.commit()
        self.tree.changed.clear()

    def pass_time(self, now: float) -> None:
        """Bring up to date the jobs that time has changed, in seconds.

        These are jobs whose back-off is over, waiting jobs that move up as they have waited for long, and running
        jobs that reach a later level of service.
        """
        self.now = now
        for index in (self._level_ends, self._back_off_ends, self._ageing):
            for job_id in index.take_up_to(now):
                self.upsert_job(self.jobs[job_id])

    def _group_of(self, job: Job) -> dict[str, Job] | None:
        """Return which of the groups of jobs the job is in, or None."""
        if job.phase is Phase.PAUSING:
            return self.pausing
        if job.phase is Phase.WAITING and job.reserved:
            return self.awaiting
        if job.phase is not Phase.RUNNING:
            return None
        if len(job.placement) < job.min_workers:
            return self.incomplete
        return self.growing if job.preemptible and len(job.placement) < job.workers else None

    def _is_queued(self, job: Job) -> bool:
        """Tell whether the job is in a queue at present."""
        return job.phase is Phase.WAITING and not job.reserved and job.not_before <= self.now

    def _count(self, job: Job, sign: int) -> None:
        leaf = self.tree.leaves.get(job.project)
        if leaf is None or job.phase is Phase.HELD:
            return
        held = job.held_gpus
        claimed = held if job.phase is Phase.RUNNING else len(job.reserved) * job.gpus
        if held or claimed:
            self.tree.add_usage(leaf, sign * claimed, preemptible=job.preemptible, held=sign * held)
        requested = 0
        if held or job.reserved or not self.rank_of(job.gpu_types):
            requested = max(held, job.workers * job.gpus)
        self.tree.add_request(leaf, sign * requested, self._levels.get(job.id, 0))
        self.changed_projects.add(leaf)

    # ---------- order and service

    def _enqueue(self, job: Job, moved_up: int) -> None:
        least_served = self.settings.order is Order.LEAST_SERVED
        key = _queue_key(job, service_rank_of(job, moved_up) if least_served else 0)
        self._queue_keys[job.id] = key
        scheduling_class = scheduling_class_of(job)
        self.queues[job.project].add(scheduling_class, key)
        self.constraint_counts[scheduling_class.constraints] += 1
        if job.time_limit is not None:
            self.time_limited.add((job.time_limit, job.submitted, job.id))

    def _moved_up(self, job: Job) -> int:
        """Return how many levels of service the waiting of a job makes up for; note when that changes.

        It makes up for none during a back-off.
        """
        if job.not_before > self.now and not job.reserved:
            self._back_off_ends.set(job.id, job.not_before)
            return 0
        if not self._by_service if job.reserved else self.settings.order is Order.FIRST_COME:
            return 0
        moved_up = aged(job, self.now + ROUNDING)
        if service_rank_of(job, moved_up):
            self._ageing.set(job.id, waiting_since(job) + (moved_up + 1) * AGEING_PER_LEVEL)
        return moved_up

    def _level(self, job: Job, moved_up: int) -> int:
        """Return the level of service that counts in the shares; note when that of a running job ends."""
        level = max(0, level_of(job) - moved_up)
        if job.started is not None and job.placement:
            while (end := beyond(job, level)) <= self.now:
                level += 1
            self._level_ends.set(job.id, end)
        return level

    def next_level(self) -> float:
        """Return when a running job has so much service that it may have to give way to others, or infinity."""
        waits = any(queues.by_class for queues in self.queues.values())
        return self._level_ends.first() if waits else inf

    def next_back_off_end(self) -> float:
        """Return the end of the next back-off, or infinity."""
        return self._back_off_ends.first()

    def queue_position(self, job: Job) -> int:
        """Return the job's position among the waiting jobs of its project, counted from 1."""
        queues = self.queues.get(job.project)
        key = self._queue_keys.get(job.id) or _queue_key(job, service_rank_of(job))
        return 1 if queues is None else queues.before(key) + 1

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
        return {self.rank_of(gpu_types) for gpu_types in {each.gpu_types for each in self.constraint_counts}}

    @property
    def shares_jobs(self) -> bool:
        """Whether a waiting job accepts other types of the pool, too."""
        return any(map(self.accepts_several, {each.gpu_types for each in self.constraint_counts}))

    def accepts_several(self, gpu_types: tuple[str, ...]) -> bool:
        """Tell whether a job with these accepted types can run on several types of the pool."""
        return len(self.types) > 1 and len(accepted_types(gpu_types, self.types)) > 1

    def leaf_of(self, job: Job) -> ProjectNode:
        """Return the project that the job counts for. Raises `KeyError` if it is unknown."""
        return self.tree.leaves[job.project]

    def update_shares(self) -> None:
        """Bring the fair shares up to date."""
        if self.tree.dirty:
            self.tree.dirty = False
            total, by_service = self.pool.total, self._by_service
            self.changed_projects.update(divide_below(total, self.tree.roots, by_service=by_service))

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
            gpus = len(job.reserved) * job.gpus
            self.tree.add_usage(self.leaf_of(job), sign * gpus, preemptible=job.preemptible)


def _queue_key(job: Job, rank: int) -> QueueKey:
    return (-job.priority, rank, job.submitted, job.id)
