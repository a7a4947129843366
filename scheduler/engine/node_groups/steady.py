"""How many nodes are asked for, without following each passing change; pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Observed:
    at: float
    size: int
    more: int


class SteadyRequest:
    """A request for nodes of one group that follows what is wanted only when that has stayed for a time.

    The size of the group that is aimed at rises to the least, and falls to the most, that was wanted in the last
    ``window`` seconds: a job that waits for a moment between two plans asks for no node, and one that starts late
    takes no request back. A node that joins is asked for no longer, at once; one that leaves is not asked for
    again unless somebody waits. Before ``window`` seconds have passed, what was ``asked`` for before stays.
    """

    def __init__(self, present: int, asked: int, window: float) -> None:
        self._size = present + asked
        self._most = asked
        self._window = window
        self._seen: deque[_Observed] = deque()
        self._began: float | None = None

    def follow(self, present: int, more: int, now: float) -> int:
        """Return for how many nodes to ask, where ``more`` than the ``present`` ones are wanted now.

        ``now`` is in seconds and never goes back.
        """
        self._began = now if self._began is None else self._began
        self._seen.append(_Observed(now, present + more, more))
        while len(self._seen) > 1 and self._seen[1].at <= now - self._window:
            self._seen.popleft()
        if now - self._began >= self._window:
            sizes = [each.size for each in self._seen]
            self._size = min(max(self._size, min(sizes)), max(sizes))
            self._most = max(each.more for each in self._seen)
        return max(0, min(self._size - present, self._most))
