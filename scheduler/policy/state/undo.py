"""An undo log, with which the policy tries changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class UndoLog:
    """The undo step of each change since the last `commit`, in order."""

    def __init__(self) -> None:
        self._steps: list[tuple[Callable[..., None], tuple[object, ...]]] = []

    def record(self, undo: Callable[..., None], *args: object) -> None:
        """Record a change that ``undo(*args)`` reverts."""
        self._steps.append((undo, args))

    def mark(self) -> int:
        """Return a mark for `roll_back`."""
        return len(self._steps)

    def roll_back(self, mark: int) -> None:
        """Revert all changes since the mark, the last one first, and forget what the reverts record."""
        for undo, args in self._steps[mark:][::-1]:
            undo(*args)
        del self._steps[mark:]

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Revert all changes of the block at its end."""
        mark = self.mark()
        try:
            yield
        finally:
            self.roll_back(mark)

    def commit(self) -> None:
        """Make all changes so far permanent."""
        self._steps.clear()
