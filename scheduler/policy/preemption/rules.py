"""Which running jobs may be evicted for a waiting one: reclaim and preempt (DESIGN §4, cycle)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import takewhile

from springtide.scheduler.model import Job, Order
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.projects import UNLIMITED, ProjectNode, sides
from springtide.scheduler.policy.state.service import level_of


class Rule(ABC):
    """Who may be evicted. The defaults are those of a rule that looks at one project only."""

    candidate_ids: frozenset[str] | None = None
    """Ids of the jobs that may be evicted; None for all jobs of the open projects."""
    guaranteed = False
    """Whether the request stays within its project's quota."""
    barrier: ProjectNode | None = None
    """The lowest project above which no other project may be asked."""
    code = "reclaimed"
    """Code of the reason why a victim is evicted."""

    @abstractmethod
    def open_leaves(self) -> Iterator[tuple[ProjectNode, int]]:
        """Yield the leaves that may lose GPUs, each with its slack."""

    @abstractmethod
    def slack(self, leaf: ProjectNode) -> int:
        """Return how many GPUs the project may lose; its last job may take it beyond."""

    def reason_code(self, victim: Job) -> str:
        """Return the code of the reason why this victim is evicted."""
        return self.code

    def refresh_barrier(self) -> bool:
        """Compute the barrier for the present usage; return whether it has changed."""
        return False

    def covers(self, victims: Iterable[Job]) -> bool:
        """Tell whether all victims are on this side of the barrier."""
        return True

    def permits(self, victims: Iterable[Job]) -> bool:
        """Tell whether no borrower is helped at the cost of a project that could claim the GPUs back at once."""
        return True


class ReclaimRule(Rule):
    """Take GPUs back from other projects that hold more than their due.

    Projects may be asked as far up the tree as all projects on the way stay within what they are entitled to:
    ``helped``. The barrier is the project above them, if any. Evictions below the barrier change that.
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

    def covers(self, victims: Iterable[Job]) -> bool:
        """Tell whether the request is not guaranteed, or all victims are below ancestors that are helped."""
        if not self.guaranteed:
            return True
        self.refresh_barrier()
        pairs = (sides(self._leaf, self._state.leaf_of(job)) for job in victims)
        return all(pair is not None and pair[0] in self._helped for pair in pairs)

    def open_leaves(self) -> Iterator[tuple[ProjectNode, int]]:
        """Yield the leaves below siblings that hold more than their due."""
        for project in self._helped:
            siblings = project.parent.children if project.parent is not None else self._state.tree.roots
            for sibling in siblings:
                if sibling is not project:
                    yield from _leaves_below(sibling, self._overdrawn(project, sibling))

    def slack(self, leaf: ProjectNode) -> int:
        """Return what its side has to give, above the quotas on its path."""
        pair = sides(self._leaf, leaf)
        if pair is None or pair[0] not in self._helped:
            return 0
        return min(self._overdrawn(*pair), _above_quotas(leaf, pair[1]))

    def permits(self, victims: Iterable[Job]) -> bool:
        """Tell whether no victim could claim the GPUs back at once, unless the request is within quota."""
        for job in victims:
            leaf = self._state.leaf_of(job)
            pair = sides(self._leaf, leaf)
            if pair is not None:
                mine, theirs = pair
                back = min(job.gpus * job.min_workers, self._state.queues[leaf.name].smallest or UNLIMITED)
                if mine.claimed + self._need > mine.quota and theirs.claimed + back <= theirs.quota:
                    return False
        return True

    def _overdrawn(self, mine: ProjectNode, theirs: ProjectNode) -> int:
        """Return how many GPUs their side has to give to mine.

        What it holds beyond its quota if mine stays within its own; else what it holds beyond what it is entitled
        to. But nobody borrows at the expense of a project of higher priority that is within its limit, unless the
        surplus goes to the least served.
        """
        if mine.claimed + self._need <= mine.quota:
            return max(0, theirs.claimed - theirs.quota)
        if theirs.priority > mine.priority and not theirs.by_service:
            return max(0, theirs.claimed - theirs.limit)
        return max(0, theirs.claimed - theirs.entitled)


class PreemptRule(Rule):
    """Take GPUs from jobs of the same project with a lower priority, or an equal one and more service.

    Service is what they had, or usually need where that is more.

    The waiting time of the job does not count for that: the job would be rotated back at once.
    """

    def __init__(self, state: ClusterState, leaf: ProjectNode, job: Job, now: float, *, rotates: bool) -> None:
        self._leaf = leaf
        self._job = job
        self._now = now
        running = state.running[leaf.name]
        found = running.by_priority.up_to(job.priority - 1)
        if rotates and state.settings.order is Order.LEAST_SERVED:
            ripe = running.ripe_times(level_of(job)).up_to(now)
            found += [each for each in ripe if state.jobs[each].priority == job.priority]
        self.candidate_ids = frozenset(found)

    def open_leaves(self) -> Iterator[tuple[ProjectNode, int]]:
        """Yield the job's own project."""
        yield self._leaf, self.slack(self._leaf)

    def slack(self, leaf: ProjectNode) -> int:
        """Return all that the job's own project holds."""
        return leaf.claimed if leaf is self._leaf else 0

    def reason_code(self, victim: Job) -> str:
        """Return whether the victim is less urgent, had more service, or will usually need more of it."""
        if victim.priority < self._job.priority:
            return "preempted"
        had_less = victim.sweep_served + victim.served_by(self._now) < self._job.attained
        return "rotated-for-shorter" if had_less else "rotated"


