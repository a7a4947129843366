"""Changes that can be taken back, so that the policy may try things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class UndoLog:
    """How to take back each change since the last `commit`, in their order."""

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    def record(self, undo: Callable[..., None], *args: object) -> None:
        """Record a change that ``undo(*args)`` takes back."""
        self._steps.append((undo, args))

    def mark(self) -> int:
        """Return a point that `roll_back` returns to."""
        return len(self._steps)

    def roll_back(self, mark: int) -> None:
        """Take back all changes since the mark, the last one first; what that records itself is forgotten."""
        for undo, args in self._steps[mark:][::-1]:
            undo(*args)
        del self._steps[mark:]

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
