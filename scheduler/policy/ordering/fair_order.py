"""Order of requests: the first project level by level down the tree, then its first job (DESIGN §4, order)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.job_queues import QueueKey, SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.service import RANKS_PER_LEVEL

Key = tuple[bool, int, int, bool, float, float, int, int, str]

AFTER_ALL_LEVELS = 1 << 30
"""Service rank in the key of growth: after all waiting jobs of equal priority."""

STALE_ENTRIES = 16
"""Number of heap entries per project, most of them stale, from which on the order is built anew."""


class PendingRequest(NamedTuple):
    """A waiting job that wants to start, or a job that wants one more worker (``grows``)."""

    key: QueueKey
    job: Job
    scheduling_class: SchedulingClass
    grows: bool = False

    @property
    def need(self) -> int:
        """GPUs that it needs."""
        return self.job.gpus if self.grows else self.scheduling_class.need


class HeapEntry(NamedTuple):
    """A project in the heap of its parent, valid while ``stamp`` is the project's latest."""

    key: Key
    stamp: int
    project: ProjectNode


NextRequest = Callable[[ProjectNode], PendingRequest | None]
"""Returns a leaf's next request, or None."""


class FairOrder:
    """Orders some leaves by their next request.

    ``stale`` are projects whose position has to be computed again before the order is used for another plan.
    """

    def __init__(self, leaves: Iterable[ProjectNode], next_request: NextRequest) -> None:
        self.stale: dict[int, ProjectNode] = {id(leaf): leaf for leaf in leaves}
        self._heaps: dict[int, list[HeapEntry]] = {}
        self._stamps: dict[int, int] = {}
        self._requests: dict[int, PendingRequest | None] = {}
        self._count = 0
        self.renew(next_request)

    def top(self) -> tuple[ProjectNode, PendingRequest] | None:
        """Return the first leaf and its next request, or None."""
        entry = self._best(None)
        while entry is not None:
            project = entry.project
            below = self._best(project)
            if below is None:
                request = self._requests[id(project)]
                assert request is not None
                return project, request
            entry = below
        return None

    def renew(self, next_request: NextRequest) -> None:
        """Compute the positions of all stale projects and of their ancestors again, each once."""
        self._next_request = next_request
        levels: dict[int, dict[int, ProjectNode]] = {}
        for stale in self.stale.values():
            for project in stale.path:
                levels.setdefault(len(project.path), {})[id(project)] = project
        for depth in sorted(levels, reverse=True):
            for project in levels[depth].values():
                self._update(project)
        self.stale.clear()

    @property
    def fragmented(self) -> bool:
        """Whether most heap entries are stale."""
        return self._count > STALE_ENTRIES * (len(self._stamps) + 1)

    def usage_changed(self, leaf: ProjectNode) -> None:
        """Update the position of a leaf, if it takes part, after its usage has changed."""
        if id(leaf) in self._stamps:
            self.refresh(leaf)

    def refresh(self, leaf: ProjectNode) -> None:
        """Update the position of a leaf, and of its ancestors, after its request or usage has changed."""
        self.stale[id(leaf)] = leaf
        for project in leaf.path:
            self._update(project)

    def _update(self, project: ProjectNode) -> None:
        if project.children:
            best = self._best(project)
            request = self._requests[id(best.project)] if best is not None else None
        else:
            request = self._next_request(project)
        self._requests[id(project)] = request
        if request is None:
            self._stamps[id(project)] = 0
            return
        self._count += 1
        self._stamps[id(project)] = self._count
        entry = HeapEntry(_key(project, request), self._count, project)
        heappush(self._heaps.setdefault(id(project.parent), []), entry)

    def _best(self, parent: ProjectNode | None) -> HeapEntry | None:
        heap = self._heaps.get(id(parent))
        while heap:
            if self._stamps[id(heap[0].project)] == heap[0].stamp:
                return heap[0]
            heappop(heap)
        return None


def _key(project: ProjectNode, request: PendingRequest) -> Key:
    """Return the position of a project among its siblings by its next request; the smallest is first.

    Where the surplus goes to the least served jobs, these come first beyond the quota, by levels as in the shares.
    """
    entitled, need = project.entitled, request.need
    divisor = max(entitled, 1)
    beyond = project.claimed + need > project.quota
    return (
        beyond,
        request.key[1] // RANKS_PER_LEVEL if beyond and project.by_service else 0,
        -project.priority,
        entitled <= 0,
        (project.claimed + need) / divisor,
        project.claimed / divisor,
        entitled,
        project.age,
        project.name,
    )
