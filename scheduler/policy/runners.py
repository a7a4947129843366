"""The running jobs of each project that may give way, in the order in which they would."""

from __future__ import annotations

from collections import Counter

from sortedcontainers import SortedList

from springtide.scheduler.model import Job
from springtide.scheduler.policy.ripening import Ripening

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
    """The preemptible running jobs of one project, by how many GPUs they hold and by priority.

    ``ripening`` tells when they may have to give way to equal ones.
    """

    def __init__(self, min_runtime: float) -> None:
        self.by_gpus: dict[int, SortedList] = {}
        self.by_priority: dict[int, dict[str, Job]] = {}
        self.ripening = Ripening(min_runtime)
        self.growing: dict[str, None] = {}
        self.on_node: dict[str, int] = {}
        self.version = 0
        self._counts: tuple[int, Counter[int]] = (0, Counter())

    def fill(self, running: list[Job]) -> None:
        """Take in many at once."""
        ranks: dict[int, list[Rank]] = {}
        for job in running:
            ranks.setdefault(job.held_gpus, []).append(rank_of(job))
            self._note(job)
        self.by_gpus = {gpus: SortedList(those) for gpus, those in ranks.items()}

    def add(self, job: Job) -> None:
        """A job runs."""
        ranks = self.by_gpus.get(job.held_gpus)
        if ranks is None:
            ranks = self.by_gpus[job.held_gpus] = SortedList()
        ranks.add(rank_of(job))
        self._note(job)

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
        self.version += 1
        self.ripening.remove(job.id)
        equals = self.by_priority[job.priority]
        del equals[job.id]
        if not equals:
            del self.by_priority[job.priority]

    def slots(self, gpus: int, beside: int) -> int:
        """The most workers with ``gpus`` each that fit in their place, were ``beside`` GPUs free on each node."""
        if self._counts[0] != self.version:
            self._counts = (self.version, Counter(self.on_node.values()))
        return sum((held + beside) // gpus * nodes for held, nodes in self._counts[1].items())

    def lowest_priority(self) -> int | None:
        """The lowest priority of these jobs."""
        return min(self.by_priority, default=None)

    def less_urgent(self, priority: int) -> list[Job]:
        """Those of a lower priority, in no order."""
        return [job for each, jobs in self.by_priority.items() if each < priority for job in jobs.values()]

    def _note(self, job: Job) -> None:
        self.version += 1
        self.by_priority.setdefault(job.priority, {})[job.id] = job
        self.ripening.add(job)
        for worker in job.placement:
            self.on_node[worker.node] = self.on_node.get(worker.node, 0) + len(worker.gpus)
