"""A service that dies at any write loses nothing and runs nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from springtide.scheduler.engine import JobFilter
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store


class DeathError(Exception):
    """The process is gone."""


class MortalStore(Store):
    """Dies at one commit, before or after it is on disk."""

    commits = 0
    fatal = 0
    after = False

    def commit(self, batch):
        MortalStore.commits += 1
        if MortalStore.commits == MortalStore.fatal and not MortalStore.after:
            raise DeathError
        super().commit(batch)
        if MortalStore.commits == MortalStore.fatal:
            raise DeathError


class Story:
    """Three jobs, a reclaim, a user's pause and a cancel. Every step can be repeated after a crash."""

    def __init__(self, pool) -> None:
        self.pool = pool
        self.jobs: dict[str, Any] = {}

    async def submitted(self, name, user, gpus):
        self.jobs[name] = (await self.pool.submit(user, key=name, gpus=gpus)).id

    async def is_in(self, name, *states: str):
        await self.pool.state(self.jobs[name], *states)

    def end(self, name, code=0):
        key = self.pool.key(self.jobs[name])
        if key in self.pool.executor.world:
            self.pool.executor.end(key, code=code)

    async def first(self):
        await self.submitted("a", "susan", 4)
        await self.is_in("a", "running")

    async def second(self):
        self.pool.clock.now += 1
        await self.submitted("b", "susan", 4)
        await self.is_in("b", "running")

    async def reclaimed(self):
        await self.submitted("c", "joe", 2)
        await self.is_in("c", "running")
        await self.is_in("b", "paused")

    async def held(self):
        await self.pool.engine.pause(self.jobs["a"], "susan")
        await self.is_in("a", "paused")
        await self.is_in("b", "running")

    async def let_go(self):
        await self.pool.engine.resume(self.jobs["a"], "susan")
        await self.is_in("a", "paused")

    async def owner_done(self):
        if (await self.pool.job(self.jobs["c"])).state == "running":
            self.end("c")
        await self.is_in("c", "succeeded")
        await self.is_in("a", "running")
        await self.is_in("b", "running")

    async def cancelled(self):
        await self.pool.engine.cancel(self.jobs["b"], "susan")
        await self.is_in("b", "cancelled")

    async def done(self):
        if (await self.pool.job(self.jobs["a"])).state == "running":
            self.end("a")
        await self.is_in("a", "succeeded")

    async def tell(self):
        """Go through all steps, starting the service again whenever it died; how often it did."""
        deaths = 0
        for step in (
            self.first,
            self.second,
            self.reclaimed,
            self.held,
            self.let_go,
            self.owner_done,
            self.cancelled,
            self.done,
        ):
            while not await self._survived(step):
                deaths += 1
                await self.pool.restart()
        return deaths

    async def _survived(self, step):
        ended = asyncio.ensure_future(self.pool.engine.wait_closed())
        going = asyncio.ensure_future(step())
        await asyncio.wait({ended, going}, return_when=asyncio.FIRST_COMPLETED)
        if not going.done():
            going.cancel()
        ended.cancel()
        outcome = (await asyncio.gather(going, return_exceptions=True))[0]
        if isinstance(outcome, Refusal | asyncio.CancelledError):
            assert await self.pool.engine.wait_closed(), repr(outcome)
            return False
        if outcome is not None:
            raise outcome
        return True


@pytest.mark.parametrize("after", [False, True], ids=["before it is on disk", "after it is on disk"])
async def test_death_at_every_write(make_pool, tmp_path, after):
    fatal, died = 1, True
    MortalStore.after = after
    while died:
        MortalStore.commits, MortalStore.fatal = 0, 0
        pool = await make_pool(path=tmp_path / f"{fatal}")
        await pool.stop()
        pool.store_class = MortalStore
        MortalStore.commits, MortalStore.fatal = 0, fatal
        await pool.start()
        story = Story(pool)
        died = await story.tell() > 0
        await pool.idle()
        outcome = {name: (await pool.job(job_id)).state for name, job_id in story.jobs.items()}
        assert outcome == {"a": "succeeded", "b": "cancelled", "c": "succeeded"}, f"death at write {fatal}"
        assert set(pool.executor.ran.values()) == {1}, f"death at write {fatal}"
        assert len((await pool.engine.jobs(JobFilter(), None, 10)).items) == 3, f"death at write {fatal}"
        assert pool.executor.violations == []
        assert not pool.executor.live()
        await pool.stop()
        fatal += 1
    assert fatal > 15
