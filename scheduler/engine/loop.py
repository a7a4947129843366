"""The engine's one task: sleep until something happened, decide, commit, answer, act."""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from springtide.scheduler.engine import lifecycle
from springtide.scheduler.engine.acts import Acts
from springtide.scheduler.engine.broadcast import Broadcast
from springtide.scheduler.engine.inbox import Inbox, News, NodesSeen
from springtide.scheduler.engine.knowledge import Knowledge
from springtide.scheduler.engine.planning import MakePlanner, Planning
from springtide.scheduler.engine.settings import EngineSettings, Stats
from springtide.scheduler.engine.tick import Tick, Ticker
from springtide.scheduler.executors.base import Executor, InventoryChanged
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store, StoreError, StoreFullError, StoreTakenError
from springtide.scheduler.store.records import EventRecord

logger = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_WAIT = 0.5
LONGEST_WAIT = 10.0
PLAN_AGAIN = 5.0
"""Seconds after which a planner that failed, or that found no rest, is asked again."""
RESTLESS = 100
"""Plans in a row that changed something although nothing came in: a stable input has to reach a stable plan."""
FAILED = "The pool's service failed; its log says how. Jobs go on."
LEAST_SLEEP = 0.02
"""Seconds that a plan may ask to be woken after, at least."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the engine was given, and what its parts share. ``writer`` has one thread."""

    store: Store
    executor: Executor
    settings: EngineSettings
    clock: Callable[[], float]
    make_planner: MakePlanner
    stats: Stats
    inbox: Inbox
    writer: ThreadPoolExecutor


