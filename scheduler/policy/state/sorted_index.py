"""Keys in the order of a number, such as the time at which something is due."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, nextafter

from sortedcontainers import SortedList


class SortedIndex:
    """One number per key. A change costs the logarithm of their number."""

    def __init__(self, numbers: Mapping[str, float] | None = None) -> None:
        self._numbers = dict(numbers or {})
        self._sorted = SortedList((number, key) for key, number in self._numbers.items())

    def set(self, key: str, number: float) -> None:
        """Set or replace the number of a key."""
        before = self._numbers.get(key)
        if before == number:
            return
        if before is not None:
            self._sorted.remove((before, key))
        self._numbers[key] = number
        self._sorted.add((number, key))

    def of(self, key: str) -> float:
        """Return the number of a key, infinity for one that is not there."""
        return self._numbers.get(key, inf)

    def discard(self, key: str) -> None:
        """Remove a key, if it is there."""
        if key in self._numbers:
            self._sorted.remove((self._numbers.pop(key), key))

    def first(self, above: float = -inf) -> float:
        """Return the lowest number above a bound, or infinity."""
        if not self._numbers:
            return inf
        lowest: float = self._sorted[0][0]
        if lowest > above:
            return lowest
        at = self._end(above)
        return self._sorted[at][0] if at < len(self._sorted) else inf

    def ascending(self) -> Iterator[tuple[float, str]]:
        """Yield all numbers and their keys, the lowest first."""
        return iter(self._sorted)

    def lowest(self, count: int) -> list[str]:
        """Return the keys with the lowest numbers."""
        return [key for _, key in self._sorted[:count]]

    def up_to(self, bound: float) -> list[str]:
        """Return the keys with numbers up to a bound, the lowest first."""
        return [key for _, key in self._sorted[: self._end(bound)]]

    def take_up_to(self, bound: float) -> list[str]:
        """Remove the keys with numbers up to a bound, and return them."""
        taken = self.up_to(bound) if self.first() <= bound else []
        for key in taken:
            self.discard(key)
        return taken

    def _end(self, bound: float) -> int:
        """Return the number of keys with numbers up to a bound."""
        return int(self._sorted.bisect_left((nextafter(bound, inf),)))
