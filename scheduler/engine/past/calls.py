"""Questions about the pool's past, and what would have been if the pool had been another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from math import floor

from springtide.scheduler import wire
from springtide.scheduler.engine.past.anonymous import anonymous
from springtide.scheduler.engine.past.recorded import recorded_jobs
from springtide.scheduler.engine.past.runs import PastRuns, Prepared
from springtide.scheduler.engine.past.scenario import Present, period_of, scenario_of
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.views.pool_view import is_simulated
from springtide.scheduler.gpu_types import quota_of
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.refusal import Refusal, invalid_field
from springtide.scheduler.scenario.shape import Document
from springtide.scheduler.scenario.write import written
from springtide.scheduler.settings import DAY
from springtide.scheduler.store.queries.past import Past, past, recorded_since
from springtide.scheduler.wording import utc

STEP = 600.0
"""Seconds to whose multiples the end of a past is rounded down, so that a question stays the same for a while."""
LONGEST = 400 * DAY
SCENARIOS = 4
"""Number of scenarios that are kept."""


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
        self.runs = PastRuns()
        self._scenarios: LruCache[tuple[float, float], Prepared] = LruCache(SCENARIOS)

    async def begin(self, person: str, question: wire.PastWhatIf, known: Collection[str] | None) -> wire.PastRun:
        """Begin a calculation for a person, with figures of projects that are ``known`` (None: of all).

        A person's next question ends the one before. Raises `Refusal` for a time that has not begun or ends before
        it starts. A calculation fails if nothing was recorded in that time, or the pool cannot have the changes.
        """
        span = self._span(question, await self._threads.read(recorded_since))
        own = None if known is None else sorted(known)
        known_past, notes = self._scenarios.get(span), _notes(question, span[1])
        return self.runs.begin(person, question, own, partial(self.prepared, *span), known_past, notes=notes)

    def _span(self, question: wire.PastWhatIf, since: float | None) -> tuple[float, float]:
        now = self._clock()
        full = floor(now / STEP) * STEP
        latest = full if since is not None and full - since > STEP else now
        end = latest if question.end is None else min(question.end, now)
        start = end - question.days * DAY if question.start is None else question.start
        if start >= now:
            raise invalid_field("start", "The time starts in the future.", "Give a start that has passed.")
        if not start < end:
            raise invalid_field("start", "The time ends before it starts.", "Give a start that is before the end.")
        if end - start > LONGEST:
            raise invalid_field("start", "The time is longer than 400 days.", "Ask about a part of it.")
        return max(0.0, start), end

    async def prepared(self, start: float, end: float) -> Prepared:
        """Return the scenario of a span, the one made before if its end has passed already then.

        Raises `Refusal` if nothing was recorded.
        """
        known = self._scenarios.get((start, end))
        if known is not None:
            return known
        found, begins, ends = await self._read(start, end)
        document = await asyncio.to_thread(scenario_of, found, self._present(), begins, ends)
        prepared = Prepared(
            begins,
            ends,
            await asyncio.to_thread(written, document),
            await asyncio.to_thread(recorded_jobs, found, period_of(found, begins, ends)),
            tuple(document.notes),
            self._state.currency,
            is_simulated(self._nodes.all),
        )
        self._scenarios.put((start, end), prepared)
        return prepared

    async def available(self, known: Collection[str] | None) -> wire.PoolPast:
        """Return what there is to ask about: since when the pool is recorded, and its present values.

        ``known`` are the projects whose quotas may be changed; with None all, the nodes and the settings, too.
        """
        present, types = self._present(), self._state.types.train
        nodes = [node for node in present.nodes if node.gpus]
        counts, largest = Counter(node.gpu_type for node in nodes), dict[str, int]()
        for node in nodes:
            largest[node.gpu_type] = max(largest.get(node.gpu_type, 0), node.gpus)
        return wire.PoolPast(
            since=await self._threads.read(recorded_since),
            now=self._clock(),
            nodes={name: counts[name] for name in types if name in counts},
            gpus=largest,
            quota={
                project.name: {name: quota_of(project, name, types) for name in types}
                for project in sorted(present.projects, key=lambda project: project.age)
                if known is None or project.name in known
            },
            order=present.settings.order,
            surplus=present.settings.surplus,
            min_runtime=present.settings.min_runtime,
            whole=known is None,
            priced=bool(present.prices),
            simulated=is_simulated(self._nodes.all),
        )

    async def scenario(self, start: float, end: float) -> Document:
        """Return the past from ``start`` to ``end`` as a scenario. Raises `Refusal` if nothing was recorded."""
        found, start, end = await self._read(start, end)
        return await asyncio.to_thread(scenario_of, found, self._present(), start, end)

    async def _read(self, start: float, end: float) -> tuple[Past, float, float]:
        """Return the records of a span, and what of it is recorded. Raises `Refusal` if nothing was."""
        now = self._clock()
        since = await self._threads.read(recorded_since)
        start, end = max(start, since if since is not None and since < end else start), min(end, now)
        found = await self._threads.read(past, start, end, now)
        if not found.jobs and not found.forgotten:
            raise Refusal(
                404,
                "no_history",
                "No job with GPUs waited or ran in this time.",
                hint="Ask for another time; the report shows when GPUs were held.",
            )
        return found, start, end

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


def _notes(question: wire.PastWhatIf, end: float) -> tuple[str, ...]:
    """Return what to say of a span that ends at a full step before now, because the question names no end."""
    if question.end is not None or end % STEP:
        return ()
    return (f"The time ends at {utc(end)}, at the last full ten minutes.",)
