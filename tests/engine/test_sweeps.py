"""Sweeps: one entry in line, whose trials use what the pool allows."""

from __future__ import annotations

import asyncio
import json

import engine_worlds as worlds
import pytest
from jobs.engine_sweeps import counts, end_all, jobs_of, live, rows, sweep
from pools.all_channels import CHANNELS, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings, JobFilter
from springtide.scheduler.engine.sweeps.requests import trial_query
from springtide.scheduler.metrics import NotFinite
from springtide.scheduler.notifications import BROWSER, EVENT_KIND, NotificationEvent, NotificationSettings
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.settings import DAY
from springtide.scheduler.store.queries import reading, trials

JOES = {"joe": {"quota": 8}, "susan": {}, "jemma": {}}


async def test_a_sweep_fills_idle_gpus_and_one_of_its_trials_waits(pool):
    one = await sweep(pool, 20, gpus=1)
    found = await counts(pool, one.id)
    assert (found.running, found.queued, found.gpus, found.borrowed) == (8, 12, 8, 6)
    assert [job.state for job in await jobs_of(pool, one.id)] == ["running"] * 8 + ["queued"]
    shown = await pool.job(one.id)
    assert shown.state == "running"
    assert shown.place == 1
    assert shown.reason.text.startswith(
        "Running 8 trials on 8 GPUs: 2 within the quota, 6 borrowed. None of 20 trials has"
    )
    assert [job.id for job in (await pool.engine.jobs(JobFilter(), None, 50)).items] == [one.id]


async def test_a_sweep_ends_with_its_last_trial_and_names_the_best(pool):
    one = await sweep(pool, 12, gpus=1, metric="loss", goal="minimize")
    for _ in range(3):
        await end_all(pool, value=lambda trial: abs(trial - 6.5))
    ended = await pool.job(one.id)
    assert ended.state == "succeeded"
    assert (ended.trials.succeeded, ended.trials.best.trial, ended.trials.best.parameters) == (12, 6, {"x": 6})
    assert ended.reason.text == "All 12 trials succeeded."
    assert not pool.executor.live()
    assert [row.value for row in (await rows(pool, one.id)).items] == [abs(n - 6.5) for n in range(12)]


async def test_a_sweep_whose_trials_wait_for_gpus_is_queued_and_not_paused(pool):
    one = await sweep(pool, 2, gpus=8)
    await pool.idle()
    await pool.engine.drain_node(wire.DrainRequest(node="train", finish=True), "admin")
    pool.executor.end(live(pool)[0], code=0)
    await pool.idle()
    found = await pool.job(one.id)
    assert (found.state, found.trials.succeeded, found.trials.queued) == ("queued", 1, 1)
    await pool.engine.undrain_node(wire.UndrainRequest(node="train"), "admin")
    await pool.state(one.id, "running")


async def test_the_largest_value_is_the_best_of_a_sweep_that_maximizes(pool):
    one = await sweep(pool, 4, gpus=1, metric="accuracy", goal="maximize")
    await end_all(pool, value=lambda trial: -abs(trial - 2.0))
    assert (await pool.job(one.id)).trials.best.trial == 2


async def test_no_trial_of_a_sweep_without_a_goal_is_the_best(pool):
    one = await sweep(pool, 2, gpus=1, goal="")
    await end_all(pool, value=lambda trial: trial + 1.0)
    assert (await pool.job(one.id)).trials.best is None
    assert [row.value for row in (await rows(pool, one.id)).items] == [1.0, 2.0]


async def test_a_trial_that_only_reports_has_the_last_value_of_the_metric(pool):
    one = await sweep(pool, 2, parameters=[{"x": 0}, {"x": 1}], metric="loss")
    await pool.idle()
    for number, key in enumerate(live(pool)):
        pool.executor.report(key, loss=5.0 - number)
        pool.executor.end(key, code=0)
    await pool.idle()
    best = (await pool.job(one.id)).trials.best
    assert (best.trial, best.value, best.parameters) == (1, 4.0, {"x": 1})
    assert [row.value for row in (await rows(pool, one.id)).items] == [5.0, 4.0]


