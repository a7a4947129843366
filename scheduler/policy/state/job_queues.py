"""The waiting jobs of each project, in order, grouped by their requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from sortedcontainers import SortedList

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.service import level_of
from springtide.scheduler.resources.per_gpu import PerGpu


class PlacementConstraints(NamedTuple):
    """All that decides whether the free GPUs hold a job.

    ``per_gpu`` is its request with each GPU, ``avoid`` are the nodes on which it must not start now.
    """

    gpus: int
    min_workers: int
    gpu_types: tuple[str, ...]
    require: str | None
    prefer: str | None
    per_gpu: PerGpu
    avoid: frozenset[str]

    @property
    def need(self) -> int:
        """The GPUs that a job with these constraints needs to start."""
        return self.gpus * self.min_workers

    def as_job(self) -> Job:
        """Return a job with these constraints, of no project."""
        return Job(id="", project="", workers=self.min_workers, **self._asdict())


class SchedulingClass(NamedTuple):
    """All that decides whether and where a job can start in its project, and which jobs may be evicted for it.

    Jobs of one class share one queue. ``service_level`` is the level of their service, whatever their waiting
    time.
    """

    constraints: PlacementConstraints
    preemptible: bool
    service_level: int

    @property
    def need(self) -> int:
        """The GPUs that a job of the class needs to start."""
        return self.constraints.need


QueueKey = tuple[int, int, float, str]
"""A job's place among those of its project: priority, service rank, age, id. The smallest goes first."""


def scheduling_class_of(job: Job) -> SchedulingClass:
    """Return the class of the job's request."""
    constraints = PlacementConstraints(
        job.gpus, job.min_workers, job.gpu_types, job.require, job.prefer, job.per_gpu, job.avoid
    )
    return SchedulingClass(constraints, job.preemptible, level_of(job))


class JobQueues:
    """The queues of one project. ``smallest`` is the least number of GPUs that one of its jobs needs to start."""

    def __init__(self) -> None:
        self.by_class: defaultdict[SchedulingClass, SortedList] = defaultdict(SortedList)
        self.smallest = 0
        self._heads: list[tuple[QueueKey, SchedulingClass]] | None = None

    def add(self, scheduling_class: SchedulingClass, key: QueueKey) -> None:
        """Add a job to its queue."""
        self.by_class[scheduling_class].add(key)
        self.smallest = min(self.smallest or scheduling_class.need, scheduling_class.need)
        self._heads = None

    def remove(self, scheduling_class: SchedulingClass, key: QueueKey) -> None:
        """Remove a job from its queue."""
        queue = self.by_class[scheduling_class]
        queue.remove(key)
        if not queue:
            del self.by_class[scheduling_class]
            self.smallest = min((other.need for other in self.by_class), default=0)
        self._heads = None

    def heads(self) -> Sequence[tuple[QueueKey, SchedulingClass]]:
        """Return the first job of every queue, in order."""
        if self._heads is None:
            self._heads = sorted((queue[0], scheduling_class) for scheduling_class, queue in self.by_class.items())
        return self._heads

    def before(self, key: QueueKey) -> int:
        """Return the number of jobs before this key."""
        return sum(queue.bisect_left(key) for queue in self.by_class.values())
