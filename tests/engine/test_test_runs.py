"""Test runs: the same program with one worker on one GPU first; what follows for the job."""

from __future__ import annotations

import json

import pytest
from pools.all_channels import CHANNELS, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings, JobFilter
from springtide.scheduler.notifications import BROWSER, EVENT_KIND, NotificationEvent, NotificationSettings
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.queries import reading

GANG = {"workers": 4, "gpus": 2, "test_run": True, "name": "net"}


def asked(pool) -> list[tuple[str, str]]:
    return [(what, key.job) for what, key in pool.executor.asked if what in {"launch", "kill", "pause"}]


async def test_a_gang_waits_in_line_only_after_its_test_run_on_one_gpu_has_passed(pool):
    gang = await pool.submit(**GANG)
    await pool.idle()
    test_key = pool.key(f"{gang.id}test")
    spec = pool.executor.specs[test_key]
    assert (spec.workers, [len(worker.gpus) for worker in spec.placement], spec.test_run) == (1, [1], True)
    shown = await pool.job(gang.id)
    assert (shown.state, shown.attempt, shown.place) == ("queued", 0, None)
    assert shown.reason.text == "Its test run is in progress. If it passes, the job joins the queue."
    assert shown.test_run == wire.TestRun(
        job=test_key.job, stage="running", ran=0.0, text="Test run: runs on 1 GPU."
    )
    pool.clock.now += 40
    pool.executor.end(test_key, code=0)
    running = await pool.state(gang.id, "running")
    assert len(running.held) == 8
    assert running.test_run.text == "Test run: passed in 40 s."
    spec = pool.executor.specs[pool.key(gang.id)]
    assert (spec.workers, spec.test_run) == (4, False)


async def test_a_test_run_that_reaches_its_time_has_passed(pool):
    gang = await pool.submit(**GANG)
    await pool.idle()
    await pool.later(119)
    assert asked(pool) == [("launch", f"{gang.id}test")]
    await pool.later(2)
    await pool.state(gang.id, "running")
    assert asked(pool) == [("launch", f"{gang.id}test"), ("kill", f"{gang.id}test"), ("launch", gang.id)]
    test = await pool.job(f"{gang.id}test")
    assert test.state == "succeeded"
    assert test.reason.text == "It ran for 2 min without a failure, as long as a test run does."
    assert (await pool.job(gang.id)).test_run.stage == "passed"


async def test_a_failed_test_run_fails_its_job_and_shows_its_log_and_files(pool):
    gang = await pool.submit(**GANG)
    await pool.idle()
    test_key = pool.key(f"{gang.id}test")
    pool.executor.logs[test_key.job] = b"Traceback\nValueError: no data\n"
    pool.executor.outputs[test_key.job, "error.json"] = b"{}"
    assert (await pool.engine.log(gang.id, 0, 0, 1000, 0)).text == ""
    pool.clock.now += 12
    pool.executor.end(test_key, code=1)
    failed = await pool.state(gang.id, "failed")
    assert failed.attempt == 0
    assert failed.error == (
        "Its test run failed, so it was not put in line. It ended with exit code 1. The log of the test "
        "run says why. Repair that, and submit the job again."
    )
    assert failed.test_run.text == "Test run: failed after 12 s."
    log = await pool.engine.log(gang.id, 0, 0, 1000, 0)
    assert (log.text, log.ended) == ("Traceback\nValueError: no data\n", True)
    assert (await pool.engine.log(gang.id, 3, 0, 1000, 0)).text == ""
    assert [file.name for file in (await pool.engine.outputs(gang.id)).items] == ["error.json"]
    assert (await pool.engine.output(gang.id, "error.json")).read() == b"{}"
    assert not pool.executor.live()


async def test_a_test_run_is_a_job_of_its_own_so_that_its_checkpoints_are_not_found(pool):
    gang = await pool.submit(**GANG)
    await pool.idle()
    test_key = pool.key(f"{gang.id}test")
    pool.executor.report(test_key, step=3, saved=True)
    pool.executor.end(test_key, code=0)
    running = await pool.state(gang.id, "running")
    assert (running.saved, running.progress.step, running.attempts[0].resumed_from) == (None, None, None)
    listed = (await pool.engine.jobs(JobFilter(), None, 10)).items
    assert {(job.name, job.tests) for job in listed} == {("net", None), ("net (test run)", gang.id)}


async def test_actions_on_a_job_hold_for_the_test_run_that_it_waits_for(pool):
    gang = await pool.submit(**GANG)
    await pool.idle()
    await pool.engine.pause(gang.id, "susan")
    await pool.state(f"{gang.id}test", "paused")
    assert (await pool.job(gang.id)).state == "paused"
    await pool.engine.resume(gang.id, "susan")
    await pool.state(f"{gang.id}test", "running")
    assert (await pool.job(gang.id)).state == "queued"
    await pool.engine.cancel(gang.id, "susan")
    await pool.state(f"{gang.id}test", "cancelled")
    assert (await pool.job(gang.id)).state == "cancelled"
    await pool.idle()
    assert not pool.executor.live()


async def test_cancelling_only_the_test_run_ends_its_job_too(pool):
    gang = await pool.submit(**GANG)
    await pool.idle()
    await pool.engine.cancel(f"{gang.id}test", "susan")
    ended = await pool.state(gang.id, "cancelled")
    assert ended.reason.text == "Its test run was cancelled by “susan”, so it was not put in line."


async def test_a_job_that_is_paused_while_its_test_run_ends_stays_paused(pool):
    gang = await pool.submit(**GANG)
    await pool.idle()
    await pool.engine.pause(gang.id, "susan")
    await pool.engine.resume(f"{gang.id}test", "susan")
    await pool.state(f"{gang.id}test", "running")
    pool.executor.end(pool.key(f"{gang.id}test"), code=0)
    await pool.state(f"{gang.id}test", "succeeded")
    assert (await pool.job(gang.id)).state == "paused"
    await pool.engine.resume(gang.id, "susan")
    await pool.state(gang.id, "running")


async def test_a_test_run_goes_on_over_a_restart_of_the_engine(pool):
    gang = await pool.submit(**GANG)
    await pool.idle()
    await pool.restart()
    assert (await pool.job(gang.id)).test_run.stage == "running"
    pool.executor.end(pool.key(f"{gang.id}test"), code=0)
    await pool.state(gang.id, "running")


async def test_a_sweep_has_no_test_run(pool):
    with pytest.raises(Refusal, match="A sweep has no test run") as refused:
        await pool.submit(test_run=True, trials=wire.Trials(number=3))
    assert refused.value.field == "test_run"


async def test_of_a_test_run_nothing_is_told_but_the_end_of_its_job(make_pool):
    chosen = {BROWSER: frozenset(NotificationEvent)}
    settings = EngineSettings(notifications=NotificationSettings(CHANNELS, WITH_ADDRESS, chosen))
    pool = await make_pool(settings=settings)
    gang = await pool.submit(**GANG)
    await pool.idle()
    pool.executor.end(pool.key(f"{gang.id}test"), code=1)
    await pool.state(gang.id, "failed")
    told = [
        json.loads(event.data) for event in pool.store.read(reading.events, 0, 1000) if event.kind == EVENT_KIND
    ]
    assert [each["job"] for each in told] == [gang.id]
