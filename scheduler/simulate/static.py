"""The policy of static quotas: each project stays within its quota, first in first out with backfill."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace

from sortedcontainers import SortedList

from springtide.scheduler.gpu_types import accepted_types, pool_types, quota_of
from springtide.scheduler.model import (
    Change,
    Job,
    JobChanged,
    JobRemoved,
    Node,
    Phase,
    Placement,
    Plan,
    Reason,
    Snapshot,
    Start,
    UseKey,
    Worker,
)
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

STARTED = Reason("started", {})


Queue = tuple[str, str]
"""A project and a GPU type."""

Shape = tuple[int, int, PerGpu]
"""Number of workers, and what each of them requests: if one job does not fit, no other of its shape does."""


class StaticPlanner:
    """Starts the jobs of each project in order of submission as long as they fit into its quota.

    Later jobs may start before a job that does not fit. A job belongs to the first GPU type that it accepts and of
    which its project has quota enough. No job is ever paused; priorities, trees and limits are ignored. The nodes
    are those of the snapshot and never change.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        nodes = [node for node in snapshot.nodes if node.available]
        self._types = pool_types(nodes, snapshot.settings.gpu_types)
        self._quota = {
            (project.name, gpu_type): quota_of(project, gpu_type, self._types)
            for project in snapshot.projects
            for gpu_type in self._types
        }
        self._held = dict.fromkeys(self._quota, 0)
        self._queues: dict[Queue, defaultdict[Shape, SortedList]] = {
            queue: defaultdict(SortedList) for queue in self._quota
        }
        self._free = {
            gpu_type: {node.name: _gpus(node) for node in nodes if node.gpu_type == gpu_type}
            for gpu_type in self._types
        }
        self._per_gpu = {node.name: node.per_gpu for node in nodes}
        self._type_of = {node.name: node.gpu_type for node in nodes}
        self._jobs: dict[str, Job] = {}
        self._stirred = set(self._quota)
        for job in snapshot.jobs:
            self.apply(JobChanged(job))

    def fits_quota(self, job: Job) -> bool:
        """Return whether the job can run at all: its gang is no larger than its project's quota of a type."""
        return self._queue_of(job) is not None

    def apply(self, change: Change) -> None:
        """Record a job that was submitted, started or ended. Raises `TypeError` for any other change."""
        match change:
            case JobChanged(job):
                before = self._jobs.get(job.id)
                if before is not None and before.is_renewed(job):
                    self._renew(job)
                else:
                    self._forget(job.id)
                    self._learn(job)
            case JobRemoved(job_id):
                self._forget(job_id)
            case _:
                raise TypeError(f"static quotas do not change: {change!r}")

    def take_borrowing(self) -> Mapping[UseKey, int]:
        """Return that no project borrows."""
        return {}

    def plan(self, now: float) -> Plan:
        """Return the starts of all jobs that fit. ``now`` is ignored."""
        del now
        starts: list[Start] = []
        taken: dict[str, int] = {}
        for queue in sorted(self._stirred):
            starts += self._starts(queue, taken)
        self._stirred = set()
        return Plan(tuple(starts))

    def _queue_of(self, job: Job) -> Queue | None:
        """Return the project and the type that the job counts for; None if no quota holds it."""
        if job.placement:
            return (job.project, self._type_of[job.placement[0].node])
        for gpu_type in accepted_types(job.gpu_types, self._types):
            quota = self._quota[job.project, gpu_type]
            if quota is None or job.workers * job.gpus <= quota:
                return (job.project, gpu_type)
        return None

    def _renew(self, job: Job) -> None:
        self._jobs[job.id] = job
        if (queue := self._queue_of(job)) is not None:
            self._stirred.add(queue)

    def _forget(self, job_id: str) -> None:
        job = self._jobs.pop(job_id, None)
        queue = None if job is None else self._queue_of(job)
        if job is None or queue is None:
            return
        if job.phase is Phase.WAITING:
            line = self._queues[queue][_shape(job)]
            line.remove((job.submitted, job.id))
            if not line:
                del self._queues[queue][_shape(job)]
        for worker in job.placement:
            self._free[queue[1]][worker.node].extend(worker.gpus)
        self._held[queue] -= job.held_gpus
        if job.placement:
            self._stirred.add(queue)

    def _learn(self, job: Job) -> None:
        self._jobs[job.id] = job
        queue = self._queue_of(job)
        if queue is None:
            return
        free = self._free[queue[1]]
        for worker in job.placement:
            free[worker.node] = [gpu for gpu in free[worker.node] if gpu not in worker.gpus]
        self._held[queue] += job.held_gpus
        if job.phase is Phase.WAITING:
            self._queues[queue][_shape(job)].add((job.submitted, job.id))
            self._stirred.add(queue)

    def _starts(self, queue: Queue, taken: dict[str, int]) -> Iterator[Start]:
        quota = self._quota[queue]
        left = float("inf") if quota is None else quota - self._held[queue]
        too_large = float("inf")
        lines = [iter(line) for line in self._queues[queue].values()]
        first = [(*next(line), at) for at, line in enumerate(lines)]
        heapify(first)
        while first and left > 0:
            _, job_id, at = first[0]
            job = self._jobs[job_id]
            size = job.workers * job.gpus
            fits = size <= left and size < too_large
            placement = self._place(job, self._free[queue[1]], taken) if fits else None
            if placement is None:
                if fits and job.per_gpu == UNSPECIFIED:
                    too_large = size
                heappop(first)
                continue
            for worker in placement:
                taken[worker.node] = taken.get(worker.node, 0) + job.gpus
            left -= size
            yield Start(job_id, placement, STARTED)
            following = next(lines[at], None)
            if following is None:
                heappop(first)
            else:
                heapreplace(first, (*following, at))

    def _place(self, job: Job, free_gpus: dict[str, list[int]], taken: dict[str, int]) -> Placement | None:
        """Return the placement of the gang on the fullest nodes that hold its workers, None if there is none."""
        anywhere = job.per_gpu == UNSPECIFIED
        rooms = sorted(
            (room, name)
            for name, free in free_gpus.items()
            if (room := len(free) - taken.get(name, 0)) >= job.gpus
            and (anywhere or self._per_gpu[name].holds(job.per_gpu))
        )
        workers: list[Worker] = []
        for room, name in rooms:
            first = taken.get(name, 0)
            free = sorted(free_gpus[name])
            for number in range(min(room // job.gpus, job.workers - len(workers))):
                at = first + number * job.gpus
                workers.append(Worker(len(workers), name, tuple(free[at : at + job.gpus])))
            if len(workers) == job.workers:
                return tuple(workers)
        return None


def _shape(job: Job) -> Shape:
    return job.workers, job.gpus, job.per_gpu


def _gpus(node: Node) -> list[int]:
    return [index for index in range(node.gpus) if index not in node.taken]
