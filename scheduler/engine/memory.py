"""What the engine learns from jobs that have ended: how long they ran, and how fast where."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from springtide.scheduler.engine.paces import Paces
from springtide.scheduler.engine.run_times import RunTimes
from springtide.scheduler.model import Node
from springtide.scheduler.policy.spread import Topology
from springtide.scheduler.store.records import JobRecord

logger = logging.getLogger(__name__)

LEARNT_FROM = 2_000
"""Ended jobs, the latest, that are learnt from when the service begins."""


class Memory:
    """Run times and paces of ended jobs. ``nodes`` gives all nodes: the same tuple until they change."""

    def __init__(self, nodes: Callable[[], tuple[Node, ...]]) -> None:
        self.run_times = RunTimes()
        self.paces = Paces()
        self._nodes = nodes
        self._topology: tuple[tuple[Node, ...], Topology] | None = None
        self._learnt: set[str] = set()
        self._recalled = asyncio.Event()

    def learn(self, job: JobRecord) -> None:
        """Learn from a job that has ended."""
        if not self._recalled.is_set():
            self._learnt.add(job.id)
        self._take_in(job)

    def _take_in(self, job: JobRecord) -> None:
        nodes = self._nodes()
        if self._topology is None or self._topology[0] is not nodes:
            self._topology = (nodes, Topology(nodes))
        self.run_times.learn(job)
        self.paces.learn(job, self._topology[1])

    async def recall(self, read: Callable[[int], Awaitable[Sequence[JobRecord]]]) -> None:
        """Learn from the jobs that had ended before the service began; ``read`` gives the latest first."""
        try:
            for job in reversed(await read(LEARNT_FROM)):
                if job.id not in self._learnt:
                    self._take_in(job)
        except Exception:
            logger.exception("Ended jobs could not be read; how they ran is not known.")
        finally:
            self._recalled.set()
            self._learnt.clear()

    async def recalled(self) -> None:
        """Wait until what is in the store is learnt."""
        await self._recalled.wait()
