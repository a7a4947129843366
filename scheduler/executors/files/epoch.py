"""Fencing of executors: only the newest owner of the store may make requests."""

from __future__ import annotations

import threading

from springtide.scheduler.executors.base import StaleEpochError
from springtide.scheduler.executors.files.layout import EPOCH, Layout, opened, read_record
from springtide.scheduler.executors.supervisor.records import write_record


class EpochGate:
    """Records the newest epoch that made a request in the directory of jobs, and refuses older ones.

    Threads may share it.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._last: int | None = None
        self._lock = threading.Lock()

    def newest(self) -> int:
        """Return the newest epoch that made a request, 0 if none has."""
        return int((read_record(self._layout.jobs, EPOCH) or {}).get("epoch", 0))

    def check(self, epoch: int | None = None) -> None:
        """Raise `StaleEpochError` for an epoch of a former owner; None means the last epoch of this gate."""
        with self._lock:
            own = self._last if epoch is None else epoch
            if own is None:
                return
            seen = self.newest()
            if own < seen:
                raise StaleEpochError(f"The pool has a newer owner (epoch {seen}, not {own}).")
            self._last = own
            if own > seen:
                with opened(self._layout.jobs) as directory:
                    write_record(directory, EPOCH, {"epoch": own})
