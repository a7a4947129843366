"""The connection to the store breaks during a commit, so that the engine does not know whether it is on disk."""

from __future__ import annotations

import pytest

from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import Store, StoreError, StoreUnsureError


class BreakingStore(Store):
    """Breaks at the next commit, before or after it is on disk, and stays away for some questions."""

    breaks = ""
    away = 0

    def commit(self, batch):
        breaks, BreakingStore.breaks = BreakingStore.breaks, ""
        if breaks != "before":
            super().commit(batch)
        if breaks:
            BreakingStore.away = 2
            if breaks == "before":
                self._commits += 1
            raise StoreUnsureError("The connection broke.")

    def is_committed(self):
        if BreakingStore.away:
            BreakingStore.away -= 1
            raise StoreError("The database is away.")
        return super().is_committed()


@pytest.fixture
async def pool(make_pool):
    BreakingStore.breaks = ""
    pool = await make_pool()
    await pool.stop()
    pool.store_class = BreakingStore
    await pool.start()
    await pool.idle()
    return pool


async def test_a_submission_that_is_on_disk_is_accepted_and_runs(pool):
    BreakingStore.breaks = "after"
    job = await pool.submit(key="once", gpus=1)
    assert (await pool.state(job.id, "running")).attempt == 1
    assert (await pool.submit(key="once", gpus=1)).id == job.id
    pool.executor.end(pool.key(job.id), code=0)
    await pool.state(job.id, "succeeded")


async def test_a_submission_that_is_not_on_disk_is_refused_and_can_be_repeated(pool):
    BreakingStore.breaks = "before"
    with pytest.raises(Refusal) as refused:
        await pool.submit(key="once", gpus=1)
    assert refused.value.status == 503
    job = await pool.submit(key="once", gpus=1)
    await pool.state(job.id, "running")
