"""An undo log, with which the policy tries changes."""

from __future__ import annotations

from collections.abc import Callable


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

    def trial(self) -> Trial:
        """Return a context that reverts all changes of its block at its end."""
        return Trial(self)

    def commit(self) -> None:
        """Make all changes so far permanent."""
        self._steps.clear()


class Trial:
    """A context that reverts all changes of its block at its end.

    A class, as a plan enters tens of them, and each generator in its place would take three times as long.
    """

    __slots__ = ("_log", "_mark")

    def __init__(self, log: UndoLog) -> None:
        self._log = log

    def __enter__(self) -> None:
        self._mark = self._log.mark()

    def __exit__(self, *_: object) -> None:
        self._log.roll_back(self._mark)
