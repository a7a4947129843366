"""A job on hold does not start, or not again, until it is released."""

from __future__ import annotations

import pytest

from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal

WHY = "Its data may not be used any more."
ON_HOLD = "It was put on hold by “admin”: Its data may not be used any more."


@pytest.fixture
async def full(pool) -> wire.Job:
    """A job that runs on all GPUs."""
    job = await pool.submit("susan", gpus=8, name="busy", rotate=False)
    return await pool.state(job.id, "running")


async def entries(pool, number: int) -> list[tuple[str, str, str]]:
    return [(each.who, each.what, each.subject) for each in (await pool.engine.audit(None, number)).items]


async def test_a_waiting_job_on_hold_does_not_start_and_says_why(pool, full):
    waits = await pool.submit("susan", gpus=8, name="waits")
    held = await pool.engine.hold(waits.id, "admin", WHY)
    pool.executor.end(pool.key(full.id), code=0)
    await pool.state(full.id, "succeeded")
    await pool.idle()

    job = await pool.job(waits.id)
    assert job.state == held.state == "queued"
    assert job.hold == wire.Hold(by="admin", reason=WHY, at=pool.clock.now)
    assert job.reason.text.startswith(ON_HOLD)
    assert job.place is None


async def test_its_gpus_go_to_the_jobs_behind_it(pool, full):
    first = await pool.submit("susan", gpus=8, name="first")
    behind = await pool.submit("susan", gpus=8, name="behind")
    await pool.engine.hold(first.id, "admin", WHY)
    pool.executor.end(pool.key(full.id), code=0)

    await pool.state(behind.id, "running")
    assert (await pool.job(first.id)).state == "queued"


async def test_a_released_job_starts_and_both_are_in_the_trail(pool, full):
    waits = await pool.submit("susan", gpus=8, name="waits")
    await pool.engine.hold(waits.id, "admin", WHY)
    pool.executor.end(pool.key(full.id), code=0)
    await pool.engine.release(waits.id, "lead")

    assert (await pool.state(waits.id, "running")).hold is None
    assert await entries(pool, 2) == [("lead", "job.release", waits.id), ("admin", "job.hold", waits.id)]


async def test_its_user_cannot_release_it_by_pause_and_resume(pool, full):
    waits = await pool.submit("susan", gpus=8, name="waits")
    await pool.engine.hold(waits.id, "admin", WHY)
    await pool.engine.pause(waits.id, "susan")
    await pool.engine.resume(waits.id, "susan")
    pool.executor.end(pool.key(full.id), code=0)
    await pool.state(full.id, "succeeded")
    await pool.idle()

    job = await pool.job(waits.id)
    assert job.state == "queued"
    assert job.hold is not None


async def test_a_running_job_is_paused_and_its_gpus_go_to_others(pool, full):
    behind = await pool.submit("joe", gpus=8, name="behind")
    pausing = await pool.engine.hold(full.id, "admin", WHY)
    assert pausing.state == "pausing"
    assert "It was paused when “admin” put it on hold: Its data may not be used any more." in pausing.reason.text

    job = await pool.state(full.id, "paused")
    assert job.reason.text.startswith(ON_HOLD)
    assert job.attempts[-1].ended_why.code == "engine-paused-for-hold"
    await pool.state(behind.id, "running")
    pool.executor.end(pool.key(behind.id), code=0)
    await pool.engine.resume(full.id, "susan")
    await pool.idle()
    assert (await pool.job(full.id)).state == "paused"

    await pool.engine.release(full.id, "admin")
    assert (await pool.state(full.id, "running")).attempt == 2


async def test_a_job_that_is_being_moved_does_not_start_elsewhere_once_it_is_on_hold(pool, full):
    pool.executor.ignores_pause = True
    await pool.engine.drain_node(wire.DrainRequest(node="train"), "admin")
    await pool.engine.hold(full.id, "admin", WHY)
    await pool.engine.undrain_node(wire.UndrainRequest(node="train"), "admin")
    pool.executor.end(pool.key(full.id), code=75)
    await pool.idle()
    assert (await pool.job(full.id)).state == "paused"


