"""Questions about the pool's past."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace

from springtide.scheduler.engine.past.anonymous import anonymous
from springtide.scheduler.engine.past.scenario import Present, scenario_of
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.scenario.shape import Document
from springtide.scheduler.scenario.write import written
from springtide.scheduler.store.queries.past import past


class PastCalls:
    """Answers questions about the past of a pool, in threads beside the engine's loop."""

    def __init__(
        self,
        store: StoreThreads,
        state: State,
        nodes: ObservedNodes,
        settings: EngineSettings,
        clock: Callable[[], float],
    ) -> None:
        self._threads = store
        self._state = state
        self._nodes = nodes
        self._settings = settings
        self._clock = clock

    async def scenario(self, start: float, end: float) -> Document:
        """Return the past from ``start`` to ``end`` as a scenario. Raises `Refusal` if nothing was recorded then."""
        now = self._clock()
        found = await self._threads.read(past, start, min(end, now), now)
        if not found.jobs and not found.forgotten:
            raise Refusal(
                404,
                "no_history",
                "No job with GPUs waited or ran in this time.",
                hint="Ask for another time; the report shows when GPUs were held.",
            )
        return await asyncio.to_thread(scenario_of, found, self._present(), start, min(end, now))

    async def file(
        self, start: float, end: float, *, hide_names: bool = False, known: Collection[str] | None = None
    ) -> bytes:
        """Return that scenario as JSON; of projects that are not ``known`` (None: all are) without names."""
        document = await self.scenario(start, end)
        if hide_names or known is not None:
            own = () if hide_names or known is None else known
            document = await asyncio.to_thread(anonymous, document, known=own)
        return await asyncio.to_thread(written, document)

    def _present(self) -> Present:
        settings = replace(self._settings.policy, gpu_types=self._state.types.train)
        return Present(
            self._nodes.train(),
            [record.project for record in self._state.projects.values()],
            settings,
            dict(self._state.prices),
        )
