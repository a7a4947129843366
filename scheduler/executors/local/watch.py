"""Notifies of changes in the files of live attempts, by inotify: no polling while nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from asyncinotify import Inotify, Mask

from springtide.scheduler.executors.base import AttemptKey

INTERVAL = 0.2
"""Shortest time between two notifications for an attempt whose log or reports grow, in seconds."""

_RECORDS = Mask.MOVED_TO | Mask.DONT_FOLLOW
_GROWTH = Mask.MODIFY | Mask.CREATE | Mask.DONT_FOLLOW
_QUIET = Mask.DELETE_SELF | Mask.DONT_FOLLOW


@dataclass(slots=True)
class _Watched:
    directory: Path
    reports: Path
    numbers: set[int] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = None


class Watcher:
    """Watches the directories of attempts.

    ``on_record`` is called when a record was written, ``on_growth`` when a log or the reports may have grown: at
    most once per `INTERVAL` and attempt, and once more after the last growth. It returns whether they had grown.
    """

    def __init__(self, on_record: Callable[[AttemptKey], None], on_growth: Callable[[AttemptKey], bool]) -> None:
        self._on_record = on_record
        self._on_growth = on_growth
        self._loop = asyncio.get_running_loop()
        self._watched: dict[AttemptKey, _Watched] = {}
        self._keys: dict[int, AttemptKey] = {}
        self._inotify = Inotify(cache_size=64, sync_timeout=0)
        self._loop.add_reader(self._inotify.fd, self._read)

    def close(self) -> None:
        """Stop watching."""
        for key in list(self._watched):
            self.unwatch(key)
        self._loop.remove_reader(self._inotify.fd)
        self._inotify.close()

    def watch(self, key: AttemptKey, directory: Path, reports: Path) -> None:
        """Watch an attempt from now on, and report its present state."""
        if key not in self._watched:
            self._watched[key] = _Watched(directory, reports)
            self._report_growth(key)

    def unwatch(self, key: AttemptKey) -> None:
        """Stop watching an attempt."""
        watched = self._watched.pop(key, None)
        if watched is None:
            return
        if watched.timer is not None:
            watched.timer.cancel()
        for watch in self._inotify.watches:
            if watch.wd in watched.numbers:
                with suppress(OSError):
                    self._inotify.rm_watch(watch)
        for number in watched.numbers:
            self._keys.pop(number, None)

    def _set_watches(self, key: AttemptKey, *, growth: bool) -> None:
        watched = self._watched[key]
        masks = (
            (watched.directory, _RECORDS | _GROWTH if growth else _RECORDS),
            (watched.reports, _GROWTH if growth else _QUIET),
        )
        for path, mask in masks:
            with suppress(FileNotFoundError):
                number = self._inotify.add_watch(path, mask).wd
                watched.numbers.add(number)
                self._keys[number] = key

    def _report_growth(self, key: AttemptKey) -> None:
        """Report growth now, and again after `INTERVAL` if there was any, else when something grows."""
        watched = self._watched[key]
        watched.timer = None
        if not self._on_growth(key):
            self._set_watches(key, growth=True)
            if not self._on_growth(key):
                return
        if key in self._watched:
            self._set_watches(key, growth=False)
            watched.timer = self._loop.call_later(INTERVAL, self._report_growth, key)

    def _read(self) -> None:
        recorded: dict[AttemptKey, None] = {}
        grown: dict[AttemptKey, None] = {}
        while (event := self._inotify.sync_get()) is not None:
            if Mask.Q_OVERFLOW in event.mask:
                recorded |= dict.fromkeys(self._watched)
                grown |= dict.fromkeys(self._watched)
                continue
            key = self._keys.get(event.watch.wd) if event.watch is not None else None
            if key is None:
                continue
            if Mask.MOVED_TO in event.mask:
                recorded[key] = None
            if Mask.MODIFY in event.mask or Mask.CREATE in event.mask:
                grown[key] = None
        for key in recorded:
            self._on_record(key)
        for key in grown:
            if key in self._watched and self._watched[key].timer is None:
                self._report_growth(key)