class Loop:
    """Runs ticks until it is stopped or the store belongs to somebody else; `failure` then says so."""

    def __init__(self, parts: Parts, knowledge: Knowledge, acts: Acts, broadcast: Broadcast) -> None:
        self._parts = parts
        self._knowledge = knowledge
        self._acts = acts
        self._broadcast = broadcast
        self._inbox = parts.inbox
        self._clock = parts.clock
        self._stats = parts.stats
        self._ticker = Ticker(
            knowledge.world, knowledge.planning, parts.settings, stats=parts.stats, find=knowledge.find
        )
        self._limits: list[tuple[float, str]] = []
        self._limit_of: dict[str, float] = {}
        self._wake_at: float | None = None
        self._replan = True
        self._rounds = 0
        self._wait = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._stopping = False
        self.failure: str | None = None
        for job in knowledge.world.jobs.values():
            self._watch_limit(job.id)

    # ---------- the task

    async def run(self) -> None:
        """Tick until stopped."""
        try:
            while not self._stopping:
                await self._sleep()
                if not self._stopping:
                    await self._once()
        except Exception:
            logger.exception("The engine failed.")
            self.failure = FAILED
        finally:
            why = self.failure or "The pool's service is stopping."
            self._inbox.close(Refusal(503, "stopping", why, hint="Try again in a moment."))
            if self._looking is not None:
                self._looking.cancel()
            self._broadcast.close()

    def stop(self) -> None:
        """Finish the current tick, then end."""
        self._stopping = True
        self._inbox.some.set()

    def give_up(self, why: str) -> None:
        """Stop deciding: somebody else does."""
        logger.critical("%s", why)
        self.failure = why
        self.stop()

    async def _sleep(self) -> None:
        if self._replan and not self._wait:
            return
        try:
            async with asyncio.timeout(self._wait or self._patience()):
                await self._inbox.some.wait()
        except TimeoutError:
            return

    def _patience(self) -> float | None:
        """Seconds until something is due even if nothing happens."""
        deadlines = [at for at in (self._wake_at, self._limits[0][0] if self._limits else None) if at is not None]
        return max(0.0, min(deadlines) - self._clock()) if deadlines else None

    async def _once(self) -> None:
        requests, news = self._inbox.take()
        now = self._clock()
        self._rounds = 0 if requests or news else self._rounds + 1
        tick = self._ticker.make(requests, news, self._due(now), now)
        self._stats.ticks += 1
        if tick.look:
            self._look()
        planned = self._plan(tick)
        try:
            await self._finish(tick, news, planned=planned)
        except Exception:
            self._refuse(
                tick, Refusal(503, "failed", FAILED, hint="Look at the job again before you repeat this.")
            )
            raise

    # ---------- time limits

    def _due(self, now: float) -> list[str]:
        due = []
        while self._limits and self._limits[0][0] <= now:
            limit, job_id = heapq.heappop(self._limits)
            if self._limit_of.get(job_id) == limit:
                del self._limit_of[job_id]
                due.append(job_id)
        return due

    def _watch_limit(self, job_id: str) -> None:
        job = self._knowledge.world.jobs.get(job_id)
        limit = lifecycle.deadline(job) if job is not None else None
        if limit is None:
            self._limit_of.pop(job_id, None)
        elif self._limit_of.get(job_id) != limit:
            self._limit_of[job_id] = limit
            heapq.heappush(self._limits, (limit, job_id))

    # ---------- planning

    def _plan(self, tick: Tick) -> bool:
        """Plan if anything calls for it. A planner that fails is made anew, and the rest goes on."""
        due = self._wake_at is not None and self._wake_at <= tick.draft.now
        try:
            self._ticker.note(tick)
            if self._replan or tick.replan or due:
                self._replan = False
                self._wake_at = None
                self._ticker.plan(tick)
                if tick.wake_at is not None:
                    self._wake_at = max(tick.wake_at, tick.draft.now + LEAST_SLEEP)
        except Exception:  # a planner's mistake must not keep anybody from cancelling
            logger.exception("Planning failed; it is tried again in %g seconds.", PLAN_AGAIN)
            self._wake_at = tick.draft.now + PLAN_AGAIN
            return False
        return True

    def _plan_anew(self) -> None:
        """The planner knows what was not committed: start it again from what was."""
        parts, world = self._parts, self._knowledge.world
        snapshot = world.snapshot(self._clock(), parts.settings.policy)
        planning = Planning(parts.make_planner, snapshot, parts.store.epoch, world.last_decision)
        self._knowledge.planning = self._ticker.planning = planning

    # ---------- the commit and what follows from it

    async def _finish(self, tick: Tick, news: list[News], *, planned: bool) -> None:
        draft = tick.draft
        records: list[EventRecord] = []
        if draft.hard:
            records = self._broadcast.kept(tick)
            try:
                await self._commit(tick, records)
            except StoreError as error:
                self._failed(tick, news, error)
                return
        self._wait = 0.0
        self._merge(tick, records)
        if not planned:
            self._plan_anew()
        self._replan = self._replan or tick.decided
        if self._replan and self._rounds >= RESTLESS:
            logger.error("The plan found no rest in %d rounds; it is made again in %g s.", RESTLESS, PLAN_AGAIN)
            self._replan, self._rounds, self._wake_at = False, 0, draft.now + PLAN_AGAIN
        self._answer(tick)
        for act in draft.acts:
            self._acts.do(act)
        self._broadcast.tell(tick, records)

    async def _commit(self, tick: Tick, records: list[EventRecord]) -> None:
        batch = tick.draft.batch()
        batch.events = records
        if tick.decision is not None:
            batch.decisions.append(tick.decision)
        began = time.perf_counter()
        await self.write(self._parts.store.commit, batch)
        self._stats.commits += 1
        self._stats.commit_seconds += time.perf_counter() - began

    async def write(self, work: Callable[..., T], *args: object) -> T:
        """Run something in the one thread that writes."""
        return await asyncio.get_running_loop().run_in_executor(self._parts.writer, work, *args)

    def _merge(self, tick: Tick, records: list[EventRecord]) -> None:
        draft, world = tick.draft, self._knowledge.world
        draft.merge()
        for job in draft.jobs.values():
            if job.state.final:
                self._knowledge.ended(job)
            if draft.hard:
                self._watch_limit(job.id)
        world.last_event += len(records)
        if tick.decision is not None:
            world.last_decision = tick.decision.id
        if draft.hard or tick.nodes:
            self._knowledge.changed()

    def _failed(self, tick: Tick, news: list[News], error: StoreError) -> None:
        """Nothing of the tick was written: whoever asked is told, what was observed is looked at again."""
        self._stats.failed_commits += 1
        if isinstance(error, StoreTakenError):
            self.give_up(str(error))
        else:
            logger.error("%s Nothing of this was accepted; what runs goes on.", error)
        self._refuse(tick, refusal_of(error))
        self._inbox.put_back(news)
        for job_id in tick.due:
            self._watch_limit(job_id)
        self._plan_anew()
        self._replan = True
        self._knowledge.changed()
        self._wait = min(LONGEST_WAIT, max(FIRST_WAIT, self._wait * 2))

    def _refuse(self, tick: Tick, refusal: Refusal) -> None:
        for request, _ in tick.answers:
            if not request.future.done():
                request.future.set_exception(refusal)

    def _answer(self, tick: Tick) -> None:
        for request, answer in tick.answers:
            if request.future.done():
                continue
            try:
                request.future.set_result(answer())
            except Exception as error:  # the change is committed; only the view failed
                logger.exception("An answer could not be built.")
                request.future.set_exception(error)

    # ---------- nodes

    def _look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._inventory(), name="inventory")

    async def _inventory(self) -> None:
        try:
            self._inbox.tell(NodesSeen(await self._parts.executor.inventory()))
        except Exception:  # whatever an executor raises must not end the engine
            logger.exception("The inventory could not be read; it is asked for again.")
            await asyncio.sleep(FIRST_WAIT)
            asyncio.get_running_loop().call_soon(self._inbox.tell, InventoryChanged())


def refusal_of(error: StoreError) -> Refusal:
    """What a user is told when the store could not be written."""
    if isinstance(error, StoreFullError):
        return Refusal(
            507,
            "disk_full",
            f"{error} Nothing was accepted; what runs goes on.",
            hint="Tell an admin of this hub to make room, then try again.",
        )
    return Refusal(
        503,
        "store",
        "The pool's store could not be written, so nothing was accepted.",
        hint="Try again in a moment.",
    )
