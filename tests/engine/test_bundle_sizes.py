"""Files of unfinished jobs count on the account of their user and project, until the jobs end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.refusal import Refusal

KIB = 1024
LARGE = 100 * KIB
"""More than is kept in SQL."""
MakePool = Callable[..., Awaitable[Any]]


def files(seed: int, size: int = LARGE) -> dict[str, bytes]:
    return {"model.bin": bytes([seed]) * size}


def kept(pool: Any) -> int:
    """Bundles on disk."""
    directory = pool.path / "bundles"
    return len(list(directory.iterdir())) if directory.is_dir() else 0


@pytest.fixture
async def small(make_pool: MakePool) -> Any:
    settings = EngineSettings(kept_bytes_per_user=250 * KIB, kept_bytes_per_project=350 * KIB)
    return await make_pool(settings=settings)


async def test_one_user_keeps_so_many_bytes_and_no_more(small: Any) -> None:
    for seed in (1, 2):
        await small.submit(files=files(seed))
    with pytest.raises(Refusal, match="unfinished jobs of the user “susan” would keep 0 MiB") as refused:
        await small.submit(files=files(3))
    assert (refused.value.status, refused.value.code) == (429, "too_many_bytes")
    assert "Cancel jobs" in refused.value.hint
    assert kept(small) == 2, "nothing is written for a job that is refused"
    await small.submit(files={})


async def test_one_project_keeps_so_many_bytes_and_no_more(small: Any) -> None:
    for seed, user in ((1, "susan"), (2, "susan"), (3, "joe")):
        await small.submit(user, "susan", files=files(seed))
    with pytest.raises(Refusal, match="unfinished jobs of the project “susan”"):
        await small.submit("joe", "susan", files=files(4))
    await small.submit("joe", "joe", files=files(4))


async def test_equal_files_count_once(small: Any) -> None:
    for _ in range(5):
        await small.submit(files=files(1))
    await small.submit(files=files(2))
    with pytest.raises(Refusal):
        await small.submit(files=files(3))


async def test_files_of_ended_jobs_count_no_longer_also_after_a_restart(small: Any) -> None:
    await small.submit(gpus=6)
    first, _ = [await small.submit(gpus=6, files=files(seed)) for seed in (1, 2)]
    await small.restart()
    with pytest.raises(Refusal):
        await small.submit(files=files(3))
    await small.engine.cancel(first.id, "susan")
    await small.state(first.id, "cancelled")
    await small.submit(files=files(3))


async def test_files_of_cancelled_jobs_go_if_none_are_kept(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("springtide.scheduler.engine.loop.pruning.BUNDLES_EVERY", 0.05)
    pool = await make_pool(settings=EngineSettings(keep_files_days=-1.0))
    jobs = [await pool.submit(files=files(1), gpus=6) for _ in range(2)]
    states = {job.id: (await pool.job(job.id)).state for job in jobs}
    waits = next(job_id for job_id, state in states.items() if state == "queued")
    held = await pool.submit(files=files(2), gpus=6)
    assert kept(pool) == 2
    monkeypatch.setattr("springtide.scheduler.store.store.ORPHAN_AGE", 0.0)
    await pool.engine.cancel(held.id, "susan")
    await pool.state(held.id, "cancelled")
    await pool.until(lambda: kept(pool) == 1)
    await pool.engine.cancel(waits, "susan")
    await pool.state(waits, "cancelled")
    assert kept(pool) == 1
