"""Negative cache: searches for victims that found nothing.

A search for victims for one worker that failed need only look at nodes that have changed since, and at nodes of
projects that may give more GPUs than then.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, takewhile
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

Kind = tuple[PlacementConstraints, bool]
"""Placement constraints of a job, and whether it is preemptible."""


class Failure(NamedTuple):
    """A search without result.

    ``slack`` is the number of GPUs that each project could give at most, ``at`` the number of changes recorded by
    then. The result is valid until the time ``until``, when a minimum run time ends.
    """

    slack: Mapping[str, int]
    at: int
    until: float


class FailedSearches:
    """The failed searches of a pool. Times are seconds, sets of nodes are bit masks."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._count = 0
        self._changed_at: dict[int, int] = {}
        self._searches: dict[Kind, dict[str, Failure]] = {}

    def record_changes(self, nodes: int) -> None:
        """Record that GPUs of these nodes were taken or freed; the nodes changed last are kept last."""
        self._count += 1
        for index in bits(nodes):
            self._changed_at.pop(index, None)
            self._changed_at[index] = self._count

    def nodes_to_search(
        self, kind: Kind, project: str, slack: Mapping[str, int], changed: int, now: float
    ) -> tuple[int, float]:
        """Return the nodes where a search for victims may succeed, and until when it is known to fail elsewhere.

        ``slack`` is what projects may give; the plan ``changed`` these nodes. The nodes are those changed since
        the closest failure, and those of projects that may give more than then.
        """
        known = self._searches.get(kind, {})
        own = [known[project]] if project in known else []
        closest: tuple[Failure, list[str]] | None = None
        for failure in (*own, *islice(reversed(known.values()), MAX_OTHER_PROJECTS)):
            if now >= failure.until:
                continue
            more = [name for name, given in slack.items() if given > failure.slack.get(name, 0)]
            if len(more) <= MAX_CHANGED_PROJECTS and (closest is None or len(more) < len(closest[1])):
                closest = (failure, more)
            if not more:
                break
        if closest is None:
            return EVERYWHERE, inf
        failure, giving_more = closest
        since = takewhile(lambda change: change[1] > failure.at, reversed(self._changed_at.items()))
        nodes = changed | mask_of(index for index, _ in since)
        for name in giving_more:
            nodes |= mask_of(self._state.running[name].on_node)
        return nodes, failure.until

    def record_search(self, kind: Kind, project: str, slack: Mapping[str, int], until: float) -> None:
        """Record a search for victims on all nodes that failed, and will fail until then."""
        known = self._searches.setdefault(kind, {})
        known.pop(project, None)
        known[project] = Failure(slack, self._count, until)
        if len(known) > MAX_ENTRIES:
            del known[next(iter(known))]
