"""Notifications of jobs, decided and committed with the change itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from jobs.engine_sweeps import live, sweep
from pools.all_channels import CHANNELS, EMAIL, WEBHOOK, WITH_ADDRESS

from springtide.scheduler.engine.notifications import outbox as outbox_module
from springtide.scheduler.engine.settings import EngineSettings, Retries
from springtide.scheduler.model import Reason, Settings
from springtide.scheduler.notifications import (
    BROWSER,
    ChannelEvents,
    Delivery,
    DeliveryState,
    NotificationChoice,
    NotificationEvent,
    NotificationSettings,
)

ALL = frozenset(NotificationEvent)
BY_MAIL: ChannelEvents = {EMAIL: ALL}
SETTINGS = EngineSettings(
    policy=Settings(grace=5.0),
    retries=Retries(first=1.0, longest=60.0),
    notifications=NotificationSettings(CHANNELS, WITH_ADDRESS),
)


@pytest.fixture
async def pool(make_pool: Any) -> Any:
    """A pool with all channels, in which susan gets all events by e-mail."""
    pool = await make_pool(settings=SETTINGS)
    await pool.engine.outbox.choose(NotificationChoice("susan", BY_MAIL))
    return pool


async def waiting(pool: Any, user: str = "susan", channel: str = EMAIL) -> list[Delivery]:
    await pool.idle()
    return list(await pool.engine.outbox.waiting((user, channel)))


async def told(pool: Any, user: str = "susan") -> list[str]:
    return [f"{each.notification.title} {each.notification.text}".strip() for each in await waiting(pool, user)]


async def running(pool: Any, user: str = "susan", **fields: Any) -> Any:
    job = (await pool.submit(user, **fields)).id
    await pool.state(job, "running")
    return pool.key(job)


async def test_a_pause_for_somebody_else_is_told_with_its_reason_and_so_is_the_resumption(pool: Any) -> None:
    key = await running(pool, gpus=8, name="digits")
    pool.executor.report(key, step=41, saved=True)
    await pool.later(100.0)
    owner = await running(pool, "joe", gpus=2, name="faces")
    await pool.state(key.job, "paused")
    why = "The project “joe” asked for its 2 GPUs back."
    assert await told(pool) == [f"The job “digits” was paused. {why} Saved at step 41."]
    pool.executor.end(owner, code=0)
    await pool.later(100.0)
    await pool.state(key.job, "running", attempt=2)
    titles = [each.notification.title for each in await waiting(pool)]
    assert titles == ["The job “digits” was paused.", "The job “digits” continues."]
    assert await told(pool, "joe") == []


async def test_a_job_without_a_checkpoint_is_said_to_start_again_from_the_beginning(pool: Any) -> None:
    pool.executor.pause_exit = 1
    key = await running(pool, gpus=8, name="plain")
    await pool.later(100.0)
    owner = await running(pool, "joe", gpus=2, name="faces")
    await pool.state(key.job, "paused")
    pool.executor.end(owner, code=0)
    await pool.later(100.0)
    await pool.state(key.job, "running", attempt=2)
    lost = "No checkpoint was known: 1 min 40 s of work was lost, unless the program finds files of its own."
    messages = await told(pool)
    assert len(messages) == 2
    assert lost in messages[0]
    assert messages[1].startswith(f"The job “plain” starts again from the beginning. {lost}")
    assert "continues" not in " ".join(messages)


async def test_what_people_do_to_their_own_jobs_is_not_told_to_them(pool: Any) -> None:
    key = await running(pool, name="digits")
    await pool.engine.pause(key.job, "susan")
    await pool.state(key.job, "paused")
    await pool.engine.resume(key.job, "susan")
    await pool.state(key.job, "running", attempt=2)
    await pool.engine.cancel(key.job, "susan")
    assert await told(pool) == []


async def test_a_job_that_its_user_marks_as_finished_is_not_told_to_her(pool: Any) -> None:
    key = await running(pool, name="digits", retries=3)
    pool.executor.end(key, code=3)
    await pool.state(key.job, "paused")
    await pool.engine.outbox.settle(await waiting(pool), DeliveryState.SENT)
    await pool.engine.finish(key.job, "susan")
    await pool.state(key.job, "succeeded")
    assert await told(pool) == []


async def test_what_others_do_to_a_job_is_told(pool: Any) -> None:
    paused = await running(pool, name="paused")
    cancelled = await running(pool, name="cancelled")
    await pool.engine.pause(paused.job, "jemma")
    await pool.state(paused.job, "paused")
    await pool.engine.cancel(cancelled.job, "jemma")
    await pool.state(cancelled.job, "cancelled")
    assert await told(pool) == [
        "The job “paused” was paused by “jemma”. It runs again when it is resumed.",
        "The job “cancelled” was cancelled by “jemma”.",
    ]


async def test_the_end_of_a_sweep_tells_how_many_trials_failed(pool: Any) -> None:
    one = await sweep(pool, 3, gpus=1, name="search")
    await pool.idle()
    await pool.later(7500.0)
    for code, key in zip((1, 0, 0), live(pool), strict=True):
        pool.executor.end(key, code=code)
    await pool.state(one.id, "succeeded")
    assert await told(pool) == [
        "The job “search” succeeded, 1 of 3 trials failed. Of 3 trials, 2 succeeded and 1 failed."
    ]


async def test_an_end_tells_the_run_time_and_the_pauses_that_the_duration_has_besides(pool: Any) -> None:
    first = await running(pool, name="paused once")
    await pool.later(120.0)
    await pool.engine.pause(first.job, "susan")
    await pool.state(first.job, "paused")
    await pool.later(600.0)
    await pool.engine.resume(first.job, "susan")
    await pool.state(first.job, "running")
    await pool.later(60.0)
    pool.executor.end(pool.key(first.job), code=0)
    ended = await pool.state(first.job, "succeeded")
    assert (await told(pool))[-1] == (
        "The job “paused once” succeeded. It ran for 3 min, without pauses of 10 min."
    )
    assert ended.ended - ended.started == 780.0


async def test_an_end_and_a_failure_are_told_with_their_reasons(pool: Any) -> None:
    done = await running(pool, name="done")
    await pool.later(7500.0)
    pool.executor.end(done, code=0)
    await pool.state(done.job, "succeeded")
    failing = await running(pool, name="failing", retries=1)
    pool.executor.end(failing, code=3)
    await pool.state(failing.job, "paused")
    await pool.later(60.0)
    await pool.state(failing.job, "running", attempt=2)
    pool.executor.end(pool.key(failing.job), code=3)
    await pool.state(failing.job, "failed")
    assert await told(pool) == [
        "The job “done” succeeded. It ran for 2 h 5 min.",
        "An attempt of the job “failing” failed. It ended with exit code 3. It is run again: retry 1 of 1.",
        "The job “failing” failed. It ended with exit code 3.",
    ]


async def test_a_failure_is_told_with_the_line_of_the_error(pool: Any) -> None:
    key = await running(pool, name="digits", retries=0)
    pool.executor.end(key, code=1, detail="ValueError: no batch, in train.py, line 7")
    await pool.state(key.job, "failed")
    assert "ValueError: no batch, in train.py, line 7" in (await told(pool))[0]


@pytest.mark.parametrize(
    ("seconds", "event"), [(30.0, NotificationEvent.SUCCEEDED_SOON), (90.0, NotificationEvent.ENDED)]
)
async def test_a_success_soon_after_the_submission_is_an_event_of_its_own(
    pool: Any, seconds: float, event: NotificationEvent
) -> None:
    key = await running(pool, name="digits")
    await pool.later(seconds)
    pool.executor.end(key, code=0)
    await pool.state(key.job, "succeeded")
    assert [each.notification.event for each in await waiting(pool)] == [event]


async def test_people_hear_of_defaults_until_they_choose_for_a_channel(make_pool: Any) -> None:
    failures = frozenset({NotificationEvent.FAILED})
    expected = NotificationSettings(CHANNELS, WITH_ADDRESS, {EMAIL: failures, BROWSER: failures})
    pool = await make_pool(settings=replace(SETTINGS, notifications=expected))
    outbox = pool.engine.outbox
    assert expected.usable(outbox.choice("susan")) == {EMAIL: failures, BROWSER: failures}
    await outbox.choose(NotificationChoice("susan", {EMAIL: frozenset()}))
    assert expected.usable(outbox.choice("susan")) == {BROWSER: failures}


async def test_a_job_that_asks_to_be_run_again_is_not_told_each_time(pool: Any) -> None:
    key = await running(pool, name="digits")
    pool.executor.report(key, step=1, saved=True)
    pool.executor.end(key, code=75)
    await pool.state(key.job, "paused")
    await pool.later(60.0)
    await pool.state(key.job, "running", attempt=2)
    assert await told(pool) == []


async def test_a_time_limit_is_told_once_before_it_ends_the_job(pool: Any) -> None:
    key = await running(pool, name="digits", time_limit=3600.0)
    await pool.later(3200.0)
    assert await told(pool) == []
    await pool.later(60.0)
    await pool.later(60.0)
    near = "The job “digits” reaches its time limit in 5 min."
    told_once = f"{near} It is ended once it has run for 1 h, whether it has finished or not."
    assert await told(pool) == [told_once]
    await pool.restart()
    await pool.later(60.0)
    assert await told(pool) == [told_once]
    await pool.later(300.0)
    await pool.state(key.job, "failed")
    assert [each.notification.event for each in await waiting(pool)] == [
        NotificationEvent.TIME_LIMIT,
        NotificationEvent.FAILED,
    ]


async def test_only_what_somebody_chose_is_told_and_only_where(pool: Any) -> None:
    webhook = {WEBHOOK: ALL, BROWSER: ALL, EMAIL: frozenset({NotificationEvent.FAILED})}
    await pool.engine.outbox.choose(NotificationChoice("susan", webhook))
    first = await running(pool, name="first")
    pool.executor.end(first, code=0)
    await pool.state(first.job, "succeeded")
    assert pool.engine.outbox.lanes() == []
    await pool.engine.outbox.choose(NotificationChoice("susan", webhook, {WEBHOOK: "https://hooks.slack.com/x"}))
    second = await running(pool, name="second")
    pool.executor.end(second, code=0)
    await pool.state(second.job, "succeeded")
    assert [each.notification.title for each in await waiting(pool, channel=WEBHOOK)] == [
        "The job “second” succeeded."
    ]
    assert await told(pool) == []


async def test_a_choice_and_what_waits_outlive_the_service(pool: Any) -> None:
    key = await running(pool, name="digits")
    pool.executor.end(key, code=0)
    await pool.state(key.job, "succeeded")
    before = await waiting(pool)
    await pool.restart()
    assert pool.engine.outbox.choice("susan") == NotificationChoice("susan", BY_MAIL)
    assert (await waiting(pool), pool.engine.outbox.count_waiting("susan", EMAIL)) == (before, 1)


async def test_what_was_being_sent_when_the_service_ended_is_not_sent_again(pool: Any) -> None:
    key = await running(pool, name="digits")
    pool.executor.end(key, code=0)
    await pool.state(key.job, "succeeded")
    await pool.engine.outbox.settle(await waiting(pool), DeliveryState.SENDING)
    await pool.restart()
    assert await waiting(pool) == []
    latest = (await pool.engine.outbox.latest("susan"))[EMAIL]
    assert (latest.state, latest.why) == (DeliveryState.UNKNOWN, Reason("delivery-interrupted"))


async def test_what_waits_for_one_person_is_bounded(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "MAX_WAITING", 2)
    keys = [await running(pool, name=f"job {number}") for number in range(4)]
    for key in keys:
        pool.executor.end(key, code=0)
    for key in keys:
        await pool.state(key.job, "succeeded")
    assert len(await waiting(pool)) == 2
