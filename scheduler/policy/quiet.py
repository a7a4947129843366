"""Where nobody can make room for anybody of the same project, so that not every project is searched each time."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf


class Quiet:
    """The projects that were searched in vain, until something happens that may make a difference.

    That is: something happens to the project; its time has come; GPUs stay free on a node where it runs, or, for a
    project that depends on others, on any node.
    """

    def __init__(self, projects: Iterable[str]) -> None:
        self.loud: set[str] = set(projects)
        self._known = frozenset(self.loud)
        self._until: dict[str, float] = {}
        self._times: list[tuple[float, str]] = []
        self._depending: set[str] = set()
        self._nodes = 0

    def note(self, project: str, until: float, *, depends: bool) -> None:
        """The project was searched in vain; before ``until`` time alone changes nothing.

        ``depends`` tells that more room anywhere, or less that is not preemptible, may change something.
        """
        self.loud.discard(project)
        self._until[project] = until
        if until < inf:
            heappush(self._times, (until, project))
        if depends:
            self._depending.add(project)

    def stir(self, project: str) -> None:
        """Something happened to the project."""
        if project in self._known:
            self.loud.add(project)
            self._until.pop(project, None)
            self._depending.discard(project)

    def stir_depending(self) -> None:
        """Something happened that those may depend on who depend on others."""
        for project in list(self._depending):
            self.stir(project)

    def happened(self, nodes: int) -> None:
        """Something happened on these nodes."""
        self._nodes |= nodes

    def take_nodes(self) -> int:
        """The nodes where something happened since this was asked last."""
        nodes, self._nodes = self._nodes, 0
        return nodes

    def pass_time(self, now: float) -> None:
        """Stir the projects whose time has come."""
        while self._times and self._times[0][0] <= now:
            until, project = heappop(self._times)
            if self._until.get(project) == until:
                self.stir(project)

    def next_time(self) -> float:
        """When the next of them is to be looked at, though nothing happens; infinite if none is."""
        while self._times and self._until.get(self._times[0][1]) != self._times[0][0]:
            heappop(self._times)
        return self._times[0][0] if self._times else inf
