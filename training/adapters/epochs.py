"""Points at which trainers with callbacks pause: the end of an epoch, or between two batches."""

from __future__ import annotations

import time
from typing import Callable

from springtide.training.job import Job


class EpochPauses:
    """Decides when to pause, for a trainer that reads the data of an interrupted epoch again.

    A pause comes at the end of an epoch if epochs take less than half of the grace period, and between two batches
    otherwise. In a gang it always comes between two batches, as the clocks of its ranks do not agree; all of them
    have to call the same methods in the same order. ``clock`` returns seconds.
    """

    def __init__(self, job: Job, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._clock = clock
        self._began = clock()
        self._short = False

    def epoch_begins(self) -> None:
        """Record the start of an epoch."""
        self._began = self._clock()

    def after_batch(self) -> bool:
        """Return whether to save and pause now."""
        return self._job.should_pause() and not self._short

    def after_epoch(self) -> bool:
        """Return whether to save and pause now, and record how long the epoch took."""
        self._short = self._job.world == 1 and self._clock() - self._began < self._job.grace / 2
        return self._job.should_pause()
