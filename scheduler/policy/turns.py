"""Whose turn it is: the best waiting job of the best project, level by level down the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from springtide.scheduler.policy.tree import Seat, Tree

Key = tuple[bool, int, bool, float, float, int, int, str]
Item = TypeVar("Item")


def claim(seat: Seat, need: int) -> Key:
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


class Entry(NamedTuple):
    """A project in its parent's heap. It counts only while ``stamp`` is the project's latest."""

    key: Key
    order: int
    stamp: int
    seat: Seat


class Turns(Generic[Item]):
    """Hands out turns among some leaves. ``head`` gives a leaf's next item and the GPUs it needs, or None."""

    def __init__(
        self, tree: Tree, leaves: Iterable[Seat], head: Callable[[Seat], tuple[Item, int] | None]
    ) -> None:
        self._tree = tree
        self._head = head
        self._heaps: dict[int, list[Entry]] = {}
        self._stamps: dict[int, int] = {}
        self._items: dict[int, tuple[Item, int] | None] = {}
        self._count = 0
        self._build(leaves)

    def top(self) -> tuple[Seat, Item] | None:
        """The leaf whose turn it is and its item; None when nobody has one."""
        entry = self._best(None)
        while entry is not None:
            seat = entry.seat
            below = self._best(seat)
            if below is None:
                item = self._items[id(seat)]
                assert item is not None
                return seat, item[0]
            entry = below
        return None

    def _build(self, leaves: Iterable[Seat]) -> None:
        """Fill the heaps from the leaves upwards, each project once."""
        levels: dict[int, dict[int, Seat]] = {}
        for leaf in leaves:
            item = self._head(leaf)
            if item is not None:
                self._heaps.setdefault(id(leaf.parent), []).append(self._entry(leaf, item))
                for depth, seat in enumerate(reversed(leaf.path[1:])):
                    levels.setdefault(depth, {})[id(seat)] = seat
        for depth in sorted(levels, reverse=True):
            for seat in levels[depth].values():
                heap = self._heaps[id(seat)]
                heapify(heap)
                if (item := self._items[id(heap[0].seat)]) is not None:
                    self._heaps.setdefault(id(seat.parent), []).append(self._entry(seat, item))
        heapify(self._heaps.setdefault(id(None), []))

    def _push(self, seat: Seat, item: tuple[Item, int]) -> None:
        heappush(self._heaps.setdefault(id(seat.parent), []), self._entry(seat, item))

    def _entry(self, seat: Seat, item: tuple[Item, int]) -> Entry:
        self._items[id(seat)] = item
        self._count += 1
        self._stamps[id(seat)] = self._count
        return Entry(claim(seat, item[1]), self._count, self._count, seat)

    def moved(self, leaf: Seat) -> None:
        """What this leaf holds has changed, but not who waits there; it may not take part at all."""
        if id(leaf) in self._stamps:
            self.refresh(leaf)

    def refresh(self, leaf: Seat) -> None:
        """Look again at a leaf whose item, or what it holds, has changed, and at all above it."""
        item = self._head(leaf)
        for seat in leaf.path:
            if seat is not leaf:
                best = self._best(seat)
                item = self._items[id(best.seat)] if best is not None else None
            if item is not None:
                self._push(seat, item)
            else:
                self._items[id(seat)] = None
                self._stamps[id(seat)] = 0

    def _best(self, parent: Seat | None) -> Entry | None:
        heap = self._heaps.get(id(parent))
        while heap:
            if self._stamps[id(heap[0].seat)] == heap[0].stamp:
                return heap[0]
            heappop(heap)
        return None
