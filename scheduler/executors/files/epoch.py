"""Whose acts are obeyed: those of the newest owner of the store."""

from __future__ import annotations

from springtide.scheduler.executors.base import StaleEpochError
from springtide.scheduler.executors.files.layout import Layout, opened, read_record
from springtide.scheduler.executors.supervisor.records import write_record


class EpochGate:
    """Keeps the newest epoch that acted beside the jobs, and lets no older one act."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._mine: int | None = None

    def check(self, epoch: int | None = None) -> None:
        """Raises `StaleEpochError` for an act of a former owner; None is the epoch we ourselves acted in last."""
        mine = self._mine if epoch is None else epoch
        if mine is None:
            return
        seen = (read_record(self._layout.jobs, self._layout.epoch.name) or {}).get("epoch", 0)
        if mine < seen:
            raise StaleEpochError(f"The pool has a newer owner (epoch {seen}, not {mine}).")
        self._mine = mine
        if mine > seen:
            with opened(self._layout.jobs) as directory:
                write_record(directory, self._layout.epoch.name, {"epoch": mine})
