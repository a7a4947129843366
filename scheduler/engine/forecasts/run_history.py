"""History of ended jobs: their run times, and their speed by placement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from springtide.scheduler.engine.forecasts.placement_stats import PlacementStats
from springtide.scheduler.engine.forecasts.run_times import RunTimes
from springtide.scheduler.engine.forecasts.topology import Topology
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.model import Node
from springtide.scheduler.store.records import JobRecord

logger = logging.getLogger(__name__)

MAX_LOADED = 2_000
"""Number of latest ended jobs that are read from the store at the start."""


class RunHistory:
    """Run times and placement statistics of ended jobs; ``nodes`` are the nodes as observed."""

    def __init__(self, nodes: ObservedNodes) -> None:
        self.run_times = RunTimes()
        self.placement_stats = PlacementStats()
        self._nodes = nodes
        self._topology: tuple[tuple[Node, ...], Topology] | None = None
        self._learned: set[str] = set()
        self._loaded = asyncio.Event()

    def learn(self, job: JobRecord) -> None:
        """Add a job that has ended."""
        if not self._loaded.is_set():
            self._learned.add(job.id)
        self._add(job)

    def _add(self, job: JobRecord) -> None:
        if job.is_sweep or job.spec.tests is not None:
            return
        nodes = self._nodes.all
        if self._topology is None or self._topology[0] is not nodes:
            self._topology = (nodes, Topology(nodes))
        self.run_times.learn(job)
        self.placement_stats.learn(job, self._topology[1])

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
