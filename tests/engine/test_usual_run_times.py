"""Usual run times of similar jobs are stored with jobs, follow newly ended ones, and decide among equal jobs."""

from __future__ import annotations

import pytest

from springtide.scheduler import wire

HOUR = 3600.0


@pytest.fixture
def run(pool):
    async def run(name: str, seconds: float) -> None:
        job = await pool.submit("susan", gpus=8, name=name)
        await pool.state(job.id, "running")
        pool.clock.now += seconds
        pool.executor.end(pool.key(job.id), code=0)
        await pool.state(job.id, "succeeded")

    return run


def usual_runtime(pool, job: wire.Job) -> float | None:
    return pool.engine._parts.state.jobs[job.id].standing.usual_runtime


async def test_a_job_is_stored_with_the_usual_run_time_of_those_like_it(pool, run):
    for seconds in (500.0, 600.0, 3000.0):
        await run("sweep-1", seconds)

    assert usual_runtime(pool, await pool.submit("susan", gpus=8, name="sweep-2")) == 600.0
    first = await pool.submit("joe", gpus=1, name="first")
    assert usual_runtime(pool, first) == 600.0, "of all jobs, for none of his own has ended"


async def test_nothing_is_known_before_any_job_has_ended(pool):
    assert usual_runtime(pool, await pool.submit("susan", gpus=8, name="sweep")) is None


async def test_it_is_known_after_a_restart_and_stays_with_the_job(pool, run):
    await run("sweep", 600.0)
    before = await pool.submit("susan", gpus=8, name="sweep", rotate=False)
    await pool.restart()
    await pool.idle()

    assert usual_runtime(pool, before) == 600.0
    assert usual_runtime(pool, await pool.submit("susan", gpus=8, name="sweep")) == 600.0


async def test_the_trials_of_a_sweep_know_the_usual_run_time_of_earlier_ones(pool, run):
    for number in range(3):
        await run(f"search #{number}", 600.0)
    await run("search", 4 * HOUR)
    await pool.submit("susan", gpus=8, name="search", trials=wire.Trials(number=2))
    await pool.idle()

    trials = [job for job in pool.engine._parts.state.jobs.values() if job.spec.trial is not None]
    assert {trial.standing.usual_runtime for trial in trials} == {600.0}


async def test_of_two_jobs_that_wait_the_one_known_to_be_shorter_starts_first(pool, run):
    await run("long", 3 * HOUR)
    await run("short", 600.0)
    busy = await pool.submit("susan", gpus=8, name="busy", rotate=False)
    await pool.state(busy.id, "running")
    long = await pool.submit("susan", gpus=8, name="long", rotate=False)
    short = await pool.submit("susan", gpus=8, name="short", rotate=False)
    pool.executor.end(pool.key(busy.id), code=0)

    await pool.state(short.id, "running")
    assert (await pool.job(long.id)).state == "queued"


async def test_a_job_that_is_only_thought_of_has_the_place_that_it_would_have(pool, run, members):
    await run("long", 3 * HOUR)
    await run("short", 600.0)
    busy = await pool.submit("susan", gpus=8, name="busy", rotate=False, time_limit=1000.0)
    await pool.state(busy.id, "running")
    await pool.submit("susan", gpus=8, name="long", rotate=False)
    pool.clock.now += 1

    async def starts(name: str) -> float:
        question = wire.WhatIf(job=wire.Wish(name=name, gpus=8))
        told = await pool.engine.forecast(
            question, "susan", "susan", sees=lambda _user, _project: True, members=members
        )
        return told.job.likely

    assert await starts("short") < await starts("long")


class TestLearning:
    """What waiting jobs are expected to take follows the jobs like them that end."""

    async def run_ahead(self, pool, name: str, seconds: float) -> None:
        """End the running job, after ``seconds``."""
        pool.clock.now += seconds
        pool.executor.end(pool.key(name), code=0)
        await pool.state(name, "succeeded")
        await pool.idle()

    async def test_jobs_that_waited_before_the_first_of_their_kind_ended_go_before_later_twins(self, pool):
        first = await pool.submit("susan", gpus=8, name="epoch-0", rotate=False)
        await pool.state(first.id, "running")
        earlier = [await pool.submit("susan", gpus=8, name=f"epoch-{number}", rotate=False) for number in (1, 2)]
        await self.run_ahead(pool, first.id, 600.0)
        later = [await pool.submit("susan", gpus=8, name=f"epoch-{number}", rotate=False) for number in (3, 4)]

        ran = []
        for _ in range(4):
            await pool.idle()
            [running] = [job.id for job in [*earlier, *later] if (await pool.job(job.id)).state == "running"]
            ran.append(running)
            await self.run_ahead(pool, running, 600.0)
        assert ran == [job.id for job in [*earlier, *later]]

    async def test_all_jobs_that_are_alike_expect_the_same(self, pool, run):
        await run("epoch-0", 3 * HOUR)
        first = await pool.submit("susan", gpus=8, name="epoch-1", rotate=False)
        await pool.state(first.id, "running")
        second = await pool.submit("susan", gpus=8, name="epoch-2", rotate=False)
        assert usual_runtime(pool, second) == 3 * HOUR
        await self.run_ahead(pool, first.id, HOUR)
        third = await pool.submit("susan", gpus=8, name="epoch-3", rotate=False)

        assert usual_runtime(pool, second) == usual_runtime(pool, third) == 2 * HOUR
        assert (await pool.job(third.id)).usual_runtime == 2 * HOUR

    async def test_what_was_learnt_is_known_after_a_restart(self, pool):
        first = await pool.submit("susan", gpus=8, name="epoch-0", rotate=False)
        await pool.state(first.id, "running")
        waits = await pool.submit("susan", gpus=8, name="epoch-1", rotate=False)
        last = await pool.submit("susan", gpus=8, name="epoch-2", rotate=False)
        await self.run_ahead(pool, first.id, 600.0)
        await pool.state(waits.id, "running")
        await pool.restart()

        assert usual_runtime(pool, last) == 600.0

    async def test_small_differences_change_nothing(self, pool, run):
        await run("epoch", 600.0)
        first = await pool.submit("susan", gpus=8, name="epoch", rotate=False)
        await pool.state(first.id, "running")
        waits = await pool.submit("susan", gpus=8, name="epoch", rotate=False)
        await self.run_ahead(pool, first.id, 660.0)

        assert usual_runtime(pool, waits) == 600.0