class LimitRule(Rule):
    """Take GPUs from jobs of a project beyond its limit; from borrowed ones only, where quotas hold."""

    code = "limit-lowered"

    def __init__(self, project: ProjectNode) -> None:
        self._project = project

    def open_leaves(self) -> Iterator[tuple[ProjectNode, int]]:
        """Yield the leaves of the project."""
        project, excess = self._project, self._project.claimed - self._project.limit
        if not project.children:
            yield project, excess
        for child in project.children:
            yield from _leaves_below(child, excess, _not_honoured(project, project.limit))

    def slack(self, leaf: ProjectNode) -> int:
        """Return what it holds beyond the limit, and beyond its own quota."""
        excess = max(0, self._project.claimed - self._project.limit)
        if leaf is self._project:
            return excess
        top = leaf.path[leaf.path.index(self._project) - 1]
        return min(excess, _above_quotas(leaf, top, _not_honoured(self._project, self._project.limit)))


def _leaves_below(project: ProjectNode, slack: int, lost: int = 0) -> Iterator[tuple[ProjectNode, int]]:
    """Yield the leaves below a project that may lose GPUs, each with how many: ``slack`` at most.

    No project loses more of its quota than in `_above_quotas`.
    """
    slack = min(slack, max(0, project.claimed - project.quota) + lost)
    if slack > 0 and not project.children:
        yield project, slack
    if slack > 0:
        lost = _not_honoured(project, project.quota - lost)
        for child in project.children:
            if child.claimed:
                yield from _leaves_below(child, slack, lost)


def _above_quotas(leaf: ProjectNode, top: ProjectNode, lost: int = 0) -> int:
    """Return how many GPUs can be taken before a project between ``leaf`` and ``top`` is within its own quota.

    It may lose as many GPUs of its quota as quotas are not honoured beside it: ``lost`` at the top.
    """
    least = UNLIMITED
    for project in reversed(leaf.path[: leaf.path.index(top) + 1]):
        least = min(least, max(0, project.claimed - project.quota) + lost)
        lost = _not_honoured(project, project.quota - lost)
    return least


def _not_honoured(project: ProjectNode, room: int) -> int:
    """Return how many GPUs children hold within their quotas beyond the room that their parent has for them.

    None as long as others of them hold GPUs beyond their quotas that can be taken first.
    """
    if not project.oversubscribed and room >= project.quota:
        return 0
    return max(0, sum(min(child.claimed, child.quota) for child in project.children) - room)
