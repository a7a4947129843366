"""Steps through the requests of each project: its queues, and its jobs that want more workers."""

from __future__ import annotations

from collections.abc import Callable, Container

from springtide.scheduler.model import Job
from springtide.scheduler.policy.ordering.fair_order import AFTER_ALL_LEVELS, PendingRequest
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.job_queues import QueueKey, SchedulingClass, scheduling_class_of
from springtide.scheduler.policy.state.projects import ProjectNode

Promising = Callable[[ProjectNode, SchedulingClass], bool]
"""Tells whether a request of this class in this project may succeed."""


def growth_request(job: Job) -> PendingRequest:
    """Return the request of an elastic job for one more worker."""
    key = (-job.priority, AFTER_ALL_LEVELS, job.submitted, job.id)
    return PendingRequest(key, job, scheduling_class_of(job), grows=True)


class QueueCursor:
    """A position in every queue. It passes over ``decided`` jobs and over classes that are not ``promising``.

    ``growing`` are, by project, the jobs that want more workers.
    """

    def __init__(self, state: ClusterState, decided: Container[str], promising: Promising) -> None:
        self.growing: dict[str, list[Job]] = {}
        self._state = state
        self._decided = decided
        self._promising = promising
        self._at: dict[tuple[str, SchedulingClass], int] = {}
        self._moved: set[str] = set()

    def next_request(self, leaf: ProjectNode) -> PendingRequest | None:
        """Return the project's next request, or None."""
        if leaf.name not in self._moved and leaf.name not in self.growing:
            return self._first(leaf)
        return self._next(leaf)

    def skip(self, leaf: ProjectNode, request: PendingRequest) -> None:
        """Pass over the request, and over those behind it in its queue, which request the same."""
        if request.grows:
            self.growing[leaf.name].remove(request.job)
        else:
            self._moved.add(leaf.name)
            self._at[leaf.name, request.scheduling_class] = -1

    def offer_growth(self, leaf: ProjectNode, job: Job) -> None:
        """Add a job that wants more workers."""
        self.growing.setdefault(leaf.name, []).append(job)

    def _first(self, leaf: ProjectNode) -> PendingRequest | None:
        """Return the first request of a project whose cursors have not moved."""
        for key, scheduling_class in self._state.queues[leaf.name].heads():
            if self._promising(leaf, scheduling_class):
                if key[3] in self._decided:
                    return self._next(leaf)
                return PendingRequest(key, self._state.jobs[key[3]], scheduling_class)
        return None

    def _next(self, leaf: ProjectNode) -> PendingRequest | None:
        self._moved.add(leaf.name)
        best: QueueKey | None = None
        request: PendingRequest | None = None
        for scheduling_class, queue in self._state.queues[leaf.name].by_class.items():
            at = self._at.get((leaf.name, scheduling_class), 0)
            if at < 0 or not self._promising(leaf, scheduling_class):
                continue
            while at < len(queue) and queue[at][3] in self._decided:
                at += 1
            if at:
                self._at[leaf.name, scheduling_class] = at
            if at < len(queue) and (best is None or queue[at] < best):
                best = queue[at]
                request = PendingRequest(best, self._state.jobs[best[3]], scheduling_class)
        for job in self.growing.get(leaf.name, ()):
            growth = growth_request(job)
            if request is None or growth.key < request.key:
                request = growth
        return request