async def test_a_job_that_is_being_cancelled_is_not_paused(pool, full):
    pool.executor.ignores_kill = True
    await pool.engine.cancel(full.id, "susan")
    job = await pool.engine.hold(full.id, "admin", WHY)
    assert "Cancelled by “susan”" in job.reason.headline


async def test_a_running_sweep_is_paused_with_its_trials(pool):
    sweep = await pool.submit("susan", gpus=2, name="search", trials=wire.Trials(number=6, at_most=2))
    await pool.state(sweep.id, "running")
    await pool.engine.hold(sweep.id, "admin", WHY)
    held = await pool.state(sweep.id, "paused", "queued")
    await pool.idle()
    assert (await pool.job(sweep.id)).trials.running == 0
    assert held.hold is not None

    await pool.engine.release(sweep.id, "admin")
    await pool.until(lambda: _running(pool, sweep.id, 2))


async def _running(pool, sweep: str, number: int) -> bool:
    return (await pool.job(sweep)).trials.running == number


async def test_a_running_job_that_may_finish_runs_on_and_does_not_start_again(pool, full):
    job = await pool.engine.hold(full.id, "admin", WHY, finish=True)
    assert job.state == "running"
    assert f"{ON_HOLD} It runs on, and does not start again before it is released." in job.reason.text

    pool.executor.end(pool.key(full.id), code=75)
    await pool.state(full.id, "paused")
    await pool.later(600.0)
    await pool.idle()
    assert (await pool.job(full.id)).state == "paused"


async def test_a_hold_outlives_a_restart_and_ends_with_the_job(pool, full):
    waits = await pool.submit("susan", gpus=8, name="waits")
    await pool.engine.hold(waits.id, "admin", WHY)
    await pool.restart()
    await pool.idle()
    assert (await pool.job(waits.id)).hold is not None

    cancelled = await pool.engine.cancel(waits.id, "susan")
    assert (cancelled.state, cancelled.hold) == ("cancelled", None)


async def test_a_sweep_on_hold_begins_no_trial_and_starts_none(pool, full):
    sweep = await pool.submit("susan", gpus=8, name="search", trials=wire.Trials(number=3, at_most=1))
    await pool.engine.hold(sweep.id, "admin", WHY)
    pool.executor.end(pool.key(full.id), code=0)
    await pool.state(full.id, "succeeded")
    await pool.idle()
    held = await pool.job(sweep.id)
    assert (held.state, held.trials.running) == ("queued", 0)
    assert held.reason.text.startswith(ON_HOLD)

    await pool.engine.release(sweep.id, "admin")
    await pool.state(sweep.id, "running")


async def test_a_job_without_gpus_on_hold_does_not_start(pool):
    jobs = [await pool.submit("susan", gpus=0, name=f"prepare-{number}") for number in range(5)]
    await pool.engine.hold(jobs[-1].id, "admin", WHY)
    pool.executor.end(pool.key(jobs[0].id), code=0)
    await pool.state(jobs[0].id, "succeeded")
    await pool.idle()
    assert (await pool.job(jobs[-1].id)).state == "queued"

    await pool.engine.release(jobs[-1].id, "admin")
    await pool.state(jobs[-1].id, "running")


async def test_what_cannot_be_held_or_released_says_so(pool, full):
    waits = await pool.submit("susan", gpus=8, name="waits")
    with pytest.raises(Refusal, match="is not on hold"):
        await pool.engine.release(waits.id, "admin")
    await pool.engine.hold(waits.id, "admin", WHY)
    with pytest.raises(Refusal, match=r"admin has put the job .* on hold already: Its data"):
        await pool.engine.hold(waits.id, "lead", "Another reason.")
    await pool.engine.cancel(waits.id, "susan")
    with pytest.raises(Refusal, match="has ended"):
        await pool.engine.hold(waits.id, "admin", WHY)
