"""What is said of the start of a waiting job agrees: its headline, what lets it start, its forecast, `explain`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import engine_worlds as worlds
import pytest
from patience import PATIENCE_S

from springtide.hub_extension.commands.explain import Explanation, lines_of
from springtide.scheduler import wire
from springtide.scheduler.engine.loop import launch_stops
from springtide.scheduler.executors.base import Exit, ExitKind
from springtide.scheduler.model import Block, BlockScope

LONG = PATIENCE_S
TWO = (worlds.node("a", 8), worlds.node("b", 8))
REFUSED = "The cluster refused the pod: quota exceeded."
Lines = Callable[[str], Awaitable[str]]


def explained(pool: Any, members: Any) -> Lines:
    """Return a function that gives what `explain` prints of a job once its forecast was made."""

    async def lines(job_id: str) -> str:
        await pool.engine.request_starts([await pool.job(job_id)], LONG)
        question = wire.WhatIf(starts=[job_id])
        found = await pool.engine.forecast(question, "susan", "susan", sees=lambda *_: True, members=members)
        job = await pool.job(job_id)
        starts, changes = found.starts.get(job_id), found.starts_if.get(job_id, [])
        assert (job.starts is None or job.starts.likely is None) == (starts is None or starts.likely is None)
        assert [each.text for each in job.starts_if or []] == [each.text for each in changes]
        return "\n".join(lines_of(Explanation(job, None, starts, [], changes), pool.clock()))

    return lines


async def refused(pool: Any, job: str) -> None:
    async def was() -> bool:
        attempts = (await pool.job(job)).attempts
        return bool(attempts) and attempts[-1].state == "blocked"

    await pool.until(was)


async def test_a_job_that_the_cluster_refuses_has_no_start_time_and_no_nodes_would_help(
    make_pool: Any, members: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_stops, "INTERVAL", 3600.0)
    pool = await make_pool()
    block = Block(BlockScope.POOL, "quota exceeded")
    pool.executor.refuses = lambda _: Exit(ExitKind.BLOCKED, 1_000_000.0, detail=REFUSED, block=block)
    jobs = []
    for _ in range(3):
        jobs.append((await pool.submit("susan", gpus=1)).id)
        await refused(pool, jobs[-1])
        if len(jobs) == 1:
            said = await explained(pool, members)(jobs[0])
            assert "It can run again in 1 s." in said
            assert "starts" not in said.replace("It could not be started", "")
            assert "node" not in said
    withheld = (await pool.submit("joe", gpus=1)).id
    await pool.later(600.0)
    for job in (jobs[0], withheld):
        said = await explained(pool, members)(job)
        assert "then starts this job by itself." in said
        assert "It does not wait." not in said
        assert "Likely" not in said


async def test_a_job_of_a_frozen_project_waits_for_a_person_alone(make_pool: Any, members: Any) -> None:
    pool = await make_pool()
    await pool.engine.freeze("susan", wire.FreezeRequest(why="audit"), "admin", members={})
    job = (await pool.submit("susan", gpus=2)).id
    await pool.idle()
    said = await explained(pool, members)(job)
    assert "springtide unfreeze susan" in said
    assert "When:" not in said


async def test_a_job_that_a_drain_leaves_without_nodes_waits_for_the_undrain(make_pool: Any, members: Any) -> None:
    pool = await make_pool(executor=worlds.MemoryExecutor(TWO))
    job = (await pool.submit("susan", gpus=1, workers=16)).id
    await pool.state(job, "running")
    await pool.engine.drain_node(wire.DrainRequest(node="a", why="a fan"), "admin")
    await pool.state(job, "paused")
    said = await explained(pool, members)(job)
    assert "It can start once the node a is undrained." in said
    for other in ("more node", "never", "Likely", "Cannot"):
        assert other not in said
    assert (await pool.job(job)).reason.headline.endswith("Waiting: the node a is drained.")
    await pool.engine.undrain_node(wire.UndrainRequest(node="a"), "admin")
    await pool.state(job, "running")


async def test_a_start_that_was_forecast_is_gone_as_soon_as_the_node_is_drained(
    make_pool: Any, members: Any
) -> None:
    pool = await make_pool(executor=worlds.MemoryExecutor(TWO[:1]))
    first = (await pool.submit("joe", gpus=8, time_limit=1000.0, rotate=False)).id
    await pool.state(first, "running")
    job = (await pool.submit("susan", gpus=8)).id

    async def known() -> bool:
        await pool.engine.request_starts([await pool.job(job)], LONG)
        starts = (await pool.job(job)).starts
        return starts is not None and starts.likely is not None

    async with asyncio.timeout(LONG):
        while not await known():
            await asyncio.sleep(0.05)
    await pool.engine.drain_node(wire.DrainRequest(node="a", why="a fan", finish=True), "admin")
    found = await pool.job(job)
    assert found.starts is None or found.starts.likely is None
    assert found.starts_if is None


async def test_before_a_maintenance_no_further_node_is_asked_for(make_pool: Any, members: Any) -> None:
    pool = await make_pool()
    now = pool.clock()
    request = wire.BookingRequest(start=now + 60.0, end=now + 7200.0, nodes=("train",), why="a new kernel")
    await pool.engine.book(request, "admin")
    job = (await pool.submit("susan", gpus=2)).id
    await pool.idle()
    said = await explained(pool, members)(job)
    assert "It can start there afterwards. Likely starts in about 2 h." in said
    assert "more node" not in said
