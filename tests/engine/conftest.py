"""A pool to test the engine with: a real store, and an executor in memory."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import sys
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S
from stores.new_store import sqlite_url

from springtide.scheduler import wire
from springtide.scheduler.clock import Clock
from springtide.scheduler.engine import EngineSettings, Retries, open_engine
from springtide.scheduler.executors.base import InventoryChanged
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
MEMBERS = {name: [name] for name in PROJECTS}
QUICK = EngineSettings(policy=Settings(grace=5.0), retries=Retries(first=1.0, longest=60.0, fruitless_limit=4))


class Pool:
    """An engine with its store and executor; the executor and the files outlive `crash` and `restart`."""

    def __init__(self, path, executor=None, settings=QUICK, projects=PROJECTS, url=None, **more: Any) -> None:
        self.path = path
        self.url = url or sqlite_url(path)
        self.executor = executor or worlds.MemoryExecutor()
        self.clock = self.executor.clock
        self.step = 0.0
        self.boot = 1
        self.settings = settings
        self.projects = projects
        self.more = more
        self.ids = (f"job{number}" for number in itertools.count(1))
        self.store_class = Store
        self.store: Any = None
        self.engine: Any = None

    async def start(self):
        self.store = self.store_class.open(self.url, self.path)
        self.engine = await open_engine(
            self.store,
            self.executor,
            self.settings,
            projects=self.projects,
            clock=Clock(self.clock, self.steady, self.boot),
            new_id=lambda: next(self.ids),
            **self.more,
        )
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

    async def submit(self, user="susan", project=None, **fields: Any):
        fields.setdefault("argv", ["python", "train.py"])
        lineage = fields.pop("lineage", ())
        return await self.engine.submit(wire.Submission(**fields), user, project or user, lineage=lineage)

    async def job(self, job_id):
        """The job as administrators see it, with the names of all others."""
        return (await self.engine.job(job_id)).in_full()

    def key(self, job_id):
        """The job's latest attempt requested from the executor."""
        return max(key for _, key in self.executor.asked if key.job == job_id)

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await found if isawaitable(found := condition()) else found):
                await asyncio.sleep(0.002)
        return found

    async def state(self, job_id, *states: str, attempt=None):
        """Wait until the job is in one of these states (and at this attempt)."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                found = await self.job(job_id)
                while found.state not in states or attempt not in {None, found.attempt}:
                    await asyncio.sleep(0.002)
                    found = await self.job(job_id)
        except TimeoutError:
            pytest.fail(f"{job_id} is {found.state} at attempt {found.attempt} ({found.reason}), not {states}")
        return found

    async def idle(self):
        async with asyncio.timeout(PATIENCE_S):
            await self.engine.idle()

    def steady(self):
        return self.clock() - self.step

    async def set_clock(self, seconds):
        """Change the system clock by ``seconds``, while no time passes."""
        self.clock.now += seconds
        self.step += seconds
        if self.engine is not None:
            await self.later(0)

    async def later(self, seconds):
        """Let time pass, and let the engine notice."""
        self.clock.now += seconds
        self.executor.tell(InventoryChanged())
        await self.idle()


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

    async def make(**more: Any):
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
