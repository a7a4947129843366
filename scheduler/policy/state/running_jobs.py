"""The running jobs of each project that may give way, in the order in which they would."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sortedcontainers import SortedList

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.nodes import NodeState
from springtide.scheduler.policy.state.service import beyond
from springtide.scheduler.policy.state.sorted_index import SortedIndex

EvictionKey = tuple[float, int, float, float, str]
"""Among jobs with equally many GPUs: last saved, priority, start, submission, id; the smallest gives way first."""

LOST_WORK_STEP = 120.0
"""Seconds in whose steps lost work is compared: what jobs save in less than that of each other is the same."""


def _fresh_since(job: Job) -> float:
    """Since when the job has done work that a pause would lose."""
    return max(job.started or 0.0, job.saved or 0.0)


def _fresh_step(job: Job) -> float:
    return _fresh_since(job) // LOST_WORK_STEP * LOST_WORK_STEP


def eviction_key(job: Job) -> EvictionKey:
    """The job's rank among those with equally many GPUs: the least work to lose, whatever the time, first."""
    return (-_fresh_step(job), job.priority, -(job.started or 0.0), -job.submitted, job.id)


def least_lost(key: EvictionKey, gpus: int, now: float) -> float:
    """`work_lost` by a job of this rank, or a little less."""
    fresh_for = now + key[0]
    return gpus * fresh_for if fresh_for >= 2 * LOST_WORK_STEP else 0.0


def work_lost(job: Job, now: float) -> float:
    """GPU-seconds of work that a pause at ``now`` would lose, in coarse steps: none if it is saved or new."""
    if now - _fresh_since(job) < LOST_WORK_STEP:
        return 0.0
    return job.held_gpus * (now - _fresh_step(job))


class RunningJobs:
    """The preemptible running jobs of one project, by how many GPUs they hold and by priority.

    ``on_node`` tells how many GPUs they hold on each node, by its rank among all ``node_states``. A job that can
    be rotated is ripe for a step of service once its own service is beyond that step and its minimum run time, in
    seconds, is over.
    """

    def __init__(self, node_states: Mapping[str, NodeState], min_runtime: float) -> None:
        self._node_states = node_states
        self._min_runtime = min_runtime
        self.by_gpus: defaultdict[int, SortedList] = defaultdict(SortedList)
        self.by_priority = SortedIndex()
        self.on_node: dict[int, int] = {}
        self._rotating: dict[str, Job] = {}
        self._ripe_times: dict[int, SortedIndex] = {}

    def add(self, job: Job) -> None:
        """Add a job that runs."""
        self.by_gpus[job.held_gpus].add(eviction_key(job))
        self.by_priority.set(job.id, job.priority)
        if job.rotate and job.started is not None and job.placement:
            self._rotating[job.id] = job
            for level, times in self._ripe_times.items():
                times.set(job.id, self._ripe_time(job, level))
        self._count(job, 1)

    def remove(self, job: Job) -> None:
        """Remove a job."""
        keys = self.by_gpus[job.held_gpus]
        keys.remove(eviction_key(job))
        if not keys:
            del self.by_gpus[job.held_gpus]
        for index in (self.by_priority, *self._ripe_times.values()):
            index.discard(job.id)
        self._rotating.pop(job.id, None)
        self._count(job, -1)

    def ripe_times(self, level: int) -> SortedIndex:
        """Return when each job that can be rotated is ripe for a step of service."""
        if level not in self._ripe_times:
            times = {job.id: self._ripe_time(job, level) for job in self._rotating.values()}
            self._ripe_times[level] = SortedIndex(times)
        return self._ripe_times[level]

    def slots(self, gpus: int, beside: int) -> int:
        """Return how many workers with ``gpus`` each fit in their place, if ``beside`` are free on each node."""
        return sum((held + beside) // gpus for held in self.on_node.values())

    def _ripe_time(self, job: Job, level: int) -> float:
        return max(beyond(job, level), (job.started or 0.0) + self._min_runtime)

    def _count(self, job: Job, sign: int) -> None:
        for worker in job.placement:
            node = self._node_states.get(worker.node)
            if node is not None:
                held = self.on_node.get(node.index, 0) + sign * len(worker.gpus)
                if held:
                    self.on_node[node.index] = held
                else:
                    del self.on_node[node.index]
