"""Log messages for times in which the cluster takes no requests: one when it matters, one when it is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from springtide.scheduler.kube import ApiError

log = logging.getLogger(__name__)

REPORT_AFTER = 5.0
"""Time that a request waits before a stall is logged, in seconds."""


class ApiStalls:
    """Counts the executor's requests that the cluster has not accepted yet. ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[object, float] = {}
        self._stalled = 0
        self._began = 0.0
        self._reported = False

    @property
    def waiting(self) -> int:
        """Number of requests that were refused and have not succeeded since."""
        return len(self._waiting)

    @contextmanager
    def retrying(self) -> Iterator[Callable[[ApiError], None]]:
        """Enclose all attempts at one request; yield the function to call after each failed attempt."""
        request = object()
        try:
            yield partial(self._record_failure, request)
        finally:
            if self._waiting.pop(request, None) is not None and not self._waiting:
                self._report_end()

    def _record_failure(self, request: object, error: ApiError) -> None:
        now = self._clock()
        if not self._waiting:
            self._began, self._stalled = now, 0
        if request not in self._waiting:
            self._waiting[request] = now
            self._stalled += 1
        if not self._reported and now - self._waiting[request] >= REPORT_AFTER:
            self._reported = True
            log.warning("The cluster does not take %d requests yet; they are retried: %s", self.waiting, error)

    def _report_end(self) -> None:
        if self._reported:
            self._reported = False
            seconds = self._clock() - self._began
            log.info("No request waits for the cluster any more; %d did, within %.0f s", self._stalled, seconds)
