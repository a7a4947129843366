"""A bounded cache that drops the least recently used entries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A mapping of bounded total weight; getting or setting an entry makes it the most recently used.

    ``capacity`` is the maximum total weight and ``weigh`` the weight of a value, 1 by default. A value that is
    heavier than the capacity is not kept.
    """

    def __init__(self, capacity: int, weigh: Callable[[V], int] = lambda _value: 1) -> None:
        if capacity < 1:
            raise ValueError(f"The capacity of a cache must be at least 1, not {capacity}.")
        self._capacity = capacity
        self._weigh = weigh
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return the value of a key, None if it is not in the cache."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: K, value: V) -> None:
        """Insert or replace an entry, and drop the least recently used ones beyond the capacity."""
        self.discard(key)
        weight = self._weigh(value)
        if weight > self._capacity:
            return
        self._entries[key] = value
        self._weight += weight
        while self._weight > self._capacity:
            self._weight -= self._weigh(self._entries.popitem(last=False)[1])

    def get_or_put(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, inserting the one that ``make`` returns if there is none."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def discard(self, key: K) -> None:
        """Remove an entry, if there is one."""
        if key in self._entries:
            self._weight -= self._weigh(self._entries.pop(key))
