"""The pool of `bench_load`: its store, and the service in a process of its own.

Engine, store on disk, API and streams are real; what runs is held in memory, so that the pool is measured and not
a thousand processes.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from tornado.netutil import bind_sockets

from springtide.hub_extension.api.limits import Buckets, Slots
from springtide.hub_extension.api.routes import Pool
from springtide.hub_extension.service.runtime import serve
from springtide.hub_extension.service.site import Site
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.hub import Groups
from springtide.scheduler import process_tuning
from springtide.scheduler.engine import EngineSettings, open_engine
from springtide.scheduler.executors.base import LogGrew
from springtide.scheduler.model import Environment, Gpu, JobState, Node, Reason, Settings, Worker
from springtide.scheduler.store import Store
from springtide.scheduler.store.records import (
    AttemptRecord,
    AttemptState,
    JobRecord,
    JobSpec,
    JobStanding,
    WriteBatch,
)

WORLDS = Path(__file__).parents[1] / "tests" / "engine" / "worlds.py"
PREFIX = "/services/springtide/"
USERS, PROJECTS, STREAMS = 100, 10, 200
NODES, GPUS = 125, 8
RUNNING = NODES * GPUS
QUEUED, ENDED = 20_000, 100_000
RATE = 50
"""Submissions in a second; as many jobs end, so that as many wait all the time."""
REPORTS = 50
"""Reports of progress, and pieces of logs, in a second."""
PERSONAL_RATE, BURST = 1.0, 50
"""Submissions of one person in a second, and at once."""
BATCH = 5_000
LOOK_S = 0.01
"""Interval of the looks at whether the event loop is blocked, in seconds."""
DONE = Reason("succeeded", {})


def project_of(user: int) -> str:
    return f"project{user % PROJECTS}"


class People:
    """The hub: a token is its user's name."""

    async def caller(self, handler: Any) -> Caller | None:
        name = handler.request.headers.get("Authorization", "").removeprefix("token ")
        if not name.startswith("user"):
            return None
        return Caller(name, frozenset({project_of(int(name[4:]))}), token=name)

    async def servers(self, _user: str) -> frozenset[str]:
        return frozenset()

    async def members(self, **_fresh: bool) -> dict[str, list[str]]:
        return {project_of(user): [f"user{user}"] for user in range(PROJECTS)}


