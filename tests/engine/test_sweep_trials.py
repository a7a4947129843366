"""Trials of a sweep: cancelled, failed and tried again one by one; their inputs; how they are listed."""

from __future__ import annotations

import json

import pytest
from jobs.engine_sweeps import counts, end_all, live, rows, sweep

from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal


async def test_cancelling_one_trial_ends_that_trial_only(pool):
    one = await sweep(pool, 20, gpus=1)
    await pool.idle()
    await pool.engine.cancel(f"{one.id}t3", "susan")
    await pool.later(10)
    found = await counts(pool, one.id)
    assert (found.cancelled, found.running) == (1, 8)


async def test_failed_trials_are_retried_as_asked(pool):
    one = await sweep(pool, 10, gpus=1, at_most=4)
    await pool.idle()
    for key in live(pool)[:2]:
        pool.executor.end(key, code=1)
    await pool.idle()
    assert (await counts(pool, one.id)).failed == 2
    await pool.engine.sweeps.retry(one.id)
    await pool.engine.sweeps.retry(one.id)
    assert (await counts(pool, one.id)).failed == 0
    for _ in range(5):
        await end_all(pool)
    ended = await pool.job(one.id)
    assert (ended.state, ended.trials.succeeded, ended.trials.failed) == ("succeeded", 10, 0)
    again = [row.job for row in (await rows(pool, one.id)).items][:2]
    assert again == [f"{one.id}t0r2", f"{one.id}t1r2"]
    assert (await pool.job(f"{one.id}t0")).state == "failed"
    with pytest.raises(Refusal, match=r"has ended \(succeeded\), and begins no more trials\.$") as refused:
        await pool.engine.sweeps.retry(one.id)
    assert refused.value.hint == "Submit another sweep."


async def test_trials_that_fail_at_once_make_no_storm(pool):
    one = await sweep(pool, 1000, gpus=1)
    for _ in range(20):
        await end_all(pool, code=1)
    stopped = await pool.job(one.id)
    assert (stopped.state, stopped.held_by_user) == ("paused", True)
    assert 10 <= stopped.trials.failed <= 18
    assert stopped.reason.text.startswith("The sweep paused itself: the last ")
    assert "Resume it" in stopped.reason.text
    await pool.engine.resume(one.id, "susan")
    assert (await counts(pool, one.id)).running == 8


async def test_a_sweep_of_which_every_trial_failed_has_failed(pool):
    one = await sweep(pool, 3, gpus=1)
    await end_all(pool, code=1)
    ended = await pool.job(one.id)
    assert (ended.state, ended.trials.failed) == ("failed", 3)
    assert ended.reason.text == "All 3 trials failed."


async def test_some_failed_trials_do_not_make_a_sweep_fail(pool):
    one = await sweep(pool, 3, gpus=1)
    await pool.idle()
    first, *others = live(pool)
    pool.executor.end(first, code=1)
    for key in others:
        pool.executor.end(key, code=0)
    await pool.idle()
    ended = await pool.job(one.id)
    assert ended.state == "succeeded"
    assert ended.reason.text == "Of 3 trials, 2 succeeded and 1 failed."
    assert (ended.state, ended.shown) == ("succeeded", "succeeded, 1 of 3 trials failed")
    sweeps, more = pool.engine.sweeps, wire.TrialsEdit(number=4)
    for change in (sweeps.retry(one.id), sweeps.edit(one.id, more)):
        with pytest.raises(Refusal) as refused:
            await change
        assert refused.value.message == (
            f"The sweep “{one.id}” has ended (succeeded, 1 of 3 trials failed), and begins no more trials."
        )
        assert 'sweep.trials(state="failed")' in refused.value.hint


async def test_retries_hold_for_each_trial(pool):
    one = await sweep(pool, 2, gpus=1, retries=1)
    await end_all(pool, code=1)
    await pool.later(30)
    assert (await counts(pool, one.id)).running == 2
    await end_all(pool)
    assert (await pool.job(one.id)).state == "succeeded"


async def test_a_trial_is_told_which_one_it_is_and_what_the_earlier_ones_found(pool):
    one = await sweep(pool, 10, gpus=4, at_most=1, history=True, metric="loss")
    await end_all(pool, value=float)
    await pool.idle()
    (key,) = live(pool)
    spec = pool.executor.specs[key]
    assert (spec.sweep, spec.trial, spec.name) == (one.id, 1, f"{one.name} #1")
    assert json.loads(spec.history) == [
        {"trial": 0, "state": "complete", "parameters": {"x": 0}, "value": 0.0, "curve": [], "memo": "of 0"},
        {"trial": 1, "state": "running", "parameters": None, "value": None, "curve": [], "memo": ""},
    ]


async def test_known_parameters_are_those_of_each_trial(pool):
    known = [{"rate": n / 10, "name": f"n{n}"} for n in range(20)]
    one = await sweep(pool, 20, gpus=1, parameters=known)
    await pool.restart()
    await end_all(pool)
    page = await rows(pool, one.id)
    assert [row.parameters for row in page.items] == known
    assert [row.state for row in page.items] == ["succeeded"] * 8 + ["running"] * 8 + ["queued"] * 4
    assert [row.job is None for row in page.items] == [False] * 17 + [True] * 3
    with pytest.raises(Refusal, match="parameters of 20 trials"):
        await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(number=21))


async def test_trials_are_listed_in_pages_by_number_and_by_value(pool):
    one = await sweep(pool, 20, gpus=1, metric="loss")
    await end_all(pool, value=lambda trial: (trial - 4) ** 2)
    first = await rows(pool, one.id, order="value", limit=5)
    assert [row.trial for row in first.items] == [4, 3, 5, 2, 6]
    second = await rows(pool, one.id, order="value", cursor=first.next, limit=100)
    assert [row.trial for row in second.items][:3] == [1, 7, 0]
    assert (len(second.items), second.next) == (15, None)
    assert [row.trial for row in (await rows(pool, one.id, order="-trial", limit=3)).items] == [19, 18, 17]
    assert len((await rows(pool, one.id, states="queued")).items) == 4
    with pytest.raises(Refusal, match="no order of trials"):
        await rows(pool, one.id, order="colour")
    with pytest.raises(Refusal, match="no state of a trial"):
        await rows(pool, one.id, states="lazy")


async def test_a_trial_tells_how_often_and_why_it_was_paused_and_what_that_cost(pool):
    one = await sweep(pool, 8, gpus=1)
    await pool.idle()
    await pool.later(600)
    pool.executor.pause_exit = 1
    owner = await pool.submit("joe", gpus=2)
    await pool.later(5)
    paused = [row for row in (await rows(pool, one.id)).items if row.pauses is not None]
    assert len(paused) == 2
    for row in paused:
        assert (row.state, row.pauses.times, row.pauses.seconds) == ("paused", 1, 0.0)
        assert row.pauses.why == {"Paused for a job of “joe”.": 1}
        assert row.pauses.since is not None
        assert row.pauses.lost_gpu_seconds >= 600
        assert (await pool.job(row.job)).outcome.pauses == row.pauses

    await pool.later(100)
    pool.executor.end(pool.key(owner.id), code=0)
    await pool.later(5)
    again = {row.trial: row for row in (await rows(pool, one.id)).items}
    for row in paused:
        pauses = again[row.trial].pauses
        assert (again[row.trial].state, pauses.times, pauses.since) == ("running", 1, None)
        assert pauses.seconds >= 100
