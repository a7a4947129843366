"""The running jobs of each project that may give way, in the order in which they would."""

from __future__ import annotations

from collections import Counter

from sortedcontainers import SortedList

from springtide.scheduler.model import Job

Rank = tuple[float, int, float, float, str]
"""Among jobs with equally many GPUs: last saved, priority, start, submission, id; the smallest gives way first."""

LOST_STEP = 120.0
"""Seconds in whose steps lost work is compared: what jobs save in less than that of each other is the same."""


def _fresh_since(job: Job) -> float:
    """Since when the job has done work that a pause would lose."""
    return max(job.started or 0.0, job.saved or 0.0)


def _fresh_step(job: Job) -> float:
    return _fresh_since(job) // LOST_STEP * LOST_STEP


def rank_of(job: Job) -> Rank:
    """The job's rank among those with equally many GPUs: the least work to lose, whatever the time, first."""
    return (-_fresh_step(job), job.priority, -(job.started or 0.0), -job.submitted, job.id)


def work_lost(job: Job, now: float) -> float:
    """GPU-seconds of work that a pause at ``now`` would lose, in coarse steps: none if it is saved or new."""
    if now - _fresh_since(job) < LOST_STEP:
        return 0.0
    return job.held_gpus * (now - _fresh_step(job))


class Runners:
    """The preemptible running jobs of one project, by how many GPUs they hold."""

    def __init__(self) -> None:
        self.by_gpus: dict[int, SortedList] = {}
        self.growing: dict[str, None] = {}
        self.priorities: dict[int, int] = {}
        self.on_node: dict[str, int] = {}
        self.version = 0
        self._counts: tuple[int, Counter[int]] = (0, Counter())

    def fill(self, running: dict[int, list[Rank]], on_node: dict[str, int]) -> None:
        """Take in many at once; ``on_node`` tells how many GPUs they hold on each node."""
        self.on_node = on_node
        self.by_gpus = {gpus: SortedList(ranks) for gpus, ranks in running.items()}
        for ranks in running.values():
            for rank in ranks:
                self._note(rank[1], 1)

    def add(self, job: Job) -> None:
        """A job runs."""
        ranks = self.by_gpus.get(job.held_gpus)
        if ranks is None:
            ranks = self.by_gpus[job.held_gpus] = SortedList()
        ranks.add(rank_of(job))
        for worker in job.placement:
            self.on_node[worker.node] = self.on_node.get(worker.node, 0) + len(worker.gpus)
        self._note(job.priority, 1)

    def remove(self, job: Job) -> None:
        """A job runs no longer."""
        ranks = self.by_gpus[job.held_gpus]
        ranks.remove(rank_of(job))
        for worker in job.placement:
            rest = self.on_node[worker.node] - len(worker.gpus)
            if rest:
                self.on_node[worker.node] = rest
            else:
                del self.on_node[worker.node]
        if not ranks:
            del self.by_gpus[job.held_gpus]
        self._note(job.priority, -1)

    def slots(self, gpus: int, beside: int) -> int:
        """The most workers with ``gpus`` each that fit in their place, were ``beside`` GPUs free on each node."""
        if self._counts[0] != self.version:
            self._counts = (self.version, Counter(self.on_node.values()))
        return sum((held + beside) // gpus * nodes for held, nodes in self._counts[1].items())

    def lowest_priority(self) -> int | None:
        """The lowest priority of these jobs."""
        return min(self.priorities, default=None)

    def _note(self, priority: int, change: int) -> None:
        self.version += 1
        count = self.priorities.get(priority, 0) + change
        if count:
            self.priorities[priority] = count
        else:
            del self.priorities[priority]
