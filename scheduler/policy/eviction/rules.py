"""Rules for evictions: reclaim, turn, preempt and lowered limits (docs/policy.md, The rules and their places)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import takewhile
from math import inf

from springtide.scheduler.model import Job, Order
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.projects import UNLIMITED, ProjectNode, sides
from springtide.scheduler.policy.state.service import level_of


class Rule(ABC):
    """Which jobs may be evicted. The defaults suit rules within a single project."""

    candidate_ids: frozenset[str] | None = None
    """Ids of the candidates; None for all jobs of the open projects."""
    guaranteed = False
    """Whether the request stays within its project's quota."""
    barrier: ProjectNode | None = None
    """The lowest project above which no project may lose GPUs."""

    @abstractmethod
    def subtrees(self) -> Iterable[ProjectNode]:
        """Return the projects that, with all below them, are the only ones that may lose GPUs."""

    @abstractmethod
    def slack(self, project: ProjectNode) -> int:
        """Return how many GPUs the project may lose, 0 outside of `subtrees`.

        The last eviction may exceed it. No project below it may lose more.
        """

    def most_lost(self, project: ProjectNode) -> float:
        """Return a bound on `slack` of one of the `subtrees`, whatever else is evicted."""
        return inf

    def reason_code(self, victim: Job) -> str:
        """Return the code of the reason why this victim is evicted."""
        return "reclaimed"

    def refresh_barrier(self) -> bool:
        """Compute the barrier for the present usage; return whether it has changed."""
        return False

    def moves_barrier(self, gpus: float) -> bool:
        """Return whether the loss of ``gpus`` GPUs below the barrier would move it."""
        return False

    def covers(self, victims: Iterable[Job]) -> bool:
        """Return whether all victims are on this side of the barrier."""
        return True

    def permits(self, victim: Job, gpus: int = 0) -> bool:
        """Return whether the victim, after the eviction of ``gpus`` more, could not claim GPUs back at once."""
        return True


class ReclaimRule(Rule):
    """Take GPUs back from other projects that hold more than their due.

    ``helped`` are the project and its ancestors, as far up the tree as all of them stay within their entitlement;
    their siblings may lose GPUs. The barrier is the project above them, if any. Evictions below the barrier can
    move it.
    """

    def __init__(self, state: ClusterState, leaf: ProjectNode, need: int) -> None:
        self.guaranteed = leaf.claimed + need <= leaf.quota
        self._state = state
        self._leaf = leaf
        self._need = need
        self._helped: tuple[ProjectNode, ...] = ()
        self.refresh_barrier()

    def refresh_barrier(self) -> bool:
        """Compute which ancestors are helped, and the barrier above them."""
        path, before = self._leaf.path, self.barrier
        self._helped = tuple(takewhile(lambda project: project.claimed + self._need <= project.entitled, path))
        self.barrier = path[len(self._helped)] if len(self._helped) < len(path) else None
        return self.barrier is not before

    def moves_barrier(self, gpus: float) -> bool:
        """Return whether the project above the ``helped`` ones would be within its entitlement as well."""
        above = self.barrier
        return above is not None and above.claimed - gpus + self._need <= above.entitled

    def covers(self, victims: Iterable[Job]) -> bool:
        """Return whether all victims are below ancestors that are helped."""
        self.refresh_barrier()
        pairs = (sides(self._leaf, self._state.leaf_of(job)) for job in victims)
        return all(pair is not None and pair[0] in self._helped for pair in pairs)

    def subtrees(self) -> Iterable[ProjectNode]:
        """Return the siblings of the ``helped`` projects."""
        for project in self._helped:
            siblings = self._state.tree.roots if project.parent is None else project.parent.children
            yield from (sibling for sibling in siblings if sibling is not project)

    def slack(self, project: ProjectNode) -> int:
        """Return how many GPUs its side may lose to the other, above the quotas on its path."""
        pair = sides(self._leaf, project)
        if pair is None or pair[0] not in self._helped:
            return 0
        overdrawn = self._overdrawn(*pair)
        return min(overdrawn, _above_quotas(project, pair[1])) if overdrawn else 0

    def most_lost(self, project: ProjectNode) -> float:
        """Return the slack; above the first level evictions may let their side lose all GPUs beyond its quota."""
        if project.parent is self._leaf.parent:
            return self.slack(project)
        return max(0, project.claimed - project.quota)

    def permits(self, victim: Job, gpus: int = 0) -> bool:
        """Return whether the request is within quota, or the victim's side could not claim the GPUs back."""
        leaf = self._state.leaf_of(victim)
        pair = sides(self._leaf, leaf)
        if pair is None or pair[0].claimed + self._need <= pair[0].quota:
            return True
        back = min(victim.need, self._state.queues[leaf.name].smallest or UNLIMITED)
        return pair[1].claimed - gpus + back > pair[1].quota

    def _overdrawn(self, mine: ProjectNode, theirs: ProjectNode) -> int:
        """Return how many GPUs their side may lose to mine.

        If mine stays within its quota, these are the GPUs beyond their quota; else those beyond their entitlement.
        """
        if mine.claimed + self._need <= mine.quota:
            return max(0, theirs.claimed - theirs.quota)
        return max(0, theirs.claimed - theirs.entitled)