async def test_a_trial_whose_metric_is_not_finite_has_no_value_and_is_not_the_best(pool):
    one = await sweep(pool, 3, parameters=[{"x": 0}, {"x": 1}, {"x": 2}], metric="loss")
    await pool.idle()
    for key, last in zip(live(pool), [NotFinite.NAN, NotFinite.MINUS_INFINITY, 4.0], strict=True):
        pool.executor.report(key, step=1, loss=1.0)
        pool.executor.report(key, step=2, loss=last)
        pool.executor.end(key, code=0)
    await pool.idle()
    best = (await pool.job(one.id)).trials.best
    assert (best.trial, best.value) == (2, 4.0)
    found = (await rows(pool, one.id)).items
    assert [row.value for row in found] == [None, None, 4.0]
    assert [str(row.values["loss"]) for row in found] == ["nan", "-inf", "4.0"]


async def test_pruned_trials_are_counted_apart_and_are_never_the_best(pool):
    one = await sweep(pool, 2, gpus=1)
    await pool.idle()
    first, second = live(pool)
    pool.executor.report(first, trial=worlds.TrialReport({"x": 1}, -5.0, ((1.0, -5.0),), pruned=True))
    pool.executor.report(second, trial=worlds.TrialReport({"x": 2}, 3.0))
    pool.executor.end(first, code=0)
    pool.executor.end(second, code=0)
    found = await counts(pool, one.id)
    assert (found.succeeded, found.pruned, found.best.value) == (1, 1, 3.0)
    page = await rows(pool, one.id)
    assert [row.state for row in page.items] == ["pruned", "succeeded"]
    assert page.items[0].curve == [(1.0, -5.0)]
    assert [row.trial for row in (await rows(pool, one.id, states="pruned")).items] == [0]


async def test_at_most_bounds_the_unfinished_trials_and_can_be_changed_while_it_runs(pool):
    one = await sweep(pool, 30, gpus=1, at_most=3)
    assert (await counts(pool, one.id)).running == 3
    await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(at_most=5))
    assert (await counts(pool, one.id)).running == 5
    await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(at_most=0))
    found = await counts(pool, one.id)
    assert (found.running, found.at_most) == (8, None)
    await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(at_most=2))
    await end_all(pool)
    assert (await counts(pool, one.id)).running <= 2


async def test_the_number_of_trials_can_be_changed_down_to_those_that_have_begun(pool):
    one = await sweep(pool, 30, gpus=1)
    await pool.idle()
    with pytest.raises(Refusal, match="9 trials have begun already") as refused:
        await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(number=5))
    assert "Choose 9 or more" in refused.value.hint
    await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(number=9))
    await end_all(pool)
    await end_all(pool)
    assert (await pool.job(one.id)).state == "succeeded"
    with pytest.raises(Refusal, match="has ended"):
        await pool.engine.sweeps.edit(one.id, wire.TrialsEdit(number=10))


async def test_at_least_lets_more_trials_wait(pool):
    one = await sweep(pool, 30, gpus=2, at_least=3)
    await pool.idle()
    assert [job.state for job in await jobs_of(pool, one.id)] == ["running"] * 4 + ["queued"] * 3


async def test_a_sweep_shrinks_when_owners_return_and_grows_when_they_leave(pool):
    one = await sweep(pool, 60, gpus=1)
    await pool.idle()
    joe, jemma = await pool.submit("joe", gpus=2), await pool.submit("jemma", gpus=2)
    for _ in range(6):
        await pool.later(10)
    found = await counts(pool, one.id)
    assert (found.running, found.paused) == (4, 4)
    assert {(await pool.job(each.id)).state for each in (joe, jemma)} == {"running"}
    begun = len(await jobs_of(pool, one.id))
    await pool.later(100)
    assert len(await jobs_of(pool, one.id)) == begun
    for key in [pool.key(joe.id), pool.key(jemma.id)]:
        pool.executor.end(key, code=0)
    await pool.later(10)
    found = await counts(pool, one.id)
    assert (found.running, found.paused) == (8, 0)


