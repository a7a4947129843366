"""Negative cache: searches for victims, and for jobs to move, that found nothing.

A search for victims for one worker that failed need only look at nodes that have changed since, and at nodes of
projects that may give more GPUs than then. A search for jobs to move that failed need only be repeated when one of
the nodes that it looked at, or a node with free GPUs, has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from springtide.scheduler.policy.state.job_queues import PlacementConstraints

MAX_ENTRIES = 64
"""Maximum number of projects whose failures are kept per kind of job."""

MAX_OTHER_PROJECTS = 8
"""Maximum number of other projects' failures that are considered besides the project's own."""

MAX_CHANGED_PROJECTS = 8
"""Maximum number of projects that may give more than at the failure; with more, most nodes would be looked at."""

MAX_CHANGES = 512
"""Number of node changes after which a failure is dropped, as most nodes would have to be looked at again."""

Kind = tuple[PlacementConstraints, bool]
"""Placement constraints of a job, and whether it is preemptible."""


class FailedSearch(NamedTuple):
    """A search for victims without result.

    ``slack`` is the number of GPUs that each project could give at most, ``at`` the number of changes recorded by
    then. The result is valid until the time ``until``, when a minimum run time ends.
    """

    slack: Mapping[str, int]
    at: int
    until: float


class FailedMove(NamedTuple):
    """A search without result for jobs to move away from the nodes ``candidates``; valid as `FailedSearch` is."""

    candidates: tuple[int, ...]
    at: int
    until: float


class FailedSearches:
    """The failed searches of a pool."""

    def __init__(self) -> None:
        self._changes: list[int] = []
        self._dropped = 0
        self._searches: dict[Kind, OrderedDict[str, FailedSearch]] = {}
        self._moves: dict[PlacementConstraints, FailedMove] = {}

    def record_changes(self, nodes: Iterable[int]) -> None:
        """Record that GPUs of these nodes were taken or freed."""
        self._changes.extend(nodes)
        if len(self._changes) > 2 * MAX_CHANGES:
            self._dropped += len(self._changes) - MAX_CHANGES
            del self._changes[:-MAX_CHANGES]

    def nodes_changed_since(self, failure: FailedSearch | FailedMove) -> int:
        """Return the nodes that have changed since the failure."""
        nodes = 0
        for index in self._changes[failure.at - self._dropped :]:
            nodes |= 1 << index
        return nodes

    def search(
        self, kind: Kind, project: str, slack: Mapping[str, int], now: float
    ) -> tuple[FailedSearch, list[str]] | None:
        """Return the failure closest to this search, and the projects that may give more than then."""
        known = self._searches.get(kind)
        if known is None:
            return None
        best: tuple[FailedSearch, list[str]] | None = None
        own = [known[project]] if project in known else []
        for failure in (*own, *islice(reversed(known.values()), MAX_OTHER_PROJECTS)):
            if now >= failure.until or failure.at < self._dropped:
                continue
            more = [name for name, given in slack.items() if given > failure.slack.get(name, 0)]
            if len(more) <= MAX_CHANGED_PROJECTS and (best is None or len(more) < len(best[1])):
                best = (failure, more)
            if not more:
                break
        return best

    def record_search(self, kind: Kind, project: str, slack: Mapping[str, int], until: float) -> None:
        """Record a search on behalf of the project that found no victims."""
        known = self._searches.setdefault(kind, OrderedDict())
        known[project] = FailedSearch(dict(slack), self._dropped + len(self._changes), until)
        known.move_to_end(project)
        if len(known) > MAX_ENTRIES:
            known.popitem(last=False)

    def move(
        self, constraints: PlacementConstraints, candidates: tuple[int, ...], free: int, changed: int, now: float
    ) -> FailedMove | None:
        """Return the failure that still holds for these nodes, ``free`` ones and those ``changed`` by the plan."""
        known = self._moves.get(constraints)
        if known is None or known.candidates != candidates or now >= known.until or known.at < self._dropped:
            return None
        for index in candidates:
            free |= 1 << index
        return None if (self.nodes_changed_since(known) | changed) & free else known

    def record_move(self, constraints: PlacementConstraints, candidates: tuple[int, ...], until: float) -> None:
        """Record that no job can be moved away from these nodes."""
        self._moves[constraints] = FailedMove(candidates, self._dropped + len(self._changes), until)