class TurnRule(ReclaimRule):
    """Take GPUs of projects beyond their entitlements, for a job beyond the entitlement of its own."""

    def __init__(self, state: ClusterState, leaf: ProjectNode, need: int) -> None:
        super().__init__(state, leaf, need)
        self.guaranteed = False

    def refresh_barrier(self) -> bool:
        """Return that there is no barrier: all ancestors are helped."""
        self._helped = self._leaf.path
        return False


class PreemptRule(Rule):
    """Take GPUs from jobs of the same project with a lower priority, or an equal one and more service.

    Service is the GPU time that they had, or the usual GPU time of similar jobs if that is more. The waiting time
    of the job does not count: the job would be rotated back at once.
    """

    def __init__(self, state: ClusterState, leaf: ProjectNode, job: Job, now: float, *, rotates: bool) -> None:
        self._leaf = leaf
        self._job = job
        self._now = now
        running = state.running[leaf.name]
        found = running.by_priority.up_to(job.priority - 1)
        if rotates and state.settings.order is Order.LEAST_SERVED:
            ripe = running.ripe_times(level_of(job)).up_to(now)
            equal = (state.jobs[job_id] for job_id in ripe if state.jobs[job_id].priority == job.priority)
            found += [other.id for other in equal if other.not_before <= now]
        self.candidate_ids = frozenset(found)

    def subtrees(self) -> Iterable[ProjectNode]:
        """Return the job's own project."""
        return (self._leaf,)

    def slack(self, project: ProjectNode) -> int:
        """Return all claimed GPUs of the job's own project."""
        return project.claimed if project is self._leaf else 0

    def reason_code(self, victim: Job) -> str:
        """Return the code for a less urgent victim, one with more service, or one that will need more of it."""
        if victim.priority < self._job.priority:
            return "preempted"
        had_less = victim.sweep_served + victim.served_by(self._now) < self._job.attained
        return "rotated-for-shorter" if had_less else "rotated"


class LimitRule(Rule):
    """Take GPUs from jobs of a project beyond its limit; from subprojects only the GPUs beyond their quotas."""

    def __init__(self, project: ProjectNode) -> None:
        self._project = project

    def subtrees(self) -> Iterable[ProjectNode]:
        """Return the project."""
        return (self._project,)

    def slack(self, project: ProjectNode) -> int:
        """Return how many GPUs it holds beyond the limit, and beyond its own quota."""
        limited = self._project
        if limited not in project.path:
            return 0
        excess = max(0, limited.claimed - limited.limit)
        if project is limited:
            return excess
        top = project.path[project.path.index(limited) - 1]
        return min(excess, _above_quotas(project, top, _not_honoured(limited, limited.limit)))


def _above_quotas(below: ProjectNode, top: ProjectNode, lost: int = 0) -> int:
    """Return how many GPUs can be taken before a project from ``below`` up to ``top`` is within its own quota.

    It may lose as many GPUs of its quota as quotas are not honoured beside it: ``lost`` at the top.
    """
    least = UNLIMITED
    for project in reversed(below.path[: below.path.index(top) + 1]):
        least = min(least, max(0, project.claimed - project.quota) + lost)
        lost = _not_honoured(project, project.quota - lost)
    return least


def _not_honoured(project: ProjectNode, room: int) -> int:
    """Return how many GPUs children hold within their quotas beyond the room that their parent has for them.

    0 as long as other children hold GPUs beyond their quotas, which are taken first.
    """
    if not project.oversubscribed and room >= project.quota:
        return 0
    return max(0, sum(min(child.claimed, child.quota) for child in project.children) - room)