async def test_a_paused_sweep_holds_no_gpus_and_goes_on_where_it_was(pool):
    one = await sweep(pool, 20, gpus=1)
    await pool.idle()
    await pool.engine.pause(one.id, "susan")
    await pool.later(10)
    held = await pool.job(one.id)
    assert (held.state, held.held_by_user, held.trials.paused, held.trials.running) == ("paused", True, 9, 0)
    assert held.reason.text == "It was paused by “susan”. It runs again when it is resumed."
    assert not pool.executor.live()
    await pool.engine.resume(one.id, "susan")
    found = await counts(pool, one.id)
    assert (found.running, found.queued + found.paused) == (8, 12)
    for _ in range(4):
        await end_all(pool)
    assert (await pool.job(one.id)).state == "succeeded"


async def test_cancelling_the_rest_keeps_what_has_ended(pool):
    one = await sweep(pool, 30, gpus=1)
    await end_all(pool, value=float)
    assert (await pool.engine.cancel(one.id, "susan")).shown == "cancelling"
    await pool.later(10)
    ended = await pool.job(one.id)
    assert (ended.state, ended.shown) == ("cancelled", "cancelled")
    assert (ended.trials.succeeded, ended.trials.cancelled, ended.trials.queued) == (8, 22, 0)
    assert ended.trials.best.trial == 0
    assert not pool.executor.live()
    assert {row.state for row in (await rows(pool, one.id)).items} == {"succeeded", "cancelled"}


async def test_the_running_trials_of_a_cancelled_sweep_are_ended_at_once_when_that_is_asked_for(pool):
    pool.executor.ignores_kill = True
    one = await sweep(pool, 2, gpus=1)
    for now in (False, False, True):
        await pool.engine.cancel(one.id, "susan", now=now)
        await pool.idle()
    trials = {job for what, job in pool.executor.asked if what == "launch"}
    assert [(what, job) for what, job in pool.executor.asked if what != "launch"] == [
        (what, job) for what in ("kill", "now") for job in sorted(trials)
    ]


async def test_a_sweep_that_has_not_started_is_cancelled_at_once(make_pool):
    pool = await make_pool(projects=JOES)
    await pool.submit("joe", gpus=8)
    one = await sweep(pool, 5, gpus=4)
    await pool.idle()
    assert (await pool.engine.cancel(one.id, "susan")).state == "cancelled"


async def test_a_large_sweep_is_one_entry_in_line(make_pool):
    pool = await make_pool(projects=JOES)
    await pool.submit("joe", gpus=8)
    mine = [await pool.submit("susan", gpus=1) for _ in range(3)]
    theirs = [await pool.submit("jemma", gpus=8) for _ in range(3)]
    await pool.idle()
    before = [(await pool.job(each.id)).place for each in (*mine, *theirs)]
    one = await sweep(pool, 2000, gpus=1, parameters=[{"n": n} for n in range(2000)])
    await pool.idle()
    assert [(await pool.job(each.id)).place for each in (*mine, *theirs)] == before
    assert len(await jobs_of(pool, one.id)) == 1
    assert {view.name: view.waiting_jobs for view in pool.engine.pool().projects}["susan"] == 4


async def test_the_cost_of_an_event_does_not_grow_with_the_number_of_trials(pool):
    """What is looked at for the end of one trial is the same in a small and in a large sweep."""
    one = await sweep(pool, 10_000, gpus=1)
    await pool.idle()
    state = pool.engine.state
    assert len(state.trials_of(one.id)) == 9
    assert len(state.jobs) == 10


async def test_a_sweep_does_not_go_before_colleagues_who_had_less(make_pool):
    pool = await make_pool(projects={"susan": {"quota": 8}})
    one = await sweep(pool, 100, gpus=1)
    for _ in range(3):
        await pool.later(4 * 3600)
        await end_all(pool)
    colleague = await pool.submit("joe", "susan", gpus=1)
    await pool.idle()
    pool.executor.end(live(pool)[0], code=0)
    await pool.idle()
    assert (await pool.job(colleague.id)).state == "running"
    assert (await counts(pool, one.id)).running == 7


