"""Negative cache: searches for victims, and for jobs to move, that found nothing.

A search for victims for one worker that failed need only look at nodes that have changed since, and at nodes of
projects that may give more GPUs than then. A search for jobs to move that failed need only be repeated when one of
the nodes that it looked at, or a node with free GPUs, has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from math import inf
from typing import NamedTuple

from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.job_queues import PlacementConstraints
from springtide.scheduler.policy.state.nodes import bits, mask_of

EVERYWHERE = -1
"""Mask of all nodes."""

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


class Failure(NamedTuple):
    """A search without result.

    ``slack`` is the number of GPUs that each project could give at most to a search for victims, ``candidates``
    the nodes that a search for jobs to move looked at, ``at`` the number of changes recorded by then. The result
    is valid until the time ``until``, when a minimum run time ends.
    """

    slack: Mapping[str, int]
    candidates: tuple[int, ...]
    at: int
    until: float


class FailedSearches:
    """The failed searches of a pool. Times are seconds, sets of nodes are bit masks."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._changes: list[int] = []
        self._dropped = 0
        self._searches: dict[Kind, OrderedDict[str, Failure]] = {}
        self._moves: dict[PlacementConstraints, Failure] = {}

    def record_changes(self, nodes: int) -> None:
        """Record that GPUs of these nodes were taken or freed."""
        self._changes.extend(bits(nodes))
        if len(self._changes) > 2 * MAX_CHANGES:
            self._dropped += len(self._changes) - MAX_CHANGES
            del self._changes[:-MAX_CHANGES]

    def nodes_to_search(
        self, kind: Kind, project: str, slack: Mapping[str, int], changed: int, now: float
    ) -> tuple[int, float]:
        """Return the nodes where a search for victims may succeed, and until when it is known to fail elsewhere.

        ``slack`` is what projects may give; the plan ``changed`` these nodes. The nodes are those changed since
        the closest failure, and those of projects that may give more.
        """
        found = self._closest(self._searches.get(kind, OrderedDict()), project, slack, now)
        if found is None:
            return EVERYWHERE, inf
        failure, giving_more = found
        nodes = self._changed_since(failure) | changed
        for name in giving_more:
            nodes |= self._state.running[name].nodes
        return nodes, failure.until

    def record_search(self, kind: Kind, project: str, slack: Mapping[str, int], until: float) -> None:
        """Record a search for victims on all nodes that failed, and will fail until then."""
        known = self._searches.setdefault(kind, OrderedDict())
        known[project] = self._failure(dict(slack), (), until)
        known.move_to_end(project)
        if len(known) > MAX_ENTRIES:
            known.popitem(last=False)

    def move_fails_until(
        self, constraints: PlacementConstraints, candidates: tuple[int, ...], changed: int, now: float
    ) -> float | None:
        """Return until when moving jobs away from these nodes is known to fail, or None."""
        known, pool = self._moves.get(constraints), self._state.pool
        if known is None or known.candidates != candidates or not self._holds(known, now):
            return None
        relevant = mask_of(candidates) | pool.all & ~pool.buckets[0]
        return None if (self._changed_since(known) | changed) & relevant else known.until

    def record_move(self, constraints: PlacementConstraints, candidates: tuple[int, ...], until: float) -> None:
        """Record that no job can be moved away from these nodes."""
        self._moves[constraints] = self._failure({}, candidates, until)

    def _failure(self, slack: Mapping[str, int], candidates: tuple[int, ...], until: float) -> Failure:
        return Failure(slack, candidates, self._dropped + len(self._changes), until)

    def _holds(self, failure: Failure, now: float) -> bool:
        return now < failure.until and failure.at >= self._dropped

    def _changed_since(self, failure: Failure) -> int:
        return mask_of(self._changes[failure.at - self._dropped :])

    def _closest(
        self, known: OrderedDict[str, Failure], project: str, slack: Mapping[str, int], now: float
    ) -> tuple[Failure, list[str]] | None:
        """Return the failure closest to a search, and the projects that may give more than then."""
        best: tuple[Failure, list[str]] | None = None
        own = [known[project]] if project in known else []
        for failure in (*own, *islice(reversed(known.values()), MAX_OTHER_PROJECTS)):
            if not self._holds(failure, now):
                continue
            more = [name for name, given in slack.items() if given > failure.slack.get(name, 0)]
            if len(more) <= MAX_CHANGED_PROJECTS and (best is None or len(more) < len(best[1])):
                best = (failure, more)
            if not more:
                break
        return best
