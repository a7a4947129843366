"""Changes that can be taken back, so that the policy may try things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class UndoLog:
    """How to take back each change since the last `commit`, in their order."""

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    def record(self, undo: Callable[..., None], *args: object) -> None:
        """Record a change that ``undo(*args)`` takes back; ``undo`` records nothing itself."""
        self._steps.append((undo, args))

    def mark(self) -> int:
        """Return a point that `roll_back` returns to."""
        return len(self._steps)

    def roll_back(self, mark: int) -> None:
        """Take back all changes since the mark."""
        while len(self._steps) > mark:
            undo, args = self._steps.pop()
            undo(*args)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take back, at the end of the block, all changes that it makes."""
        mark = self.mark()
        try:
            yield
        finally:
            self.roll_back(mark)

    def commit(self) -> None:
        """Make all changes so far permanent."""
        self._steps.clear()