async def test_a_sweep_without_room_for_more_jobs_goes_on_with_one(make_pool):
    pool = await make_pool(settings=EngineSettings(queue_cap_per_user=4))
    one = await sweep(pool, 5, gpus=1)
    found = await counts(pool, one.id)
    assert found.running == 3
    for _ in range(5):
        await end_all(pool)
    assert (await pool.job(one.id)).state == "succeeded"


async def test_a_sweep_uses_wider_limits_after_a_restart(make_pool):
    pool = await make_pool(settings=EngineSettings(queue_cap_per_user=4))
    one = await sweep(pool, 5, gpus=1)
    assert (await counts(pool, one.id)).running == 3
    pool.settings = EngineSettings()
    await pool.restart()
    assert (await counts(pool, one.id)).running == 5


async def test_a_waiting_trial_says_why_for_its_sweep_and_the_sweep_has_its_forecast(make_pool):
    pool = await make_pool(projects=JOES)
    await pool.submit("joe", gpus=8, time_limit=3600)
    one = await sweep(pool, 5, gpus=4)
    await pool.idle()
    trial, shown = await pool.job(f"{one.id}t0"), await pool.job(one.id)
    assert shown.state == "queued"
    assert shown.reason.text == f"None of 5 trials runs yet. {trial.reason.text}"
    await pool.engine.request_starts([shown], 30)
    trial, shown = await pool.job(f"{one.id}t0"), await pool.job(one.id)
    assert shown.starts is not None
    assert shown.starts == trial.starts


async def test_nothing_is_lost_or_begun_twice_when_a_commit_fails(make_pool):
    pool = await make_pool()
    one = await sweep(pool, 12, gpus=1)
    await pool.idle()
    for _ in range(3):
        await pool.restart()
        await end_all(pool)
    ended = await pool.job(one.id)
    assert (ended.state, ended.trials.succeeded) == ("succeeded", 12)
    assert [job.trial for job in await jobs_of(pool, one.id)] == list(range(12))


async def test_a_sweep_tells_its_user_of_its_end_and_not_of_every_trial(make_pool):
    chosen = {BROWSER: frozenset(NotificationEvent)}
    settings = EngineSettings(notifications=NotificationSettings(CHANNELS, WITH_ADDRESS, chosen))
    pool = await make_pool(settings=settings)
    one = await sweep(pool, 3, gpus=1, name="search")
    await end_all(pool)
    assert (await pool.job(one.id)).state == "succeeded"
    told = [
        json.loads(event.data) for event in pool.store.read(reading.events, 0, 1000) if event.kind == EVENT_KIND
    ]
    assert [(each["job"], each["text"]) for each in told] == [(one.id, "All 3 trials succeeded.")]


async def test_a_sweep_is_pruned_together_with_its_trials(make_pool):
    pool = await make_pool(settings=EngineSettings(keep_days=100.0 / DAY, prune_every=0.05))
    one = await sweep(pool, 4, gpus=1, at_most=2, parameters=[{"n": n} for n in range(4)])
    await end_all(pool)
    pool.clock.now += 1000
    await asyncio.sleep(0)
    assert len(await jobs_of(pool, one.id)) == 4
    await end_all(pool)
    pool.clock.now += 1000
    await pool.until(lambda: not pool.store.read(trials.listed, trial_query(one.id, "trial", "")))
    await pool.until(lambda: pool.store.read(reading.job, one.id) is None)
    assert pool.store.read(trials.parameters, one.id) is None


@pytest.mark.parametrize(
    ("trials", "message"),
    [
        (wire.Trials(number=3, parameters=[{"a": 1}]), "parameters of 1"),
        (wire.Trials(number=1, metric="a\nb"), "control characters"),
        (wire.Trials(number=1, parameters=[{f"p{n}": n for n in range(65)}]), "more than 64 parameters"),
        (wire.Trials(number=1, parameters=[{"a": "x" * 5_000_000}]), "at most 4194304 are allowed"),
    ],
)
async def test_a_sweep_that_cannot_be_is_refused_with_the_way_out(pool, trials, message):
    with pytest.raises(Refusal, match=message) as refused:
        await pool.submit(trials=trials)
    assert refused.value.field == "trials"
    assert refused.value.hint