def worlds() -> ModuleType:
    """Return the module with the executor in memory."""
    spec = importlib.util.spec_from_file_location("engine_worlds", WORLDS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def nodes() -> Iterator[Node]:
    for number in range(NODES):
        name = f"node{number:03d}"
        devices = tuple(Gpu(f"{name}-{index}", index, simulated=True) for index in range(GPUS))
        yield Node(name, GPUS, "gpu", Environment.TRAIN, devices=devices)


def opened(state: Path) -> Store:
    return Store.open(f"sqlite:///{state / 'springtide.sqlite'}", state)


async def started(state: Path, store: Store) -> tuple[Any, Any]:
    """Return the engine and its executor, on which the same attempts run as before."""
    executor = worlds().MemoryExecutor(tuple(nodes()), time.time)
    executor._no_overlap = lambda _spec: None  # noqa: SLF001 - a check for tests, whose cost is not the pool's
    if (world := state / "world").exists():
        executor.world = pickle.loads(world.read_bytes())
    settings = EngineSettings(
        policy=Settings(grace=10.0, min_runtime=30.0), queue_cap=10**6, queue_cap_per_user=10**6
    )
    projects = {f"project{number}": {"quota": RUNNING // PROJECTS} for number in range(PROJECTS)}
    return await open_engine(store, executor, settings, projects=projects), executor


# ---------- filling


async def fill(state: Path, waiting: int, ended: int) -> None:
    """Make a store with ``ended`` ended jobs and, beside running ones, ``waiting`` waiting ones."""
    for jobs in (0, waiting):
        store = opened(state)
        try:
            engine, executor = await started(state, store)
            await engine.idle()
            await engine.stop()
            (state / "world").write_bytes(pickle.dumps(executor.world))
            if waiting and not jobs:
                _write_jobs(store, waiting + RUNNING, ended)
        finally:
            store.close()


def _write_jobs(store: Store, waiting: int, ended: int) -> None:
    now = time.time()
    for first in range(0, ended, BATCH):
        jobs = [_ended_job(number, now) for number in range(first, min(ended, first + BATCH))]
        store.commit(WriteBatch(new_jobs=jobs, new_attempts=[job.attempts[-1] for job in jobs]))
    for first in range(ended, ended + waiting, BATCH):
        numbers = range(first, min(ended + waiting, first + BATCH))
        store.commit(WriteBatch(new_jobs=[JobRecord(_spec(number, now)) for number in numbers]))


def _spec(number: int, submitted: float) -> JobSpec:
    user = number % USERS
    return JobSpec(
        id=f"filled{number:06d}",
        seq=number + 1,
        user=f"user{user}",
        project=project_of(user),
        submitted=submitted,
        name=f"job{number % 40}",
        kind="command",
        argv=("python", "train.py", "--seed", str(number)),
        key=f"key{number}",
        source="print('hello')\n" * 20,
    )


def _ended_job(number: int, now: float) -> JobRecord:
    began = now - 86_400 + number / 10
    spec = _spec(number, began)
    attempt = AttemptRecord(
        job=spec.id,
        number=1,
        placement=(Worker(0, f"node{number % NODES:03d}", (number % GPUS,)),),
        created=began,
        started=began,
        ended=began + 60,
        why=Reason("free", {}),
        ended_why=DONE,
        state=AttemptState.SUCCEEDED,
        seen=True,
        exit_code=0,
    )
    standing = JobStanding(
        state=JobState.SUCCEEDED, attempt=1, ran=60.0, served=60.0, started=began, ended=began + 60, reason=DONE
    )
    return JobRecord(spec, standing, (attempt,))


# ---------- serving


async def serve_pool(state: Path) -> None:
    """Print the port, and for each line of the standard input ticks and blocks; serve until that is closed."""
    async with AsyncExitStack() as stack:
        store = opened(state)
        stack.callback(store.close)
        process_tuning.return_when_freed()
        with process_tuning.loading():
            engine, executor = await started(state, store)
        stack.enter_context(process_tuning.short_collections(time.monotonic))
        stack.enter_context(process_tuning.short_interval())
        stack.push_async_callback(engine.stop)
        buckets = Buckets(PERSONAL_RATE, BURST, asyncio.get_running_loop().time)
        pool = Pool(
            engine, cast("Groups", People()), buckets, 4 << 20, 10.0, "0", time.time, streams=Slots(STREAMS)
        )
        sockets = bind_sockets(0, "127.0.0.1")
        port = sockets[0].getsockname()[1]
        server = serve(Site(pool, cast("Any", People()), PREFIX, b"secret", 30.0), sockets)
        stack.callback(server.stop)
        living = asyncio.create_task(_live(executor))
        stack.callback(living.cancel)
        print(port, flush=True)
        blocks = Blocks()
        watching = asyncio.create_task(blocks.watch())
        stack.callback(watching.cancel)
        while await asyncio.to_thread(sys.stdin.readline):
            print(engine.stats.ticks, blocks.take(), flush=True)


class Blocks:
    """The delays of the event loop."""

    def __init__(self) -> None:
        self._longest = 0.0

    def take(self) -> float:
        """Return the longest time since the last call, in seconds."""
        longest, self._longest = self._longest, 0.0
        return longest

    async def watch(self) -> None:
        """Be due every few milliseconds, until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self._longest = max(self._longest, clock() - due)


async def _live(executor: Any) -> None:
    """Have jobs report, and the oldest ones end at the rate of submissions; forget what only tests need."""
    clock = asyncio.get_running_loop().time
    began, ended = clock(), 0
    for tick in itertools.count(1):
        await asyncio.sleep(0.1)
        for kept in (executor.asked, executor.discarded, executor.reports, executor.ran):
            kept.clear()
        live = [key for key, status in executor.world.items() if status.started is not None and not status.exit]
        due = int(RATE * (clock() - began)) - ended
        for key in live[:due]:
            ended += 1
            executor.end(key, code=0)
            executor.world.pop(key)
            executor.specs.pop(key, None)
        for key in live[-REPORTS // 10 :]:
            executor.report(key, step=tick, of=1000, loss=1.0 / tick)
            executor.tell(LogGrew(key.job, 0, 100 * tick))
