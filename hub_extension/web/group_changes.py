"""Changes of the hub's groups that the pool makes: a read that overlaps one says nothing about its group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class GroupChanges:
    """Which groups the pool changes, or has changed since a read of the hub began.

    A change lasts from the request to the hub until the pool has recorded it. ``done`` is called after each.
    """

    def __init__(self) -> None:
        self.done: Callable[[], None] = lambda: None
        self._count = 0
        self._open: Counter[str] = Counter()
        self._ended: dict[str, int] = {}

    @contextmanager
    def making(self, *groups: str) -> Iterator[None]:
        """Mark groups as being changed, until the change is recorded."""
        self._open.update(groups)
        try:
            yield
        finally:
            self._open -= Counter(groups)
            self._count += 1
            self._ended.update(dict.fromkeys(groups, self._count))
            self.done()

    def mark(self) -> int:
        """Return the present point among the changes, for a read that begins now."""
        return self._count

    def since(self, mark: int) -> frozenset[str]:
        """Return the groups of all changes that had not ended at ``mark``, or began after it."""
        return frozenset({*self._open, *(group for group, count in self._ended.items() if count > mark)})
