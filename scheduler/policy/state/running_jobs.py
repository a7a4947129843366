"""The preemptible running jobs of each project, in the victims' order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf

from sortedcontainers import SortedList

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.nodes import NodeState
from springtide.scheduler.policy.state.protection import protected_from_others
from springtide.scheduler.policy.state.service import beyond
from springtide.scheduler.policy.state.sorted_index import SortedIndex

EvictionKey = tuple[float, int, float, float, str]
"""Last save in steps, priority, step of start, submission and id of a job; the smallest is the first victim."""

LOST_WORK_STEP = 300.0
"""Step in seconds for the comparison of lost work: saves within one step count as the same."""

START_STEP = 1.0
"""Step in seconds for the comparison of starts: jobs that are submitted together report their starts in any order.

Among these the one submitted last is the first victim, as it is the first to borrow. Longer steps pause jobs that
have run longer: with 10 and 60 s the month of docs/policy.md takes 1 and 2 % longer on 520 GPUs.
"""


def _fresh_since(job: Job) -> float:
    """Return the time since which a pause would lose the job's work."""
    return max(job.started or 0.0, job.saved or 0.0)


def work_lost(job: Job, now: float) -> float:
    """Return the seconds of work that a pause at ``now`` would lose, in steps: none if it is saved or new."""
    fresh_since = _fresh_since(job)
    return 0.0 if now - fresh_since < LOST_WORK_STEP else now - fresh_since // LOST_WORK_STEP * LOST_WORK_STEP


def start_step(job: Job) -> float:
    """Return the number of the step in which the job started, 0 for one that has not."""
    return (job.started or 0.0) // START_STEP


def _eviction_key(job: Job) -> EvictionKey:
    return (-(_fresh_since(job) // LOST_WORK_STEP), job.priority, -start_step(job), -job.submitted, job.id)


class RunningJobs:
    """The preemptible running jobs of one project, in the victims' order and by priority.

    ``on_node`` counts the GPUs that they hold on each node, by its rank among all ``node_states``. A job that can
    be rotated is ripe for a step of service once its own service exceeds that step and its minimum run time, in
    seconds, is over.
    """

    def __init__(self, node_states: Mapping[str, NodeState], min_runtime: float) -> None:
        self._node_states = node_states
        self._min_runtime = min_runtime
        self._victims: SortedList = SortedList()
        self.by_priority = SortedIndex()
        self.on_node = Counter[int]()
        self._slots: dict[tuple[int, int], int] = {}
        self._jobs: dict[str, Job] = {}
        self._largest: int | None = None
        self._protected_until: float | None = None
        self._rotating: dict[str, Job] = {}
        self._ripe_times: dict[int, SortedIndex] = {}

    def add(self, job: Job) -> None:
        """Add a running job."""
        self._jobs[job.id] = job
        self._largest = self._protected_until = None
        self._victims.add(_eviction_key(job))
        self.by_priority.set(job.id, job.priority)
        if job.rotate and job.started is not None and job.placement:
            self._rotating[job.id] = job
            for level, times in self._ripe_times.items():
                times.set(job.id, self._ripe_time(job, level))
        self._count(job, 1)

    def remove(self, job: Job) -> None:
        """Remove a job."""
        del self._jobs[job.id]
        self._largest = self._protected_until = None
        self._victims.remove(_eviction_key(job))
        for index in (self.by_priority, *self._ripe_times.values()):
            index.discard(job.id)
        self._rotating.pop(job.id, None)
        self._count(job, -1)

    def renew(self, before: Job, job: Job) -> None:
        """Replace a job of which only the usual run time and the last checkpoint may have changed."""
        self._jobs[job.id] = job
        if before.saved != job.saved:
            self._victims.remove(_eviction_key(before))
            self._victims.add(_eviction_key(job))
        if job.id in self._rotating:
            self._rotating[job.id] = job
            for level, times in self._ripe_times.items() if before.usual_runtime != job.usual_runtime else ():
                times.set(job.id, self._ripe_time(job, level))

    @property
    def largest(self) -> int:
        """The number of GPUs of the largest job."""
        if self._largest is None:
            self._largest = max((job.held_gpus for job in self._jobs.values()), default=0)
        return self._largest

    @property
    def protected_until(self) -> float:
        """When the last of the jobs may have to give way to jobs that no quota guarantees, in seconds."""
        if self._protected_until is None:
            ends = (protected_from_others(job, self._min_runtime) for job in self._jobs.values())
            self._protected_until = max(ends, default=-inf)
        return self._protected_until

    def in_order(self) -> Iterator[str]:
        """Yield the ids of the jobs: the least work to lose first, then lower priority, then most recent start."""
        return (key[4] for key in self._victims)

    def ripe_times(self, level: int) -> SortedIndex:
        """Return when each job that can be rotated is ripe for a step of service."""
        if level not in self._ripe_times:
            times = {job.id: self._ripe_time(job, level) for job in self._rotating.values()}
            self._ripe_times[level] = SortedIndex(times)
        return self._ripe_times[level]

    def slots(self, gpus: int, beside: int) -> int:
        """Return how many workers with ``gpus`` each could replace them, if each node has ``beside`` free GPUs."""
        key = (gpus, beside)
        if key not in self._slots:
            self._slots[key] = sum((held + beside) // gpus for held in self.on_node.values())
        return self._slots[key]

    def _ripe_time(self, job: Job, level: int) -> float:
        return max(beyond(job, level), (job.started or 0.0) + self._min_runtime)

    def _count(self, job: Job, sign: int) -> None:
        self._slots.clear()
        for worker in job.placement:
            if worker.node in self._node_states:
                index = self._node_states[worker.node].index
                self.on_node[index] += sign * len(worker.gpus)
                if not self.on_node[index]:
                    del self.on_node[index]
