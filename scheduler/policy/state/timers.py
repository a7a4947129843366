"""Times at which something is due, by key."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf


class Timers:
    """One time per key, in seconds. A change costs the logarithm of their number."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, key: str, at: float) -> None:
        """Set or replace the time of a key; infinity stands for none."""
        self._times[key] = at
        if at < inf:
            heappush(self._heap, (at, key))

    def discard(self, key: str) -> None:
        """Remove the time of a key, if it has one."""
        self._times.pop(key, None)

    def next_time(self) -> float:
        """Return the earliest time, or infinity."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def due(self, now: float) -> list[str]:
        """Remove the keys whose time has come, and return them in the order of their times."""
        found: list[str] = []
        while self.next_time() <= now:
            found.append(heappop(self._heap)[1])
            del self._times[found[-1]]
        return found
