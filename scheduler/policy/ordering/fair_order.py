"""Order of requests: the first project level by level down the tree, then its first job (DESIGN §4, order)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import NamedTuple

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.job_queues import QueueKey, SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.service import RANKS_PER_LEVEL

Key = tuple[bool, int, int, bool, float, float, int, int, str]

AFTER_ALL_LEVELS = 1 << 30
"""Service rank in the key of growth: after all waiting jobs of equal priority."""


class PendingRequest(NamedTuple):
    """A waiting job of a project that wants to start, or a job that wants one more worker (``grows``)."""

    leaf: ProjectNode
    key: QueueKey
    job: Job
    scheduling_class: SchedulingClass
    grows: bool = False

    @property
    def need(self) -> int:
        """GPUs that it needs."""
        return self.job.gpus if self.grows else self.scheduling_class.need


NextRequest = Callable[[ProjectNode], PendingRequest | None]
"""Returns a leaf's next request, or None."""


class FairOrder:
    """Orders some leaves by their next request.

    ``stale`` are projects whose position has to be computed again before the order is used for another plan.
    """

    def __init__(self, leaves: Iterable[ProjectNode], next_request: NextRequest) -> None:
        self.stale = set(leaves)
        self._siblings: dict[ProjectNode | None, list[tuple[Key, ProjectNode]]] = {}
        self._keys: dict[ProjectNode, Key] = {}
        self._first: dict[ProjectNode, PendingRequest | None] = {}
        self.renew(next_request)

    def top(self, below: ProjectNode | None = None) -> PendingRequest | None:
        """Return the first request of all projects, or of those ``below`` one; None if there is none."""
        siblings = self._siblings.get(below)
        return self._first[siblings[0][1]] if siblings else None

    def renew(self, next_request: NextRequest) -> None:
        """Compute the positions of all stale projects and of their ancestors again, each once."""
        self._next_request = next_request
        projects = {project for stale in self.stale for project in stale.path}
        for project in sorted(projects, key=lambda each: -len(each.path)):
            self._update(project)
        self.stale.clear()

    def refresh(self, leaf: ProjectNode) -> None:
        """Update the position of a leaf that takes part after its request or usage has changed."""
        if leaf in self._first:
            self.stale.add(leaf)
            for project in leaf.path:
                self._update(project)

    def _update(self, project: ProjectNode) -> None:
        request = self._first[project] = self.top(project) if project.children else self._next_request(project)
        siblings = self._siblings.setdefault(project.parent, [])
        before = self._keys.pop(project, None)
        if before is not None:
            del siblings[bisect_left(siblings, (before, project))]
        if request is not None:
            self._keys[project] = _key(project, request)
            insort(siblings, (self._keys[project], project))


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
