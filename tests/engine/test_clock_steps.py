"""The system clock is set while jobs run and wait: durations stay what they are."""

from __future__ import annotations

import pytest

from springtide.scheduler.clock import Clock, ClockAnchor
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.model import Settings
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError

HOUR = 3600.0


@pytest.fixture
async def pool(make_pool):
    return await make_pool(settings=EngineSettings(policy=Settings(grace=5.0, min_runtime=30.0)))


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_neither_kills_a_job_for_its_time_limit_nor_prolongs_it(pool, step):
    job = await pool.submit(gpus=1, time_limit=300)
    await pool.state(job.id, "running")
    await pool.later(100)
    await pool.set_clock(step)
    await pool.later(190)
    assert (await pool.job(job.id)).state == "running"
    await pool.later(11)
    assert (await pool.job(job.id)).state == "failed"
    assert "time limit" in (await pool.job(job.id)).error


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_does_not_delay_an_owner(pool, step):
    borrower = await pool.submit("susan", gpus=8)
    await pool.state(borrower.id, "running")
    await pool.later(31)
    await pool.set_clock(step)
    owners = await pool.submit("joe", gpus=2)
    await pool.idle()
    assert (await pool.job(owners.id)).state == "running"


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_does_not_shorten_the_minimum_run_time(pool, step):
    borrower = await pool.submit("susan", gpus=8)
    await pool.state(borrower.id, "running")
    await pool.later(10)
    await pool.set_clock(step)
    owners = await pool.submit("joe", gpus=2)
    await pool.idle()
    assert (await pool.job(owners.id)).state == "queued"
    await pool.later(21)
    assert (await pool.job(owners.id)).state == "running"


async def test_a_step_back_does_not_let_later_jobs_overtake(pool):
    blocker = await pool.submit(gpus=8)
    await pool.state(blocker.id, "running")
    first = await pool.submit("joe", gpus=2, priority=1)
    await pool.set_clock(-HOUR)
    second = await pool.submit("joe", gpus=2, priority=1)
    await pool.idle()
    places = [(await pool.job(job.id)).place for job in (first, second)]
    assert places == sorted(places)
    assert (await pool.job(second.id)).submitted >= (await pool.job(first.id)).submitted


async def test_a_retry_waits_as_long_as_before_the_step(pool):
    job = await pool.submit(gpus=1, retries=1)
    await pool.state(job.id, "running")
    pool.executor.end(pool.key(job.id), code=1)
    await pool.state(job.id, "paused")
    await pool.set_clock(-HOUR)
    await pool.later(pool.settings.retries.first + 1)
    await pool.state(job.id, "running", attempt=2)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_a_step_while_the_service_is_away_counts_too(pool, step):
    job = await pool.submit(gpus=1, time_limit=300)
    await pool.state(job.id, "running")
    await pool.idle()
    await pool.stop()
    await pool.set_clock(step)
    await pool.start()
    await pool.later(290)
    assert (await pool.job(job.id)).state == "running"
    await pool.later(11)
    assert (await pool.job(job.id)).state == "failed"


async def test_what_was_shifted_is_on_disk(pool):
    job = await pool.submit(gpus=1)
    started = (await pool.state(job.id, "running")).started
    await pool.set_clock(HOUR)
    await pool.restart()
    shifted = await pool.job(job.id)
    assert shifted.started == started + HOUR
    assert shifted.attempts[0].started == started + HOUR
    assert shifted.submitted == job.submitted + HOUR


async def test_another_boot_shifts_nothing(pool):
    job = await pool.submit(gpus=1)
    started = (await pool.state(job.id, "running")).started
    await pool.idle()
    await pool.stop()
    pool.boot += 1
    await pool.set_clock(HOUR)
    await pool.start()
    await pool.idle()
    assert (await pool.job(job.id)).started == started


