"""The policy of static quotas: each project stays within its quota, first in first out with backfill."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from springtide.scheduler.gpu_types import total
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
    Worker,
)

STARTED = Reason("started", {})


class StaticPlanner:
    """Starts the jobs of each project in order of submission as long as they fit into its quota.

    Later jobs may start before a job that does not fit. No job is ever paused; priorities, trees and limits are
    ignored. The nodes are those of the snapshot and never change.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._quota = {project.name: total(project.quota) for project in snapshot.projects}
        self._held = dict.fromkeys(self._quota, 0)
        self._queues: dict[str, list[tuple[float, str]]] = {name: [] for name in self._quota}
        self._free = {node.name: _gpus(node) for node in snapshot.nodes if node.available}
        self._jobs: dict[str, Job] = {}
        self._stirred = set(self._quota)
        for job in snapshot.jobs:
            self.apply(JobChanged(job))

    def fits_quota(self, job: Job) -> bool:
        """Return whether the job can run at all: its gang is no larger than its project's quota."""
        quota = self._quota[job.project]
        return quota is None or job.workers * job.gpus <= quota

    def apply(self, change: Change) -> None:
        """Record a job that was submitted, started or ended. Raise `TypeError` for any other change."""
        match change:
            case JobChanged(job):
                self._forget(job.id)
                self._learn(job)
            case JobRemoved(job_id):
                self._forget(job_id)
            case _:
                raise TypeError(f"static quotas do not change: {change!r}")

    def plan(self, now: float) -> Plan:
        """Return the starts of all jobs that fit. ``now`` is ignored."""
        del now
        starts: list[Start] = []
        taken: dict[str, int] = {}
        for project in sorted(self._stirred):
            starts += self._starts(project, taken)
        self._stirred = set()
        return Plan(tuple(starts))

    def _forget(self, job_id: str) -> None:
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        if job.phase is Phase.WAITING:
            self._queues[job.project].remove((job.submitted, job.id))
        for worker in job.placement:
            self._free[worker.node].extend(worker.gpus)
        self._held[job.project] -= job.held_gpus
        if job.placement:
            self._stirred.add(job.project)

    def _learn(self, job: Job) -> None:
        self._jobs[job.id] = job
        for worker in job.placement:
            self._free[worker.node] = [gpu for gpu in self._free[worker.node] if gpu not in worker.gpus]
        self._held[job.project] += job.held_gpus
        if job.phase is Phase.WAITING:
            insort(self._queues[job.project], (job.submitted, job.id))
            self._stirred.add(job.project)

    def _starts(self, project: str, taken: dict[str, int]) -> Iterator[Start]:
        quota = self._quota[project]
        left = float("inf") if quota is None else quota - self._held[project]
        too_large = float("inf")
        for _, job_id in self._queues[project]:
            if left <= 0:
                return
            job = self._jobs[job_id]
            size = job.workers * job.gpus
            if size > left or size >= too_large:
                continue
            placement = self._place(job, taken)
            if placement is None:
                too_large = size
                continue
            for worker in placement:
                taken[worker.node] = taken.get(worker.node, 0) + job.gpus
            left -= size
            yield Start(job_id, placement, STARTED)

    def _place(self, job: Job, taken: dict[str, int]) -> Placement | None:
        """Return the placement of the gang on the fullest nodes that hold its workers, None if there is none."""
        rooms = sorted(
            (len(free) - taken.get(name, 0), name)
            for name, free in self._free.items()
            if len(free) - taken.get(name, 0) >= job.gpus
        )
        workers: list[Worker] = []
        for room, name in rooms:
            first = taken.get(name, 0)
            free = sorted(self._free[name])
            for number in range(min(room // job.gpus, job.workers - len(workers))):
                at = first + number * job.gpus
                workers.append(Worker(len(workers), name, tuple(free[at : at + job.gpus])))
            if len(workers) == job.workers:
                return tuple(workers)
        return None


def _gpus(node: Node) -> list[int]:
    return [index for index in range(node.gpus) if index not in node.taken]
