"""Tells when the files of live attempts change. Nothing wakes up while nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from asyncinotify import Inotify, Mask

from springtide.scheduler.executors.base import AttemptKey

INTERVAL = 0.2
"""Seconds between two looks at an attempt whose log or reports grow."""

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
    """Watches attempts' directories.

    ``recorded`` is called when a record appeared; ``grew`` when a log or the reports may have grown, at most once
    per `INTERVAL` and attempt, and always once more after the last growth. It answers whether they really had.
    """

    def __init__(self, recorded: Callable[[AttemptKey], None], grew: Callable[[AttemptKey], bool]) -> None:
        self._recorded = recorded
        self._grew = grew
        self._loop = asyncio.get_running_loop()
        self._watched: dict[AttemptKey, _Watched] = {}
        self._keys: dict[int, AttemptKey] = {}
        self._inotify = Inotify(cache_size=64, sync_timeout=0)
        self._loop.add_reader(self._inotify.fd, self._read)

    def close(self) -> None:
        """Stop watching."""
        for key in list(self._watched):
            self.forget(key)
        self._loop.remove_reader(self._inotify.fd)
        self._inotify.close()

    def watch(self, key: AttemptKey, directory: Path, reports: Path) -> None:
        """Begin to watch an attempt, and look at once."""
        if key not in self._watched:
            self._watched[key] = _Watched(directory, reports)
            self._look(key)

    def forget(self, key: AttemptKey) -> None:
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

    def _set(self, key: AttemptKey, *, growth: bool) -> None:
        watched = self._watched[key]
        wanted = (
            (watched.directory, _RECORDS | _GROWTH if growth else _RECORDS),
            (watched.reports, _GROWTH if growth else _QUIET),
        )
        for path, mask in wanted:
            with suppress(FileNotFoundError):
                number = self._inotify.add_watch(path, mask).wd
                watched.numbers.add(number)
                self._keys[number] = key

    def _look(self, key: AttemptKey) -> None:
        """Look now, and then either again after a while or, if nothing grew, when something does."""
        watched = self._watched[key]
        watched.timer = None
        if not self._grew(key):
            self._set(key, growth=True)
            if not self._grew(key):
                return
        if key in self._watched:
            self._set(key, growth=False)
            watched.timer = self._loop.call_later(INTERVAL, self._look, key)

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
            self._recorded(key)
        for key in grown:
            if key in self._watched and self._watched[key].timer is None:
                self._look(key)
