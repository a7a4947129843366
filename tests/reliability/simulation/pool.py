"""A pool on virtual time: the real engine and store, which crash and start again, over a simulated world."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from simulation.executor import SimulatedExecutor
from simulation.faults import CrashPoints, Faults
from simulation.store import SimulatedStore, StoreBed
from simulation.virtual_time import VirtualLoop
from simulation.world import Program, World

from springtide.scheduler import wire
from springtide.scheduler.backoff import no_jitter
from springtide.scheduler.clock import Clock
from springtide.scheduler.engine import Engine, EngineSettings, JobFilter, Retries, open_engine
from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.model import FINAL, Change, JobState, Plan, Settings, Snapshot
from springtide.scheduler.policy.planner import Planner
from springtide.scheduler.promises import Breach, Watch
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError

T = TypeVar("T")
SETTINGS = EngineSettings(
    policy=Settings(grace=60.0, min_runtime=0.0), retries=Retries(first=1.0, longest=30.0, fruitless_limit=6)
)
AGAIN = 1.0
"""Time after which a person repeats a request that failed, and a hub starts the service again, in seconds."""
TEMPORARY = frozenset({503, 507})
UNFINISHED = JobFilter(states=frozenset(state.value for state in JobState if state not in FINAL))


class WatchedPlanner(Planner):
    """A planner, and the check of the promises on all its inputs and decisions."""

    def __init__(self, snapshot: Snapshot, report: Callable[[list[Breach]], None]) -> None:
        super().__init__(snapshot)
        self._report = report
        self._watch = Watch(snapshot, standing=self.standing)

    def apply(self, change: Change) -> None:
        super().apply(change)
        self._watch.apply(change)

    def plan(self, now: float) -> Plan:
        plan = super().plan(now)
        self._watch.decided(plan, now)
        if not plan.decisions:
            self._watch.settled(now)
        if self._watch.breaches:
            self._report(self._watch.breaches)
            self._watch.breaches = []
        return plan


class Pool:
    """The service of a pool, kept running as a hub keeps it, and the people who use it.

    ``breaches`` are those of the promises by the planner, those that the engine noticed included.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        world: World,
        bed: StoreBed,
        *,
        projects: Mapping[str, Mapping[str, Any]],
        faults: Faults | None = None,
        points: CrashPoints | None = None,
        settings: EngineSettings = SETTINGS,
    ) -> None:
        self.loop = loop
        self.world = world
        self.bed = bed
        self.faults = faults or Faults()
        self.points = points or CrashPoints()
        self.points.crash = self.crash
        self.crashes = 0
        self.breaches: list[str] = []
        self._projects = projects
        self._settings = settings
        self._ids = (f"job{number}" for number in itertools.count(1))
        self._down: asyncio.Future[None] = loop.create_future()
        self._up: asyncio.Future[Engine] = loop.create_future()
        self._store: SimulatedStore | None = None
        self._executor: SimulatedExecutor | None = None
        self._people: set[asyncio.Task[Any] | None] = {asyncio.current_task()}
        self._hub = self.person(self._keep_running())

    # ---------- the service

    def person(self, work: Any) -> asyncio.Task[Any]:
        """Run something that survives the crashes of the service."""
        task = self.loop.create_task(work)
        self._people.add(task)
        return task

    def crash(self) -> None:
        """End the service at once."""
        if self._down.done():
            return
        self.crashes += 1
        self.world.note("crash")
        if self._store is not None:
            self._store.alive = False
        if self._executor is not None:
            self._executor.cut()
        self._down.set_result(None)

    async def close(self) -> None:
        """Stop the service and wait for its end."""
        self._hub.cancel()
        await asyncio.wait([self._hub])
        if self._up.done():
            await self._up.result().stop()

    async def _keep_running(self) -> None:
        while True:
            life = self.loop.create_task(self._live())
            await asyncio.wait(_both(life, self._down), return_when=asyncio.FIRST_COMPLETED)
            if not self._down.done():
                self.world.note(f"service ended: {life.exception() or life.result()}")
                self._down.set_result(None)
            for task in list(self.loop.begun()):
                if task not in self._people:
                    task.cancel()
            await asyncio.sleep(AGAIN)
            self._down = self.loop.create_future()
            self._up = self.loop.create_future()

    async def _live(self) -> str | None:
        """Open the engine and return why it ended. Raises what `open_engine` raises."""
        self._store = self.bed.open(self.points)
        self._executor = SimulatedExecutor(self.world, self.faults, self.points)
        clock = Clock(self.world.wall, self.world.steady, self.world.boot)
        engine = await open_engine(
            self._store,
            self._executor,
            self._settings,
            projects=self._projects,
            clock=clock,
            new_id=lambda: next(self._ids),
            planner=lambda snapshot: WatchedPlanner(snapshot, self._breached),
            jitter=no_jitter,
        )
        self.world.note(f"service {self._store.epoch}")
        self._up.set_result(engine)
        try:
            return await engine.wait_closed()
        finally:
            if engine.stats.breaches:
                self.breaches.append(f"The engine left out {engine.stats.breaches} decisions.")

    def _breached(self, breaches: list[Breach]) -> None:
        self.breaches += [f"{self.loop.time():.3f} {breach}" for breach in breaches]

    # ---------- people

    async def ask(self, request: Callable[[Engine], Awaitable[T]]) -> T:
        """Make a request, again and again while the service is away or cannot write. Raises other `Refusal`s."""
        while True:
            await asyncio.wait(_both(self._up, self._down), return_when=asyncio.FIRST_COMPLETED)
            if self._up.done() and not self._down.done():
                asked = self.person(request(self._up.result()))
                await asyncio.wait(_both(asked, self._down), return_when=asyncio.FIRST_COMPLETED)
                self._people.discard(asked)
                if asked.done():
                    try:
                        return asked.result()
                    except Refusal as refusal:
                        if refusal.status not in TEMPORARY:
                            raise
                    except (StoreError, ExecutorError):
                        pass
                asked.cancel()
            await asyncio.sleep(AGAIN)

    async def submit(self, name: str, project: str, program: Program, **wishes: Any) -> str:
        """Submit a job with its name as its key; return its id."""
        submission = wire.Submission(argv=program.argv(), name=name, key=name, **wishes)
        job = await self.ask(lambda engine: engine.submit(submission, project, project))
        self.world.note(f"accepted {name}")
        return job.id

    async def pause(self, job_id: str) -> None:
        """Pause a job, unless it has ended."""
        with suppress(Refusal):
            await self.ask(lambda engine: engine.pause(job_id, "someone"))

    async def resume(self, job_id: str) -> None:
        """Resume a job, unless it has ended."""
        with suppress(Refusal):
            await self.ask(lambda engine: engine.resume(job_id, "someone"))

    async def cancel(self, job_id: str) -> None:
        """Cancel a job, unless it has ended."""
        with suppress(Refusal):
            await self.ask(lambda engine: engine.cancel(job_id, "someone"))

    async def job(self, job_id: str) -> wire.Job:
        """Return a job."""
        return await self.ask(lambda engine: engine.job(job_id))

    async def state(self, job_id: str, *states: str) -> wire.Job:
        """Wait until a job is in one of these states."""
        while (job := await self.job(job_id)).state not in states:
            await asyncio.sleep(0.5)
        return job

    async def all_ended(self) -> None:
        """Wait until every job has ended, and the executor has forgotten its attempts."""
        delay = 5.0
        while (await self.ask(lambda engine: engine.jobs(UNFINISHED, None, 1))).items or self.world.attempts:
            await asyncio.sleep(delay)
            delay = min(60.0, delay * 2)

    async def trials(self, sweep: str) -> list[wire.Job]:
        """Return the jobs of a sweep's trials, with all their attempts."""
        page = await self.ask(lambda engine: engine.jobs(JobFilter(sweep=sweep), None, 500))
        return [await self.job(item.id) for item in page.items]

    async def records(self) -> list[wire.Job]:
        """Return all jobs, oldest first."""
        page = await self.ask(lambda engine: engine.jobs(JobFilter(), None, 500))
        return [await self.job(item.id) for item in reversed(page.items)]


def _both(one: asyncio.Future[Any], other: asyncio.Future[Any]) -> list[asyncio.Future[Any]]:
    return [one, other]
