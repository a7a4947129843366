"""The running jobs of each project that may give way, in the order in which they would."""

from __future__ import annotations

from collections.abc import Mapping

from sortedcontainers import SortedList

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.nodes import NodeState
from springtide.scheduler.policy.state.service import RotationIndex

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

    ``rotation`` tells when they may have to give way to equal ones, ``on_node`` how many GPUs they hold on each
    node, by its rank among all ``node_states``.
    """

    def __init__(self, node_states: Mapping[str, NodeState], min_runtime: float) -> None:
        self._node_states = node_states
        self.by_gpus: dict[int, SortedList] = {}
        self.by_priority: dict[int, dict[str, Job]] = {}
        self.rotation = RotationIndex(min_runtime)
        self.on_node: dict[int, int] = {}
        self._slots: dict[tuple[int, int], int] = {}

    def add(self, job: Job) -> None:
        """A job runs."""
        keys = self.by_gpus.get(job.held_gpus)
        if keys is None:
            keys = self.by_gpus[job.held_gpus] = SortedList()
        keys.add(eviction_key(job))
        self.by_priority.setdefault(job.priority, {})[job.id] = job
        self.rotation.add(job)
        self._count(job, 1)

    def remove(self, job: Job) -> None:
        """A job runs no longer."""
        keys = self.by_gpus[job.held_gpus]
        keys.remove(eviction_key(job))
        self._count(job, -1)
        if not keys:
            del self.by_gpus[job.held_gpus]
        self.rotation.remove(job.id)
        equals = self.by_priority[job.priority]
        del equals[job.id]
        if not equals:
            del self.by_priority[job.priority]

    def slots(self, gpus: int, beside: int) -> int:
        """The most workers with ``gpus`` each that fit in their place, were ``beside`` GPUs free on each node."""
        if (gpus, beside) not in self._slots:
            self._slots[gpus, beside] = sum((held + beside) // gpus for held in self.on_node.values())
        return self._slots[gpus, beside]

    def lowest_priority(self) -> int | None:
        """The lowest priority of these jobs."""
        return min(self.by_priority, default=None)

    def less_urgent(self, priority: int) -> list[Job]:
        """Those of a lower priority, in no order."""
        return [job for each, jobs in self.by_priority.items() if each < priority for job in jobs.values()]

    def _count(self, job: Job, sign: int) -> None:
        self._slots.clear()
        for worker in job.placement:
            node = self._node_states.get(worker.node)
            if node is not None:
                held = self.on_node.get(node.index, 0) + sign * len(worker.gpus)
                if held:
                    self.on_node[node.index] = held
                else:
                    del self.on_node[node.index]
