"""Negative cache: projects within which no running job has to make room for a waiting one of the same project."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf


class IdleProjects:
    """Projects that were searched without result, until an event that may change the result.

    Such events are: a change of the project; the end of its idle time; GPUs that stay free on a node where the
    project runs, or on any node for a project that depends on other projects.
    """

    def __init__(self, projects: Iterable[str]) -> None:
        self.active: set[str] = set(projects)
        self._known = frozenset(self.active)
        self._until: dict[str, float] = {}
        self._times: list[tuple[float, str]] = []
        self._dependent: set[str] = set()
        self._changed_nodes = 0

    def mark_idle(self, project: str, until: float, *, depends: bool) -> None:
        """Skip the project until the time ``until``, in seconds, unless an event activates it before.

        ``depends`` tells that free GPUs on any node, or fewer jobs that cannot be paused, may change the result.
        """
        self.active.discard(project)
        self._until[project] = until
        if until < inf:
            heappush(self._times, (until, project))
        if depends:
            self._dependent.add(project)

    def activate(self, project: str) -> None:
        """Search the project again in the next plan."""
        if project in self._known:
            self.active.add(project)
            self._until.pop(project, None)
            self._dependent.discard(project)

    def activate_dependent(self) -> None:
        """Search all projects again whose result depends on other projects."""
        for project in list(self._dependent):
            self.activate(project)

    def record_nodes(self, nodes: int) -> None:
        """Record a change on these nodes."""
        self._changed_nodes |= nodes

    def take_changed_nodes(self) -> int:
        """Return the nodes that have changed since the last call."""
        nodes, self._changed_nodes = self._changed_nodes, 0
        return nodes

    def pass_time(self, now: float) -> None:
        """Activate the projects whose idle time is over."""
        while self._times and self._times[0][0] <= now:
            until, project = heappop(self._times)
            if self._until.get(project) == until:
                self.activate(project)

    def next_time(self) -> float:
        """Return the earliest end of an idle time, or infinity."""
        while self._times and self._until.get(self._times[0][1]) != self._times[0][0]:
            heappop(self._times)
        return self._times[0][0] if self._times else inf
