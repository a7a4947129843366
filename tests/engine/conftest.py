"""A pool to test the engine with: a real store, and an executor in memory."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import sys
from pathlib import Path

import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine import Engine, EngineSettings, Retries
from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.model import Settings
from springtide.scheduler.store import Store

_spec = importlib.util.spec_from_file_location("engine_worlds", Path(__file__).parent / "worlds.py")
worlds = importlib.util.module_from_spec(_spec)
sys.modules["engine_worlds"] = worlds
_spec.loader.exec_module(worlds)

PROJECTS = {
    "susan": {"quota": 2, "build_quota": 1},
    "joe": {"quota": 2, "build_quota": 1},
    "jemma": {"quota": 2, "build_quota": 1},
}
PATIENCE = 60.0
MEMBERS = {name: [name] for name in PROJECTS}
QUICK = EngineSettings(policy=Settings(grace=5.0), retries=Retries(first=1.0, longest=60.0, fruitless_limit=4))


class Pool:
    """An engine with its store and executor; the executor and the files outlive `crash` and `restart`."""

    def __init__(self, path, executor=None, settings=QUICK, projects=PROJECTS, url=None, **more: object) -> None:
        self.path = path
        self.url = url or f"sqlite:///{path}/springtide.sqlite"
        self.executor = executor or worlds.MemoryExecutor()
        self.clock = self.executor.clock
        self.settings = settings
        self.projects = projects
        self.more = more
        self.ids = (f"job{number}" for number in itertools.count(1))
        self.store_class = Store
        self.store = None
        self.engine = None

    async def start(self):
        self.store = self.store_class.open(self.url, self.path)
        self.engine = Engine(
            self.store,
            self.executor,
            self.settings,
            projects=self.projects,
            clock=self.clock,
            new_id=lambda: next(self.ids),
            **self.more,
        )
        await self.engine.start()
        return self

    async def stop(self):
        if self.engine is not None:
            await self.engine.stop()
            self.engine = None
        if self.store is not None:
            self.store.close()
            self.store = None

    async def restart(self):
        await self.stop()
        return await self.start()

    async def submit(self, user="susan", project=None, **fields: object):
        fields.setdefault("argv", ["python", "train.py"])
        return await self.engine.submit(wire.Submission(**fields), user, project or user)

    def job(self, job_id):
        return self.engine.job(job_id)

    def key(self, job_id, attempt=None):
        return AttemptKey(job_id, attempt or self.job(job_id).attempt)

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE):
            while not (found := condition()):
                await asyncio.sleep(0.002)
        return found

    async def state(self, job_id, *states: str, attempt=None):
        """Wait until the job is in one of these states (and at this attempt)."""
        try:
            await self.until(
                lambda: self.job(job_id).state in states and attempt in {None, self.job(job_id).attempt}
            )
        except TimeoutError:
            found = self.job(job_id)
            pytest.fail(f"{job_id} is {found.state} at attempt {found.attempt} ({found.reason}), not {states}")
        return self.job(job_id)

    async def quiet(self):
        """Wait until nothing is left to decide or to do."""
        loop, acts, inbox = self.engine._loop, self.engine._acts, self.engine._inbox
        calm = 0
        async with asyncio.timeout(PATIENCE):
            while calm < 3:
                ticks = self.engine.stats.ticks
                await asyncio.sleep(0.003)
                busy = inbox.news or inbox.requests or acts._tasks or loop._replan or loop._wait
                calm = 0 if busy or self.engine.stats.ticks != ticks else calm + 1

    async def later(self, seconds):
        """Let time pass, and wake the engine so that it notices."""
        self.clock.now += seconds
        self.engine._inbox.some.set()
        await asyncio.sleep(0)
        self.engine._loop._replan = True
        self.engine._inbox.some.set()
        await self.quiet()


@pytest.fixture
async def pool(tmp_path):
    one = Pool(tmp_path)
    await one.start()
    yield one
    await one.stop()
    assert one.executor.violations == []


@pytest.fixture
async def make_pool(tmp_path):
    made = []

    async def make(**more: object):
        more.setdefault("path", tmp_path)
        one = Pool(**more)
        made.append(one)
        return await one.start()

    yield make
    for one in made:
        await one.stop()
        assert one.executor.violations == []


@pytest.fixture
def members():
    return MEMBERS
