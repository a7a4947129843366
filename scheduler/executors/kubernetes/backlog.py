"""What the cluster does not take yet: said once when that matters, and once when it is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from springtide.scheduler.kube import ApiError

log = logging.getLogger(__name__)

MATTERS = 5.0
"""Seconds that something waits before a word is said about it."""


class Backlog:
    """Counts what waits for the cluster, in the whole executor. ``clock`` never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[object, float] = {}
        self._waited = 0
        self._began = 0.0
        self._said = False

    @contextmanager
    def trying(self) -> Iterator[Callable[[ApiError], None]]:
        """Around the tries of one thing; gives what to call when the cluster did not take it this time."""
        one = object()
        try:
            yield partial(self._refused, one)
        finally:
            if self._waiting.pop(one, None) is not None and not self._waiting:
                self._over()

    def _refused(self, one: object, why: ApiError) -> None:
        now = self._clock()
        if not self._waiting:
            self._began, self._waited = now, 0
        if one not in self._waiting:
            self._waiting[one] = now
            self._waited += 1
        if not self._said and now - self._waiting[one] >= MATTERS:
            self._said = True
            log.warning(
                "The cluster does not take %d requests yet, and is asked again: %s", len(self._waiting), why
            )

    def _over(self) -> None:
        if self._said:
            self._said = False
            seconds = self._clock() - self._began
            log.info("No request waits for the cluster any more; %d did, within %.0f s", self._waited, seconds)
