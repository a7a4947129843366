"""The policy's state for the GPUs of one type, in indexes updated job by job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView, Sequence
from math import inf, nextafter
from typing import NamedTuple

from msgspec.structs import replace

from springtide.scheduler import timetable
from springtide.scheduler.gpu_types import accepted_types
from springtide.scheduler.model import Job, Node, Order, Phase, Project, RecentUse, Settings, Surplus, UseKey
from springtide.scheduler.policy.state import demand
from springtide.scheduler.policy.state.fair_share import divide_below
from springtide.scheduler.policy.state.job_queues import (
    JobQueues,
    PlacementConstraints,
    QueueKey,
    SchedulingClass,
    scheduling_class_of,
)
from springtide.scheduler.policy.state.nodes import NodePool
from springtide.scheduler.policy.state.projects import ProjectNode, ProjectTree
from springtide.scheduler.policy.state.running_jobs import RunningJobs
from springtide.scheduler.policy.state.service import (
    AGEING_PER_LEVEL,
    aged,
    awaits_turn_since,
    beyond,
    level_of,
    service_rank_of,
    waiting_since,
)
from springtide.scheduler.policy.state.sorted_index import SortedIndex
from springtide.scheduler.policy.state.undo import UndoLog


class JobRequest(NamedTuple):
    """What a job adds to the request of its project, at a level of service."""

    leaf: ProjectNode
    gpus: int
    level: int


class ClusterState:
    """Nodes with GPUs of one type, the jobs that run on them or wait and accept that type, and all projects.

    ``types`` are all GPU types of the pool in its order, ``gpu_type`` is the type of these nodes. Projects have
    the plain numbers of this type. Usual run times count only if the surplus is divided fairly, not by service.

    ``queues`` and ``running`` hold the waiting and the preemptible running jobs by project; a waiting job that
    cannot run on the pool as it is has no place in a queue and no demand. ``pausing`` jobs are stopping,
    ``awaiting`` jobs have a reservation, ``partial`` jobs run with fewer workers than they want, ``in_turn`` jobs
    run and started in their turn. ``time_limits`` has the time limits of the queued jobs, ``waits`` the times
    since when they wait for a turn, in seconds. ``changed_jobs`` are the jobs added or removed since the memo last
    read them, ``changed_projects`` the projects whose queues, usage or shares have changed since,
    ``renewed_projects`` the
    names of those in which usual run times or last checkpoints of jobs have. ``now`` is the time of the indexes,
    in seconds. ``undo`` records changes of usage and GPUs. ``leaving`` are the running jobs whose nodes close so
    soon that they have to leave.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        projects: Iterable[Project],
        settings: Settings,
        *,
        gpu_type: str = "",
        types: Sequence[str] = ("",),
        now: float = 0.0,
    ) -> None:
        self.settings = settings
        self.gpu_type = gpu_type
        self.types = tuple(types)
        self.now = now
        self.undo = UndoLog()
        nodes = tuple(nodes)
        leaves = {node.name: timetable.leaves_at(node, now, settings) for node in nodes if node.closed}
        self.pool = NodePool(nodes, self.undo, {name: at for name, at in leaves.items() if at < inf})
        self.tree = ProjectTree(projects, settings.surplus, self.undo)
        self.jobs: dict[str, Job] = {}
        self.constraint_counts: Counter[PlacementConstraints] = Counter()
        self.queues = {name: JobQueues() for name in self.tree.leaves}
        self.running = {name: RunningJobs(self.pool.by_name, settings.min_runtime) for name in self.tree.leaves}
        self.pausing: dict[str, Job] = {}
        self.awaiting: dict[str, Job] = {}
        self.partial: dict[str, Job] = {}
        self.in_turn: dict[str, Job] = {}
        self.leaving: dict[str, Job] = {}
        self.changed_jobs: list[Job] = []
        self.changed_projects: set[ProjectNode] = set()
        self.renewed_projects: set[str] = set()
        self._touched = {*self.tree.project_nodes.values(), *self.tree.leaves.values()}
        self._by_service = settings.surplus is Surplus.LEAST_SERVED
        self._levels: dict[str, int] = {}
        self._demands: dict[str, int] = {}
        self._requests: dict[str, JobRequest] = {}
        self._places: dict[str, tuple[QueueKey, SchedulingClass]] = {}
        self._due = SortedIndex()
        self.time_limits = SortedIndex()
        self.waits = SortedIndex()

    # ---------- updates

    def upsert_job(self, job: Job) -> None:
        """Add a job, or replace it."""
        if self._by_service and job.usual_runtime is not None:
            expected = job.usual_runtime if job.expected is None else job.expected
            job = replace(job, usual_runtime=None, expected=expected)
        if self.pool.closing:
            job = replace(job, avoid=self.avoided(job))
        before = self.jobs.get(job.id)
        if before is not None and before.is_renewed(job):
            self._renew_job(before, job)
        else:
            self._replace_job(job)

    def _replace_job(self, job: Job) -> None:
        self._take_out(job.id)
        self.jobs[job.id] = job
        self._demands[job.id] = self._demand(job)
        self.pool.occupy(job.id, job.placement)
        self.pool.reserve(job.reserved)
        moved_up = self._moved_up(job)
        if self._by_service:
            self._levels[job.id] = self._level(job, moved_up)
        self._put_in_groups(job)
        if job.project in self.tree.leaves:
            if job.phase is Phase.RUNNING and job.preemptible:
                self.running[job.project].add(job)
            elif self._stands_in_line(job):
                self._enqueue(job, moved_up)
        if self.pool.closing:
            self._look_at_closing(job)
        self._count(job, 1)
        self._set_request(job.id, self._request_of(job))

    def avoided(self, job: Job) -> frozenset[str]:
        """Return the nodes that close so soon that the job must not start there now."""
        settings, now = self.settings, self.now
        return frozenset(
            name for name, at in self.pool.closing.items() if now > timetable.latest_start(job, at, settings)
        )

    def _look_at_closing(self, job: Job) -> None:
        """Note whether the job has to leave nodes that close; record when that, or where it may start, changes."""
        mine = {worker.node for worker in job.placement if worker.node in self.pool.closing}
        if job.phase is Phase.RUNNING and mine:
            leaves = min(self.pool.closing[name] for name in mine)
            if leaves <= self.now:
                self.leaving[job.id] = job
            else:
                self._look_again(job, leaves)
        starts = (timetable.latest_start(job, at, self.settings) for at in self.pool.closing.values())
        last = min((start for start in starts if start >= self.now), default=inf)
        self._look_again(job, nextafter(last, inf))

    def _look_again(self, job: Job, at: float) -> None:
        """Record when time changes the job, unless it changes before that."""
        if at < self._due.of(job.id):
            self._due.set(job.id, at)

    def _renew_job(self, before: Job, job: Job) -> None:
        """Replace a job of which only the usual run time and the last checkpoint may have changed.

        These decide about its place among waiting or running jobs, and about nothing else.
        """
        self.jobs[job.id] = job
        self._put_in_groups(job)
        if job.phase is Phase.WAITING:
            self._due.discard(job.id)
            moved_up = self._moved_up(job)
            if job.id in self._places:
                if self._place_in_line(job, moved_up) != self._places[job.id]:
                    self._dequeue(job)
                    self._enqueue(job, moved_up)
                if self.pool.closing:
                    self._look_at_closing(job)
                self.changed_projects.add(self.tree.leaves[job.project])
        elif job.phase is Phase.RUNNING and job.preemptible and job.project in self.running:
            self.running[job.project].renew(before, job)
        self.renewed_projects.add(job.project)

    def _put_in_groups(self, job: Job) -> None:
        if (group := self._group_of(job)) is not None:
            group[job.id] = job
        if job.turn and job.phase is Phase.RUNNING and job.project in self.tree.leaves:
            self.in_turn[job.id] = job

    def remove_job(self, job_id: str) -> None:
        """Remove a job, if it exists."""
        self._take_out(job_id)
        self._set_request(job_id, None)

    def _take_out(self, job_id: str) -> None:
        """Remove a job from everything but the requests, which often stay the same if it is replaced."""
        job = self.jobs.pop(job_id, None)
        if job is None:
            return
        self._count(job, -1)
        self.pool.vacate(job.id, job.placement)
        self.pool.unreserve(job.reserved)
        if job.id in self._places:
            self._dequeue(job)
        elif job.phase is Phase.RUNNING and job.preemptible and job.project in self.running:
            self.running[job.project].remove(job)
        groups = (self.pausing, self.awaiting, self.partial, self.in_turn, self.leaving)
        for by_id in (*groups, self._levels, self._demands):
            by_id.pop(job_id, None)
        self._due.discard(job_id)

    def pass_time(self, now: float) -> None:
        """Update the jobs that time has changed, to ``now`` in seconds.

        These are jobs at the end of their back-off, waiting jobs that move up by age, and running jobs that reach
        the next level of service.
        """
        self.now = now
        for job_id in self._due.take_up_to(now):
            job = self.jobs[job_id]
            self._replace_job(replace(job, avoid=self.avoided(job)) if self.pool.closing else job)

    def next_due(self) -> float:
        """Return when time changes a job next, or infinity."""
        return self._due.first()

    def _group_of(self, job: Job) -> dict[str, Job] | None:
        """Return the group that the job belongs to, or None."""
        if job.phase is Phase.PAUSING:
            return self.pausing
        if job.phase is Phase.WAITING and job.reserved:
            return self.awaiting
        return self.partial if job.phase is Phase.RUNNING and len(job.placement) < job.workers else None

    def _count(self, job: Job, sign: int) -> None:
        """Add the job's usage to its project, or subtract it; the change is permanent."""
        leaf = self.tree.leaves.get(job.project)
        if leaf is not None and job.phase is not Phase.HELD:
            held = job.held_gpus
            claimed = held if job.phase is Phase.RUNNING else len(job.reserved) * job.gpus
            if held or claimed:
                self.tree.add_usage(leaf, sign * claimed, preemptible=job.preemptible, held=sign * held)
            self.changed_projects.add(leaf)
            if held:
                self._touched.update(leaf.path)
        self.changed_jobs.append(job)
        self.undo.commit()
        self.tree.changed.clear()

    def _request_of(self, job: Job) -> JobRequest | None:
        """Return what the job adds to the request of its project, None if nothing."""
        leaf = self.tree.leaves.get(job.project)
        if leaf is None or job.phase is Phase.HELD:
            return None
        held, reserved = job.held_gpus, len(job.reserved) * job.gpus
        if not held and not reserved and self.rank_of(job.gpu_types):
            return None
        gpus = max(held, reserved, self._demands[job.id])
        return JobRequest(leaf, gpus, self._levels.get(job.id, 0)) if gpus else None

    def _set_request(self, job_id: str, request: JobRequest | None) -> None:
        """Set what the job adds to a request. Shares stay as they are if it is what the job has added before."""
        before = self._requests.pop(job_id, None)
        if request is not None:
            self._requests[job_id] = request
        if request == before:
            return
        if before is not None:
            self.tree.add_request(before.leaf, -before.gpus, before.level)
        if request is not None:
            self.tree.add_request(*request)

    def set_use(self, use: RecentUse) -> None:
        """Set the recent use of a project."""
        if (node := self.tree.set_use(use, self.settings.use_half_life)) is not None:
            self.changed_projects.add(node)

    def take_borrowing(self) -> dict[UseKey, int]:
        """Return the borrowed GPUs of the projects whose jobs have changed since the last call."""
        touched, self._touched = self._touched, set()
        return {
            UseKey(leaf.name, self.gpu_type, self.tree.is_own(leaf)): max(0, leaf.held - leaf.quota)
            for leaf in touched
        }

    def could_run(self, job: Job) -> bool:
        """Return whether the job could run on the GPUs of this type, if nothing else did."""
        known = self.jobs.get(job.id) is job
        return (self._demands[job.id] if known else self._demand(job)) > 0

    def _demand(self, job: Job) -> int:
        """Return the job's demand in GPUs: the most that it could have, 0 if it can never run."""
        leaf = self.tree.leaves.get(job.project)
        if leaf is None:
            return 0
        most = demand.most_workers(self.pool, leaf, job)
        return most * job.gpus if most >= job.min_workers else 0

    def _stands_in_line(self, job: Job) -> bool:
        waits = job.phase is Phase.WAITING and not job.reserved and job.not_before <= self.now
        return waits and self.could_run(job)

    # ---------- order and service

    def _enqueue(self, job: Job, moved_up: int) -> None:
        key, scheduling_class = self._places[job.id] = self._place_in_line(job, moved_up)
        self.queues[job.project].add(scheduling_class, key)
        self.constraint_counts[scheduling_class.constraints] += 1
        self.waits.set(job.id, awaits_turn_since(job))
        if job.time_limit is not None:
            self.time_limits.set(job.id, job.time_limit)

    def _place_in_line(self, job: Job, moved_up: int) -> tuple[QueueKey, SchedulingClass]:
        """Return the job's place among those of its class, and the class."""
        least_served = self.settings.order is Order.LEAST_SERVED
        return _queue_key(job, service_rank_of(job, moved_up) if least_served else 0), scheduling_class_of(job)

    def _dequeue(self, job: Job) -> None:
        key, scheduling_class = self._places.pop(job.id)
        self.queues[job.project].remove(scheduling_class, key)
        self.constraint_counts[scheduling_class.constraints] -= 1
        if not self.constraint_counts[scheduling_class.constraints]:
            del self.constraint_counts[scheduling_class.constraints]
        self.time_limits.discard(job.id)
        self.waits.discard(job.id)

    def _moved_up(self, job: Job) -> int:
        """Return the levels of service that a job's waiting time offsets; record when that changes.

        It is 0 during a back-off, and constant while the job runs.
        """
        if job.phase is not Phase.WAITING:
            return aged(job, job.started)
        if job.not_before > self.now and not job.reserved:
            self._due.set(job.id, job.not_before)
            return 0
        if not self._by_service if job.reserved else self.settings.order is Order.FIRST_COME:
            return 0
        moved_up = aged(job, self.now)
        if service_rank_of(job, moved_up):
            self._due.set(job.id, waiting_since(job) + (moved_up + 1) * AGEING_PER_LEVEL)
        return moved_up

    def _level(self, job: Job, moved_up: int) -> int:
        """Return the level of service that counts in the shares; record when a running job leaves it."""
        level = max(0, level_of(job) - moved_up)
        if job.started is not None and job.placement:
            while (end := beyond(job, level)) <= self.now:
                level += 1
            self._due.set(job.id, end)
        return level

    def queue_position(self, job: Job) -> int | None:
        """Return the job's position among the waiting jobs of its project, from 1; None if it cannot run."""
        if not self.could_run(job):
            return None
        place = self._places.get(job.id)
        key = _queue_key(job, service_rank_of(job)) if place is None else place[0]
        return self.queues[job.project].before(key) + 1

    # ---------- queries

    @property
    def queued(self) -> KeysView[str]:
        """The ids of the waiting jobs that have a place in a queue."""
        return self._places.keys()

    @property
    def goes_by_run_times(self) -> bool:
        """Whether usual run times decide among the equal jobs of a project."""
        return self.settings.order is Order.LEAST_SERVED and not self._by_service

    def rank_of(self, gpu_types: tuple[str, ...]) -> int:
        """Return the position of this GPU type among the pool's types that a job accepts, 0 for the first."""
        if len(self.types) == 1:
            return 0
        accepted = accepted_types(gpu_types, self.types)
        return accepted.index(self.gpu_type) if self.gpu_type in accepted else 0

    @property
    def ranks(self) -> set[int]:
        """The positions of this GPU type among those that waiting jobs accept, the first one always included."""
        if len(self.types) == 1:
            return {0}
        return {0, *(self.rank_of(constraints.gpu_types) for constraints in self.constraint_counts)}

    def accepts_several(self, gpu_types: tuple[str, ...]) -> bool:
        """Return whether a job with these accepted types can run on several types of the pool."""
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

    # ---------- trials

    def release(self, job: Job) -> None:
        """Free the GPUs reserved for the job of a known project."""
        self.pool.unreserve(job.reserved)
        self.tree.add_usage(self.leaf_of(job), -len(job.reserved) * job.gpus, preemptible=job.preemptible)

    def restore(self, job: Job) -> None:
        """Reserve the GPUs again after `release`."""
        self.pool.reserve(job.reserved)
        self.tree.add_usage(self.leaf_of(job), len(job.reserved) * job.gpus, preemptible=job.preemptible)


def _queue_key(job: Job, rank: int) -> QueueKey:
    return (-job.priority, rank, job.submitted, job.id)
