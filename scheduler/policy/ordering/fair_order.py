"""Order of requests: level by level down the tree to a project, then its first job.

The rules are in docs/policy.md (The rules and their places).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Container, Iterable
from operator import attrgetter
from typing import NamedTuple

from springtide.scheduler.model import Job
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.job_queues import QueueKey, SchedulingClass, scheduling_class_of
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.service import RANKS_PER_LEVEL

Key = tuple[bool, int, int, bool, float, float, float, float, int, str]

AFTER_ALL_LEVELS = 1 << 30
"""Service rank in the key of growth: after all waiting jobs of equal priority."""


class PendingRequest(NamedTuple):
    """A waiting job's request to start, or a job's request for one more worker (``grows``)."""

    leaf: ProjectNode
    key: QueueKey
    job: Job
    scheduling_class: SchedulingClass
    grows: bool = False

    @property
    def need(self) -> int:
        """The requested number of GPUs."""
        return self.job.gpus if self.grows else self.scheduling_class.need


def request_of(leaf: ProjectNode, job: Job) -> PendingRequest:
    """Return the request of a waiting job outside of the queues."""
    return PendingRequest(leaf, (0, 0, job.submitted, job.id), job, scheduling_class_of(job))


NextRequest = Callable[[ProjectNode], PendingRequest | None]
"""Returns a leaf's next request, or None."""


Promising = Callable[[ProjectNode, SchedulingClass], bool]
"""Whether a request of this class in this project may succeed."""


class QueueCursor:
    """A position in every queue. It passes over ``decided`` jobs and over classes that are not ``promising``.

    ``growing`` are, by project, the requests of jobs that want more workers. The cursor does not keep promising
    jobs: it and its owner would refer to each other, and only a garbage collection would free both.
    """

    def __init__(self, state: ClusterState, decided: Container[str]) -> None:
        self.growing: dict[ProjectNode, list[PendingRequest]] = {}
        self._state = state
        self._decided = decided
        self._passed: defaultdict[str, dict[SchedulingClass, int | None]] = defaultdict(dict)

    def next_request(self, leaf: ProjectNode, promising: Promising, largest: float) -> PendingRequest | None:
        """Return the project's next request, or None; no class whose workers want more GPUs than ``largest``."""
        waiting, growing = self._next_waiting(leaf, promising, largest), self.growing.get(leaf)
        if not growing:
            return waiting
        return min((*growing, waiting) if waiting else growing, key=attrgetter("key"))

    def skip(self, request: PendingRequest) -> None:
        """Pass over the request, and over those behind it in its queue, which are of the same class."""
        if request.grows:
            self.growing[request.leaf].remove(request)
        else:
            self._passed[request.leaf.name][request.scheduling_class] = None

    def offer_growth(self, leaf: ProjectNode, job: Job) -> None:
        """Add a job that wants more workers."""
        key = (-job.priority, AFTER_ALL_LEVELS, job.submitted, job.id)
        request = PendingRequest(leaf, key, job, scheduling_class_of(job), grows=True)
        self.growing.setdefault(leaf, []).append(request)

    def _next_waiting(self, leaf: ProjectNode, promising: Promising, largest: float) -> PendingRequest | None:
        """Return the first request of a waiting job, without a look at queues whose first job comes later."""
        queues, passed = self._state.queues[leaf.name], self._passed.get(leaf.name)
        request: PendingRequest | None = None
        for first, scheduling_class in queues.heads():
            if request is not None and request.key < first:
                break
            if scheduling_class.constraints.gpus > largest:
                continue
            at = passed.get(scheduling_class, 0) if passed else 0
            if at is None or not promising(leaf, scheduling_class):
                continue
            key = first
            if at or key[3] in self._decided:
                queue = queues.by_class[scheduling_class]
                while at < len(queue) and queue[at][3] in self._decided:
                    at += 1
                passed = self._passed[leaf.name]
                passed[scheduling_class] = at
                if at == len(queue):
                    continue
                key = queue[at]
            if request is None or key < request.key:
                request = PendingRequest(leaf, key, self._state.jobs[key[3]], scheduling_class)
        return request


class FairOrder:
    """Orders some leaves by their next request.

    ``stale`` projects need a new position before another plan uses the order.
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
        for project in sorted(projects, key=lambda project: -len(project.path)):
            self._update(project)
        self.stale.clear()

    def refresh(self, leaf: ProjectNode) -> None:
        """Update the position of a leaf in this order after a change of its request or usage."""
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

    If the surplus goes to the least served jobs, these come first beyond the quota, by levels as in the shares.
    Among equal projects, the one with less recent use comes first, then the one with the older request; age and
    name decide between requests of the same instant.
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
        project.use_rank,
        request.job.submitted,
        project.age,
        project.name,
    )
