"""The engine's life: start, stop, and what its parts share."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from springtide.scheduler.engine import lifecycle, reconcile, requests, seeding
from springtide.scheduler.engine.acts import Acts
from springtide.scheduler.engine.broadcast import Broadcast
from springtide.scheduler.engine.events import Events
from springtide.scheduler.engine.files import JobFiles, attempt_spec
from springtide.scheduler.engine.foresight import Foresight
from springtide.scheduler.engine.inbox import Inbox, LaunchTrouble
from springtide.scheduler.engine.keys import KeyLookup
from springtide.scheduler.engine.knowledge import Knowledge
from springtide.scheduler.engine.loop import Loop, Parts
from springtide.scheduler.engine.outputs import Outputs
from springtide.scheduler.engine.planning import MakePlanner, Planning
from springtide.scheduler.engine.pruning import Pruner
from springtide.scheduler.engine.settings import EngineSettings, Stats
from springtide.scheduler.engine.world import Draft, World
from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, Executor, Reported
from springtide.scheduler.model import FINAL
from springtide.scheduler.policy.planner import Planner
from springtide.scheduler.store import Store, StoreError
from springtide.scheduler.store.records import JobQuery, JobRecord

logger = logging.getLogger(__name__)
T = TypeVar("T")


ENDED = frozenset(state.value for state in FINAL)
ID_SIGNS = "0123456789abcdefghjkmnpqrstvwxyz"


def new_job_id() -> str:
    """A job's id: 12 letters and digits, safe in names of hosts and folders."""
    return "".join(ID_SIGNS[byte % len(ID_SIGNS)] for byte in secrets.token_bytes(12))


class Core:
    """Starts and stops the engine's parts, and holds what they share.

    ``projects`` maps names to fields of `wire.ProjectEdit`: a store that never had projects begins with them.
    """

    def __init__(
        self,
        store: Store,
        executor: Executor,
        settings: EngineSettings | None = None,
        *,
        projects: Mapping[str, Mapping[str, Any]] | None = None,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_job_id,
        planner: MakePlanner = Planner,
    ) -> None:
        self._store = store
        self._executor = executor
        self.settings = settings or EngineSettings()
        self._seeds = projects or {}
        self._clock = clock
        self._new_id = new_id
        self.stats = Stats()
        self._inbox = Inbox()
        self._events = Events(self.stats)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="springtide-store")
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="springtide-read")
        self._parts = Parts(store, executor, self.settings, clock, planner, self.stats, self._inbox, self._writer)
        self._files = JobFiles(lambda digest: self._read(store.files, digest))
        self._keys = KeyLookup(lambda keys: self._read(store.jobs_by_key, keys))
        self._tasks: list[asyncio.Task[None]] = []

    # ---------- life

    async def start(self) -> None:
        """Look at the world, settle every open intent, and begin to tick.

        Raises `ConfigurationError`, `ExecutorError` or `StoreError` if that is not possible.
        """
        try:
            await self._start()
        except BaseException:
            await self._let_go()
            raise

    async def _start(self) -> None:
        loaded = await self._read(self._store.load)
        world = World.of(loaded)
        await self._executor.start(self._inbox.tell)
        world.nodes = await self._executor.inventory()
        if loaded.fresh:
            await self._seed(world)
        now = self._clock()
        news, acts = reconcile.settle_intents(world.jobs.values(), await self._executor.attempts(), now)
        planning = Planning(
            self._parts.make_planner,
            world.snapshot(now, self.settings.policy),
            self._store.epoch,
            world.last_decision,
        )
        parts = self._parts
        self._know = Knowledge(world, planning, self._store, self._clock)
        self._acts = Acts(
            self._executor,
            self._spec,
            observe=self._inbox.tell,
            trouble=self._trouble,
            stale=self._stale,
            stats=self.stats,
            clock=self._clock,
        )
        self._broadcast = Broadcast(self._know, self._events, self._clock)
        self._loop = Loop(parts, self._know, self._acts, self._broadcast)
        self._foresight = Foresight(
            self._know,
            self._clock,
            tell=self._broadcast.show,
        )
        self._outputs = Outputs(
            self._executor, self._found, self._broadcast.log_growth, self.settings.max_output_bytes
        )
        for status in news:
            self._inbox.tell(status)
        for act in acts:
            self._acts.do(act)
        pruner = Pruner(parts, self._loop.write)
        running = asyncio.get_running_loop()
        self._tasks = [
            running.create_task(self._loop.run(), name="engine"),
            running.create_task(pruner.run(), name="pruner"),
            running.create_task(self._know.memory.recall(self._ended_jobs), name="memory"),
        ]

    async def _ended_jobs(self, most: int) -> Sequence[JobRecord]:
        return await self._read(self._store.jobs, JobQuery(states=ENDED), None, most)

    async def _seed(self, world: World) -> None:
        draft = Draft(world, self._clock())
        seeding.seed(draft, self._seeds)
        await self._write(self._store.commit, draft.batch())
        draft.merge()

    async def stop(self) -> None:
        """Finish what is being written and let go. Attempts go on; the store stays open, its opener closes it."""
        if self._tasks:
            ticking, *others = self._tasks
            self._loop.stop()
            await self._foresight.stop()
            await asyncio.gather(ticking, return_exceptions=True)
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await self._acts.stop()
            await self._save_reports()
            self._tasks = []
        await self._let_go()

    async def _let_go(self) -> None:
        await self._executor.stop()
        self._writer.shutdown()
        self._readers.shutdown()

    async def _save_reports(self) -> None:
        draft = Draft(self._know.world, self._clock())
        for item in self._inbox.news:
            if isinstance(item, Reported) and (job := draft.job(item.key.job)) is not None:
                draft.report(lifecycle.reported(job, item))
        batch = draft.batch()
        if batch and self._loop.failure is None:
            try:
                await self._write(self._store.commit, batch)
            except StoreError as error:
                logger.warning("The latest reports were not written: %s", error)

    async def wait_closed(self) -> str | None:
        """Wait until the engine has stopped; why, if it stopped by itself."""
        await asyncio.wait(self._tasks[:1])
        return self._loop.failure

    async def _found(self, job_id: str) -> JobRecord:
        """A job, looked up in the store if it ended long ago. Raises `Refusal` (404) for an unknown one."""
        job = self._know.at_hand(job_id) or await self._read(self._store.job, job_id)
        if job is None:
            raise requests.no_job(job_id)
        return job

    async def _read(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *args)

    async def _write(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work, *args)

    # ---------- acts

    async def _spec(self, key: AttemptKey) -> AttemptSpec | None:
        job = self._know.world.jobs.get(key.job)
        if job is None or job.live is None or job.live.number != key.attempt or job.live.asked is not None:
            return None
        files = await self._files.get(job.spec.bundle)
        return attempt_spec(job, job.live, files, self._store.epoch, self.settings.policy.grace)

    def _trouble(self, key: AttemptKey, detail: str) -> None:
        self._inbox.tell(LaunchTrouble(key, detail))

    def _stale(self, why: str) -> None:
        self._loop.give_up(f"Another service runs the attempts: {why}")
