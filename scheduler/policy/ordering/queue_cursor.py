"""Steps through the requests of each project: its queues, and its jobs that want more workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container
from operator import attrgetter

from springtide.scheduler.model import Job
from springtide.scheduler.policy.ordering.fair_order import AFTER_ALL_LEVELS, PendingRequest
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.job_queues import SchedulingClass, scheduling_class_of
from springtide.scheduler.policy.state.projects import ProjectNode

Promising = Callable[[ProjectNode, SchedulingClass], bool]
"""Tells whether a request of this class in this project may succeed."""


class QueueCursor:
    """A position in every queue. It passes over ``decided`` jobs and over classes that are not ``promising``.

    ``growing`` are, by project, the requests of jobs that want more workers.
    """

    def __init__(self, state: ClusterState, decided: Container[str], promising: Promising) -> None:
        self.growing: dict[ProjectNode, list[PendingRequest]] = {}
        self._state = state
        self._decided = decided
        self._promising = promising
        self._passed: defaultdict[str, dict[SchedulingClass, int | None]] = defaultdict(dict)

    def next_request(self, leaf: ProjectNode) -> PendingRequest | None:
        """Return the project's next request, or None."""
        waiting, growing = self._next_waiting(leaf), self.growing.get(leaf)
        if not growing:
            return waiting
        return min((*growing, waiting) if waiting else growing, key=attrgetter("key"))

    def skip(self, request: PendingRequest) -> None:
        """Pass over the request, and over those behind it in its queue, which request the same."""
        if request.grows:
            self.growing[request.leaf].remove(request)
        else:
            self._passed[request.leaf.name][request.scheduling_class] = None

    def offer_growth(self, leaf: ProjectNode, job: Job) -> None:
        """Add a job that wants more workers."""
        key = (-job.priority, AFTER_ALL_LEVELS, job.submitted, job.id)
        request = PendingRequest(leaf, key, job, scheduling_class_of(job), grows=True)
        self.growing.setdefault(leaf, []).append(request)

    def _next_waiting(self, leaf: ProjectNode) -> PendingRequest | None:
        """Return the first request of a waiting job; queues whose first job comes after it are not looked at."""
        queues, passed = self._state.queues[leaf.name], self._passed.get(leaf.name)
        request: PendingRequest | None = None
        for first, scheduling_class in queues.heads():
            if request is not None and request.key < first:
                break
            at = passed.get(scheduling_class, 0) if passed else 0
            if at is None or not self._promising(leaf, scheduling_class):
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
