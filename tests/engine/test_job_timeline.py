"""What happened to a job: all that people and the pool did to it, once each, also after its end and a restart."""

from __future__ import annotations

from springtide.scheduler import wire

ASKED = "The job was asked to save and pause."


async def told(pool, job_id):
    """What happened to a job, without the reasons of its starts; no time is before the one above it."""
    timeline = (await pool.job(job_id)).timeline
    assert [each.at for each in timeline] == sorted(each.at for each in timeline)
    return [each.text.partition(" GPUs. ")[0] for each in timeline]


async def test_a_job_that_has_ended_tells_who_paused_resumed_and_cancelled_it_and_when(pool):
    job = await pool.submit("susan", gpus=2)
    await pool.state(job.id, "running")
    await pool.later(10)
    await pool.engine.pause(job.id, "admin")
    await pool.state(job.id, "paused")
    await pool.later(10)
    await pool.engine.resume(job.id, "susan")
    await pool.state(job.id, "running")
    await pool.later(10)
    await pool.engine.cancel(job.id, "susan")
    await pool.state(job.id, "cancelled")

    before = await told(pool, job.id)
    assert before == [
        "Submitted by “susan” for the project “susan”.",
        "Attempt 1 was given 2",
        "Attempt 1 started.",
        "Paused by “admin”.",
        "Attempt 1 paused.",
        "Resumed by “susan”.",
        "Attempt 2 was given 2",
        "Attempt 2 started.",
        "Cancelled by “susan”.",
        "Attempt 2 was cancelled.",
    ]
    times = {each.text: each.at - job.submitted for each in (await pool.job(job.id)).timeline}
    assert times["Paused by “admin”."] == 10
    assert times["Resumed by “susan”."] == 20
    await pool.restart()
    assert await told(pool, job.id) == before


async def test_a_job_that_is_ended_now_tells_the_pause_and_the_cancel_before(pool):
    pool.executor.ignores_pause = True
    job = await pool.submit("susan", gpus=8)
    await pool.state(job.id, "running")
    await pool.later(1)
    await pool.submit("jemma", gpus=2)
    await pool.state(job.id, "pausing")
    await pool.later(1)
    pool.executor.ignores_kill = True
    await pool.engine.cancel(job.id, "susan")
    await pool.later(1)
    pool.executor.ignores_kill = False
    await pool.engine.cancel(job.id, "admin", now=True)
    await pool.state(job.id, "cancelled")

    assert (await told(pool, job.id))[3:] == [
        f"{ASKED} The project “jemma” asked for its 2 GPUs back, for the job “train.py”.",
        "Cancelled by “susan”.",
        "Ended now by “admin”, without time to save.",
        "Attempt 1 was cancelled.",
    ]
    shown = " ".join(each.text for each in (await pool.engine.job(job.id)).timeline)
    assert f"{ASKED} The project “jemma” asked for its 2 GPUs back. Cancelled" in shown
    assert "train.py" not in shown, "the name of a job of another project"


async def test_what_is_done_to_a_waiting_job_is_told_too(pool):
    first = await pool.submit("susan", gpus=8, rotate=False)
    await pool.state(first.id, "running")
    job = await pool.submit("susan", gpus=8, rotate=False)
    await pool.engine.hold(job.id, "admin", "The data moves")
    await pool.engine.edit(job.id, wire.JobEdit(priority=75, reason="A deadline"), "admin")
    await pool.engine.release(job.id, "admin", "joe")
    await pool.engine.cancel(job.id, "joe")

    assert await told(pool, job.id) == [
        "Submitted by “susan” for the project “susan”.",
        "Put on hold by “admin”: The data moves.",
        "Edited: “admin” changed its priority from train to high: A deadline.",
        "Released by “admin”.",
        "Handed over from “susan” to “joe” by “admin”.",
        "It was cancelled by “joe”.",
    ]


async def test_a_store_of_before_tells_what_its_attempts_know(pool):
    job = await pool.submit("susan", gpus=2)
    await pool.state(job.id, "running")
    await pool.engine.pause(job.id, "susan")
    await pool.state(job.id, "paused")
    record = pool.engine.state.jobs[job.id]
    older = record.with_standing(acts=())
    await pool.engine.change(lambda transaction: transaction.put_job(older))
    assert (await told(pool, job.id))[3:] == [
        f"{ASKED} It was paused by “susan”.",
        "Attempt 1 paused.",
    ]


async def test_the_time_limit_is_told_once(pool):
    job = await pool.submit("susan", gpus=2, time_limit=60.0)
    await pool.state(job.id, "running")
    await pool.later(61)
    await pool.state(job.id, "failed")
    timeline = await told(pool, job.id)
    assert timeline[3:] == ["The job was asked to end. It reached its time limit of 1 min.", "Attempt 1 failed."]


async def test_the_time_limit_during_a_pause_is_told_after_the_pause(pool):
    pool.executor.ignores_pause = pool.executor.ignores_kill = True
    job = await pool.submit("susan", gpus=2, time_limit=60.0)
    await pool.state(job.id, "running")
    await pool.later(50)
    await pool.engine.pause(job.id, "susan")
    await pool.later(11)
    pool.executor.end(pool.key(job.id), signal=9)
    await pool.state(job.id, "failed")
    assert (await told(pool, job.id))[3:] == [
        "Paused by “susan”.",
        "The job was asked to end. It reached its time limit of 1 min.",
        "Attempt 1 failed.",
    ]
