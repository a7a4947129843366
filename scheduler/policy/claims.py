"""Who may make room for a waiting job: the rules of reclaiming, preempting and moving."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Protocol

from springtide.scheduler.model import Job, Order
from springtide.scheduler.policy.fair_share import UNLIMITED
from springtide.scheduler.policy.lines import step_of
from springtide.scheduler.policy.state import State
from springtide.scheduler.policy.tree import Seat, sides


class Rule(Protocol):
    """Says which running jobs may give way. Asked again and again while some are being taken.

    ``only`` are the ids of the jobs that may, where not all jobs of the open projects do. ``barrier`` is the
    project above which nobody may be asked to give while those below it hold as much as they do.
    """

    only: frozenset[str] | None
    barrier: Seat | None

    def leaves(self) -> Iterator[Seat]:
        """The projects whose jobs may give way."""

    def slack(self, leaf: Seat) -> int:
        """How many GPUs the project may lose, as things stand; the last job may take it beyond."""

    def look_again(self) -> bool:
        """Find the barrier anew after some have given; whether it is another one."""

    def reaches(self, victims: Iterable[Job]) -> bool:
        """Whether all of these jobs are where somebody may be asked to give, as things stand."""

    def kind(self, job: Job) -> str:
        """What it is called when this job gives way: the code of its reason."""


class Reclaim:
    """Take back from other projects what they hold beyond their due.

    Only as far up the tree as those who are helped stay within what they are entitled to.
    """

    only: frozenset[str] | None = None

    def __init__(self, state: State, leaf: Seat, need: int) -> None:
        self._state = state
        self._leaf = leaf
        self._need = need
        self._helped: tuple[Seat, ...] = ()
        self.barrier: Seat | None = None
        self.look_again()

    def look_again(self) -> bool:
        """Go up the tree as far as those who are helped stay within what they are entitled to."""
        path, before = self._leaf.path, self.barrier
        self._helped = tuple(takewhile(lambda seat: seat.claimed + self._need <= seat.entitled, path))
        self.barrier = path[len(self._helped)] if len(self._helped) < len(path) else None
        return self.barrier is not before

    def reaches(self, victims: Iterable[Job]) -> bool:
        """Whether all of them are below siblings of those who may be helped."""
        pairs = (sides(self._leaf, self._state.leaf_of(job)) for job in victims)
        return all(pair is not None and pair[0] in self._helped for pair in pairs)

    def leaves(self) -> Iterator[Seat]:
        """All leaves below siblings that hold more than their due."""
        for seat in self._helped:
            siblings = seat.parent.children if seat.parent is not None else self._state.tree.roots
            for sibling in siblings:
                if sibling is not seat and self._overdrawn(seat, sibling):
                    yield from _leaves_below(sibling)

    def slack(self, leaf: Seat) -> int:
        """Compared below the lowest common ancestor; a project within its quota is never touched."""
        pair = sides(self._leaf, leaf)
        if pair is None or pair[0] not in self._helped:
            return 0
        return min(self._overdrawn(*pair), _beyond_quotas(leaf, pair[1]))

    def balanced(self, victims: Iterable[Job]) -> bool:
        """Whether nobody was helped to borrow by those who may claim it back at once within their quota."""
        for job in victims:
            leaf = self._state.leaf_of(job)
            pair = sides(self._leaf, leaf)
            if pair is not None:
                mine, theirs = pair
                back = min(job.gpus * job.min_workers, self._state.lines[leaf.name].smallest or UNLIMITED)
                if mine.claimed + self._need > mine.quota and theirs.claimed + back <= theirs.quota:
                    return False
        return True

    def kind(self, job: Job) -> str:
        """Reclaiming."""
        return "reclaimed" if job is not None else ""

    def _overdrawn(self, mine: Seat, theirs: Seat) -> int:
        """How many GPUs their side has to give to mine.

        What it holds beyond its quota, as long as mine stays within its own; else what it holds beyond what it is
        entitled to. But nobody borrows at the expense of a project of higher priority that is within its limit.
        """
        if mine.claimed + self._need <= mine.quota:
            return max(0, theirs.claimed - theirs.quota)
        if theirs.priority > mine.priority:
            return max(0, theirs.claimed - theirs.limit)
        return max(0, theirs.claimed - theirs.entitled)


class Preempt:
    """Take from jobs of the same project that are less urgent, or equal ones that have had more service.

    How long the job has waited plays no part in that: it would have to give way again at once.
    """

    def __init__(self, state: State, leaf: Seat, job: Job, now: float, *, rotates: bool) -> None:
        self._leaf = leaf
        self._job = job
        runners = state.runners[leaf.name]
        jobs = runners.less_urgent(job.priority)
        if rotates and state.settings.order is Order.LEAST_SERVED:
            ripe = runners.ripening.ripe(step_of(job.served), now)
            jobs += [each for each in ripe if each.priority == job.priority]
        self.only: frozenset[str] | None = frozenset(each.id for each in jobs)
        self.barrier: Seat | None = None

    def look_again(self) -> bool:
        """The job's own project is all there is."""
        return False

    def reaches(self, victims: Iterable[Job]) -> bool:
        """Whether they are the project's own."""
        return all(job.id in (self.only or ()) for job in victims)

    def leaves(self) -> Iterator[Seat]:
        """The job's own project."""
        yield self._leaf

    def slack(self, leaf: Seat) -> int:
        """All that the job's own project holds."""
        return leaf.claimed if leaf is self._leaf else 0

    def kind(self, job: Job) -> str:
        """Preempting a less urgent job, or rotating with an equal one."""
        return "preempted" if job.priority < self._job.priority else "rotated"


def _leaves_below(seat: Seat) -> Iterator[Seat]:
    if not seat.children:
        yield seat
    for child in seat.children:
        if child.claimed:
            yield from _leaves_below(child)


def _beyond_quotas(leaf: Seat, top: Seat) -> int:
    """How many GPUs can be taken on the way up to ``top`` before a project is within a quota that is its own.

    Where the quotas of siblings add up to more than their parent's, theirs are not.
    """
    least = UNLIMITED
    for seat in reversed(leaf.path[: leaf.path.index(top) + 1]):
        least = min(least, seat.claimed - seat.quota)
        if seat.loose:
            break
    return max(0, least)