async def test_a_step_that_cannot_be_written_is_followed_and_logged_as_soon_as_it_can(pool, monkeypatch, caplog):
    job = await pool.submit(gpus=1, time_limit=300)
    await pool.state(job.id, "running")
    await pool.idle()

    def fail(_batch):
        raise StoreError("The disk is away.")

    monkeypatch.setattr(pool.store, "commit", fail)
    pool.clock.now += HOUR
    pool.step += HOUR
    with pytest.raises(Refusal, match="could not be written"):
        await pool.engine.pause(job.id, "susan")
    assert pool.engine.stats.failed_commits == 1
    assert "clock was set" not in caplog.text
    monkeypatch.undo()
    await pool.later(290)
    assert caplog.text.count("clock was set") == 1
    assert (await pool.job(job.id)).state == "running"
    await pool.later(11)
    assert (await pool.job(job.id)).state == "failed"


def test_small_corrections_of_the_clock_are_no_steps():
    assert ClockAnchor(1, 100.0).step_to(ClockAnchor(1, 100.5)) == 0
    assert ClockAnchor(1, 100.0).step_to(ClockAnchor(1, 98.0)) == -2.0
    assert ClockAnchor(1, 100.0).step_to(ClockAnchor(2, 200.0)) == 0


def test_the_clock_of_this_machine_has_one_anchor():
    clock = Clock()
    assert clock.anchor().step_to(Clock().anchor()) == 0
    assert clock.steady() <= clock.steady()


async def test_a_clock_that_goes_back_while_the_machine_boots_delays_no_retry(pool):
    job = await pool.submit(gpus=1, retries=1)
    await pool.state(job.id, "running")
    await pool.later(5)
    pool.executor.end(pool.key(job.id), code=1)
    await pool.state(job.id, "paused")
    await pool.stop()
    pool.boot += 1
    await pool.set_clock(-24 * HOUR)
    await pool.start()
    await pool.idle()
    await pool.later(2.5)
    assert (await pool.job(job.id)).state == "running"


@pytest.mark.parametrize("step", [0.0, HOUR, -HOUR])
async def test_the_time_during_which_the_machine_is_off_is_no_run_time(pool, step):
    """Also when the clock was set just before the machine lost power, or while it was off."""
    job = await pool.submit(gpus=2, time_limit=300)
    await pool.state(job.id, "running")
    await pool.later(100)
    await pool.stop()
    pool.boot += 1
    await pool.set_clock(6 * HOUR + step)
    pool.executor.end(pool.key(job.id), kind=ExitKind.LOST, ran=100.0)
    await pool.start()
    lost = (await pool.state(job.id, "running", attempt=2)).attempts[0]
    assert lost.ended - lost.started == 100
    assert (await pool.job(job.id)).gpu_seconds == 200
    await pool.later(199)
    assert (await pool.job(job.id)).state == "running"
    await pool.later(2)
    assert (await pool.job(job.id)).state == "failed"


async def test_an_end_that_was_recorded_before_the_clock_was_set_counts_as_long_as_it_ran(pool):
    job = await pool.submit(gpus=1, time_limit=300, retries=1)
    await pool.state(job.id, "running")
    await pool.later(100)
    await pool.stop()
    pool.executor.end(pool.key(job.id), code=1, ran=100.0)
    await pool.set_clock(HOUR)
    await pool.start()
    await pool.idle()
    ended = (await pool.job(job.id)).attempts[0]
    assert ended.ended - ended.started == 100


async def test_a_step_while_the_store_cannot_be_written_delays_no_retry(pool, monkeypatch):
    job = await pool.submit(gpus=1, retries=1)
    await pool.state(job.id, "running")
    commit = pool.store.commit

    def fail(batch):
        raise StoreError("The database is away.")

    monkeypatch.setattr(pool.store, "commit", fail)
    pool.executor.end(pool.key(job.id), code=1)
    await pool.until(lambda: pool.engine.stats.failed_commits)
    pool.clock.now -= 24 * HOUR
    pool.step -= 24 * HOUR
    monkeypatch.setattr(pool.store, "commit", commit)
    await pool.state(job.id, "paused")
    await pool.later(2.5)
    assert (await pool.job(job.id)).state == "running"
