"""Whose turn it is: the best waiting job of the best project, level by level down the tree."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from springtide.scheduler.model import Job
from springtide.scheduler.policy.lines import Shape, Turn
from springtide.scheduler.policy.tree import Seat, Tree

Key = tuple[bool, int, bool, float, float, int, int, str]

AFTER_ALL_STEPS = 1 << 30
"""In a turn, in place of the step: growth comes after all waiting jobs of equal priority."""

KEPT = 4
"""How many ways of looking at all leaves are kept. Mostly a few GPUs are free, or a whole node."""

CROWDED = 16
"""Entries per project, most of them outdated, after which turns are worked out anew."""


class Claim(NamedTuple):
    """What has its turn: a waiting job that wants to start, or a running one that wants one more worker."""

    turn: Turn
    job: Job
    shape: Shape
    grows: bool = False

    @property
    def need(self) -> int:
        """GPUs it takes."""
        return self.job.gpus if self.grows else self.shape.need


class Entry(NamedTuple):
    """A project in its parent's heap. It counts only while ``stamp`` is the project's latest."""

    key: Key
    stamp: int
    seat: Seat


Head = Callable[[Seat], Claim | None]
"""Gives a leaf's next claim, or None."""


class Turns:
    """Hands out turns among some leaves.

    ``stale`` are projects that are not as they were when the turns were worked out last, or will not stay so.
    """

    def __init__(self, leaves: Iterable[Seat], head: Head) -> None:
        self.stale: dict[int, Seat] = {id(leaf): leaf for leaf in leaves}
        self._heaps: dict[int, list[Entry]] = {}
        self._stamps: dict[int, int] = {}
        self._claims: dict[int, Claim | None] = {}
        self._count = 0
        self.renew(head)

    def top(self) -> tuple[Seat, Claim] | None:
        """The leaf whose turn it is and its item; None when nobody has one."""
        entry = self._best(None)
        while entry is not None:
            seat = entry.seat
            below = self._best(seat)
            if below is None:
                claim = self._claims[id(seat)]
                assert claim is not None
                return seat, claim
            entry = below
        return None

    def renew(self, head: Head) -> None:
        """Look again at all that is stale, and at all above it, each project once."""
        self._head = head
        levels: dict[int, dict[int, Seat]] = {}
        for stale in self.stale.values():
            for seat in stale.path:
                levels.setdefault(len(seat.path), {})[id(seat)] = seat
        for depth in sorted(levels, reverse=True):
            for seat in levels[depth].values():
                self._look_at(seat)
        self.stale.clear()

    @property
    def crowded(self) -> bool:
        """Whether there are many more entries that do not count any more than those that do."""
        return self._count > CROWDED * (len(self._stamps) + 1)

    def moved(self, leaf: Seat) -> None:
        """What this leaf holds has changed, but not who waits there; it may not take part at all."""
        if id(leaf) in self._stamps:
            self.refresh(leaf)

    def refresh(self, leaf: Seat) -> None:
        """Look again at a leaf whose claim, or what it holds, has changed, and at all above it."""
        self.stale[id(leaf)] = leaf
        for seat in leaf.path:
            self._look_at(seat)

    def _look_at(self, seat: Seat) -> None:
        if seat.children:
            best = self._best(seat)
            claim = self._claims[id(best.seat)] if best is not None else None
        else:
            claim = self._head(seat)
        self._claims[id(seat)] = claim
        if claim is None:
            self._stamps[id(seat)] = 0
            return
        self._count += 1
        self._stamps[id(seat)] = self._count
        entry = Entry(_key(seat, claim.need), self._count, seat)
        heappush(self._heaps.setdefault(id(seat.parent), []), entry)

    def _best(self, parent: Seat | None) -> Entry | None:
        heap = self._heaps.get(id(parent))
        while heap:
            if self._stamps[id(heap[0].seat)] == heap[0].stamp:
                return heap[0]
            heappop(heap)
        return None


class KeptTurns:
    """Turns among all leaves that are kept from plan to plan, for the latest few ways of looking at them.

    Who has changed has to be told to `note`; all others are taken to stand as before.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._kept: OrderedDict[Hashable, Turns] = OrderedDict()

    def note(self, seat: Seat) -> None:
        """The project's lines, or what it holds or is entitled to, have changed."""
        for turns in self._kept.values():
            turns.stale[id(seat)] = seat

    def among_all(self, way: Hashable, head: Head, stale: Iterable[Seat]) -> Turns:
        """The turns by ``head``, which gives the same for the same ``way``, but for the ``stale`` just now."""
        turns = self._kept.get(way)
        for_now = {id(seat): seat for seat in stale}
        if turns is None or turns.crowded:
            turns = self._kept[way] = Turns(self._tree.leaves.values(), head)
        else:
            turns.stale |= for_now
            turns.renew(head)
        turns.stale |= for_now
        self._kept.move_to_end(way)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return turns


def _key(seat: Seat, need: int) -> Key:
    """Where a project whose next job needs ``need`` GPUs stands among its siblings; the smallest goes first."""
    entitled = seat.entitled
    divisor = max(entitled, 1)
    return (
        seat.claimed + need > seat.quota,
        -seat.priority,
        entitled <= 0,
        (seat.claimed + need) / divisor,
        seat.claimed / divisor,
        entitled,
        seat.age,
        seat.name,
    )
