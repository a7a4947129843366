"""History of ended jobs: their run times, and their speed by placement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from springtide.scheduler.engine.placements.placements import Placements
from springtide.scheduler.engine.sweeps.controller import trial_name
from springtide.scheduler.history.run_times import RunTimes
from springtide.scheduler.store.records import JobRecord, JobSpec

logger = logging.getLogger(__name__)

MAX_LOADED = 2_000
"""Number of latest ended jobs that are read from the store at the start."""


class RunHistory:
    """Run times of ended jobs; passes these jobs on to ``placements``, too."""

    def __init__(self, placements: Placements) -> None:
        self.run_times = RunTimes()
        self._placements = placements
        self._learned: set[str] = set()
        self._loaded = asyncio.Event()

    def learn(self, job: JobRecord) -> None:
        """Add a job that has ended."""
        if not self._loaded.is_set():
            self._learned.add(job.id)
        self._add(job)
        self._placements.compare_nodes(job)

    def _add(self, job: JobRecord) -> None:
        if job.is_sweep or job.spec.tests is not None:
            return
        if job.needs_gpus:
            self.run_times.learn(job.spec, job.standing.served / (job.spec.workers * job.spec.gpus))
        self._placements.learn(job)

    def with_experience(self, spec: JobSpec) -> JobSpec:
        """Return the spec with what ended jobs tell of it: the fastest spread and the usual run time.

        To a sweep they tell it of its trials.
        """
        like = spec if spec.trials is None else replace(spec, name=trial_name(spec.name, 0))
        return replace(spec, fastest=self._placements.preferred(like), usual_runtime=self.run_times.usual(like))

    async def load(self, read: Callable[[int], Awaitable[Sequence[JobRecord]]]) -> None:
        """Add the jobs that had ended before the start.

        ``read(limit)`` returns the latest ended jobs, the latest first. An error is logged.
        """
        try:
            for job in reversed(await read(MAX_LOADED)):
                if job.id not in self._learned:
                    self._add(job)
        except Exception:
            logger.exception("Ended jobs could not be read; their run times are not known.")
        finally:
            self._loaded.set()
            self._learned.clear()

    async def loaded(self) -> None:
        """Wait until `load` has ended."""
        await self._loaded.wait()
