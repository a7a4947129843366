"""Negative cache: searches for victims that found nothing.

A search for victims for one worker that failed need only look at nodes that have changed since, and at nodes of
projects that may give more GPUs than then.
"""

from __future__ import annotations

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
        self._changes: list[int] = []
        self._dropped = 0
        self._searches: dict[Kind, dict[str, Failure]] = {}

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
        the closest failure, and those of projects that may give more than then.
        """
        known = self._searches.get(kind, {})
        own = [known[project]] if project in known else []
        closest: tuple[Failure, list[str]] | None = None
        for failure in (*own, *islice(reversed(known.values()), MAX_OTHER_PROJECTS)):
            if now >= failure.until or failure.at < self._dropped:
                continue
            more = [name for name, given in slack.items() if given > failure.slack.get(name, 0)]
            if len(more) <= MAX_CHANGED_PROJECTS and (closest is None or len(more) < len(closest[1])):
                closest = (failure, more)
            if not more:
                break
        if closest is None:
            return EVERYWHERE, inf
        failure, giving_more = closest
        nodes = changed | mask_of(self._changes[failure.at - self._dropped :])
        for name in giving_more:
            nodes |= mask_of(self._state.running[name].on_node)
        return nodes, failure.until

    def record_search(self, kind: Kind, project: str, slack: Mapping[str, int], until: float) -> None:
        """Record a search for victims on all nodes that failed, and will fail until then."""
        known = self._searches.setdefault(kind, {})
        known.pop(project, None)
        known[project] = Failure(slack, self._dropped + len(self._changes), until)
        if len(known) > MAX_ENTRIES:
            del known[next(iter(known))]
