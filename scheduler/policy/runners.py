"""The running jobs of each project that may give way, in the order in which they would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sortedcontainers import SortedList

from springtide.scheduler.model import Job
from springtide.scheduler.policy.pool import Place, mask_of
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


def least_lost(rank: Rank, gpus: int, now: float) -> float:
    """`work_lost` by a job of this rank, or a little less."""
    fresh_for = now + rank[0]
    return gpus * fresh_for if fresh_for >= 2 * LOST_STEP else 0.0


def work_lost(job: Job, now: float) -> float:
    """GPU-seconds of work that a pause at ``now`` would lose, in coarse steps: none if it is saved or new."""
    if now - _fresh_since(job) < LOST_STEP:
        return 0.0
    return job.held_gpus * (now - _fresh_step(job))


class Runners:
    """The preemptible running jobs of one project, by how many GPUs they hold and by priority.

    ``ripening`` tells when they may have to give way to equal ones, ``on_node`` how many GPUs they hold on each
    node, by its rank among all ``places``.
    """

    def __init__(self, places: Mapping[str, Place], min_runtime: float) -> None:
        self._places = places
        self.by_gpus: dict[int, SortedList] = {}
        self.by_priority: dict[int, dict[str, Job]] = {}
        self.ripening = Ripening(min_runtime)
        self.on_node: dict[int, int] = {}
        self._firsts: tuple[tuple[int, Rank], ...] | None = None
        self._counts: Counter[int] | None = None
        self._slots: dict[tuple[int, int], int] = {}
        self._nodes: int | None = None

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
        self._count(job, -1)
        if not ranks:
            del self.by_gpus[job.held_gpus]
        self.ripening.remove(job.id)
        equals = self.by_priority[job.priority]
        del equals[job.id]
        if not equals:
            del self.by_priority[job.priority]

    def firsts(self) -> tuple[tuple[int, Rank], ...]:
        """Who of each size would give way first."""
        if self._firsts is None:
            self._firsts = tuple((gpus, ranks[0]) for gpus, ranks in self.by_gpus.items())
        return self._firsts

    def slots(self, gpus: int, beside: int) -> int:
        """The most workers with ``gpus`` each that fit in their place, were ``beside`` GPUs free on each node."""
        known = self._slots.get((gpus, beside))
        if known is None:
            if self._counts is None:
                self._counts = Counter(self.on_node.values())
            known = sum((held + beside) // gpus * nodes for held, nodes in self._counts.items())
            self._slots[gpus, beside] = known
        return known

    @property
    def nodes(self) -> int:
        """The nodes where they run."""
        if self._nodes is None:
            self._nodes = mask_of(self.on_node)
        return self._nodes

    def lowest_priority(self) -> int | None:
        """The lowest priority of these jobs."""
        return min(self.by_priority, default=None)

    def less_urgent(self, priority: int) -> list[Job]:
        """Those of a lower priority, in no order."""
        return [job for each, jobs in self.by_priority.items() if each < priority for job in jobs.values()]

    def _note(self, job: Job) -> None:
        self.by_priority.setdefault(job.priority, {})[job.id] = job
        self.ripening.add(job)
        self._count(job, 1)

    def _count(self, job: Job, sign: int) -> None:
        self._firsts = self._counts = self._nodes = None
        self._slots.clear()
        for worker in job.placement:
            place = self._places.get(worker.node)
            if place is not None:
                held = self.on_node.get(place.rank, 0) + sign * len(worker.gpus)
                if held:
                    self.on_node[place.rank] = held
                else:
                    del self.on_node[place.rank]
