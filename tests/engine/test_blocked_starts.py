"""Jobs that something outside of them keeps from starting: they wait, and nothing that runs is ended for them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.hub_extension.doctor import needs as doctor
from springtide.hub_extension.doctor.findings import Status
from springtide.scheduler.backoff import Backoff, no_jitter
from springtide.scheduler.engine.loop import launch_stops
from springtide.scheduler.engine.settings import EngineSettings, Retries
from springtide.scheduler.executors.base import AttemptSpec, ExecutorError, Exit, ExitKind
from springtide.scheduler.model import Block, BlockScope, Environment, Settings
from springtide.scheduler.notifications import NotificationSettings

worlds = sys.modules["engine_worlds"]
TOLD = NotificationSettings(CHANNELS, WITH_ADDRESS, fault_recipients=frozenset({"admin"}))
SETTINGS = EngineSettings(policy=Settings(grace=5.0), retries=Retries(first=1.0, longest=60.0), notifications=TOLD)
WORDS = "The cluster refused the job's pod: memory is limited to 1Gi."
LIMITS = Block(BlockScope.POOL, "memory is limited", checkable=True)
DISK = Block(BlockScope.POOL, "no space left")
TWO_NODES = (worlds.node("a", 4), worlds.node("b", 4), worlds.node("build", 3, Environment.BUILD))

AS_DELIVERED = (launch_stops.FIRST_DELAY, launch_stops.LONGEST_DELAY)

Refuses = Callable[[AttemptSpec], Exit | None]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_stops, "INTERVAL", 0.01)
    monkeypatch.setattr(launch_stops, "FIRST_DELAY", 0.05)
    monkeypatch.setattr(launch_stops, "LONGEST_DELAY", 0.05)


@pytest.fixture
async def pool(make_pool: Any) -> Any:
    return await make_pool(settings=SETTINGS)


def refuse(block: Block | None, which: Callable[[AttemptSpec], bool] = lambda _: True) -> Refuses:
    return lambda spec: Exit(ExitKind.BLOCKED, 1_000_000.0, detail=WORDS, block=block) if which(spec) else None


async def blocked(pool: Any, count: int, **fields: Any) -> list[str]:
    """Submit jobs one after another, each once the one before could not be started."""
    jobs = []
    for _ in range(count):
        job = await pool.submit(gpus=1, **fields)
        await pool.until(lambda job=job: _was_blocked(pool, job.id))
        jobs.append(job.id)
    return jobs


async def _was_blocked(pool: Any, job: str) -> bool:
    attempts = (await pool.job(job)).attempts
    return bool(attempts) and attempts[-1].state == "blocked"


def launches(pool: Any, job: str) -> int:
    return sum(action == "launch" and key.job == job for action, key in pool.executor.asked)


async def mails(pool: Any, user: str) -> list[str]:
    waiting = await pool.engine.outbox.waiting((user, EMAIL))
    return [f"{each.notification.title} {each.notification.text}" for each in waiting]


# ---------- launch stops


async def test_two_refused_jobs_stop_nobody(pool: Any) -> None:
    pool.executor.refuses = refuse(LIMITS)
    await blocked(pool, 2)
    assert pool.engine.pool().launch_stops == []
    pool.executor.refuses = lambda _: None
    other = await pool.submit("joe", gpus=1)
    await pool.state(other.id, "running", attempt=1)


async def test_one_job_that_is_refused_again_and_again_stops_nobody(pool: Any) -> None:
    pool.executor.refuses = refuse(LIMITS)
    (job,) = await blocked(pool, 1)
    for attempt in range(2, 6):
        await pool.later(60.0)
        await pool.state(job, "queued", attempt=attempt)
    assert pool.engine.pool().launch_stops == []


async def test_after_three_refused_jobs_the_others_wait_without_attempts_and_the_admin_is_told(
    make_pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_stops, "INTERVAL", 3600.0)
    pool = await make_pool(settings=SETTINGS)
    pool.executor.refuses = refuse(DISK)
    kept = await blocked(pool, 3)
    others = [await pool.submit("joe", gpus=1) for _ in range(4)]
    await pool.later(600.0)
    (stop,) = pool.engine.pool().launch_stops
    assert (stop.scope, stop.kept, stop.withheld, stop.jobs, stop.detail) == ("pool", 3, 7, 7, WORDS)
    for each in others:
        found = await pool.job(each.id)
        assert (found.state, found.failures, found.attempts) == ("queued", 0, [])
    waits = await pool.job(others[0].id)
    assert waits.reason.text == (
        "Launching has stopped: several jobs could not be started, for reasons outside them. "
        f"{WORDS} The pool tries again from time to time, and then starts this job by itself."
    )
    assert waits.place is None
    [told] = await mails(pool, "admin")
    assert told.startswith(
        f"No job is launched any more: several could not be started. {WORDS} No job has failed."
    )
    assert await mails(pool, "joe") == []
    pool.executor.refuses = lambda _: None
    monkeypatch.setattr(launch_stops, "INTERVAL", 0.01)
    await pool.restart()
    for job in (*kept, *(each.id for each in others)):
        await pool.state(job, "running")
    assert pool.engine.pool().launch_stops == []


async def test_one_job_at_a_time_tries_where_only_a_start_shows_whether_it_works(pool: Any) -> None:
    pool.executor.refuses = refuse(DISK)
    await blocked(pool, 3)
    await pool.submit("joe", gpus=1)
    asked = len(pool.executor.asked)
    await pool.until(lambda: len(pool.executor.asked) >= asked + 10)
    tried = [key for action, key in pool.executor.asked[asked:] if action == "launch"]
    ended = [key for action, key in pool.executor.asked[asked:] if action == "discard"]
    assert all(a == b for a, b in zip(tried, ended, strict=False)), "the next tries when the last one has ended"
    assert len({key.job for key in tried}) >= 3, "each in turn"


def test_after_an_outage_of_any_length_a_job_tries_within_a_minute() -> None:
    delays = Backoff(*AS_DELIVERED, jitter=no_jitter)
    assert max(delays.next_delay() for _ in range(20)) <= 60.0


async def test_where_the_executor_can_be_asked_those_that_it_takes_start_and_no_attempt_is_burnt(
    pool: Any,
) -> None:
    pool.executor.checks_starts = True
    pool.executor.refuses = refuse(LIMITS, lambda spec: (spec.options.memory or 0) > 1 << 30)
    kept = await blocked(pool, 3, memory="2 GiB")
    large = await pool.submit("joe", gpus=1, memory="2 GiB")
    small = await pool.submit("joe", gpus=1, memory="1 GiB")
    await pool.state(small.id, "running", attempt=1)
    checks = len(pool.executor.checked)
    await pool.until(lambda: len(pool.executor.checked) > checks + 3)
    await pool.later(600.0)
    assert launches(pool, large.id) == 0
    assert [launches(pool, job) for job in kept] == [1, 1, 1]
    pool.executor.refuses = lambda _: None
    await pool.state(large.id, "running", attempt=1)
    for job in kept:
        await pool.state(job, "running", attempt=2)


async def test_an_executor_that_cannot_tell_has_one_job_try(pool: Any) -> None:
    pool.executor.refuses = refuse(LIMITS)
    await blocked(pool, 3)
    other = await pool.submit("joe", gpus=1)
    pool.executor.refuses = lambda _: None
    await pool.state(other.id, "running")


async def test_a_stop_that_concerns_one_person_leaves_the_others_alone(pool: Any) -> None:
    account = Block(BlockScope.USER, "susan")
    pool.executor.refuses = refuse(account, lambda spec: spec.user == "susan")
    await blocked(pool, 3)
    (stop,) = pool.engine.pool().launch_stops
    assert (stop.scope, stop.name) == ("user", "susan")
    job = await pool.submit("joe", gpus=1)
    await pool.state(job.id, "running", attempt=1)


async def test_a_stop_outlives_the_service(pool: Any) -> None:
    pool.executor.checks_starts = True
    pool.executor.refuses = refuse(LIMITS)
    await blocked(pool, 3)
    other = await pool.submit("joe", gpus=1)
    await pool.restart()
    await pool.later(600.0)
    assert pool.engine.pool().launch_stops[0].kept == 3
    assert launches(pool, other.id) == 0
    (finding,) = doctor.launches(pool.url)
    assert (finding.status, WORDS in finding.said) == (Status.PROBLEM, True)
    pool.executor.refuses = lambda _: None
    await pool.state(other.id, "running", attempt=1)


async def test_a_withheld_job_can_be_paused_resumed_and_cancelled(pool: Any) -> None:
    pool.executor.checks_starts = True
    pool.executor.refuses = refuse(LIMITS)
    await blocked(pool, 3)
    other = await pool.submit("joe", gpus=1)
    await pool.engine.pause(other.id, "joe")
    await pool.state(other.id, "paused")
    await pool.engine.resume(other.id, "joe")
    found = await pool.job(other.id)
    assert (found.state, "Launching has stopped" in found.reason.text) == ("queued", True)
    await pool.engine.cancel(other.id, "joe")
    await pool.state(other.id, "cancelled")


# ---------- nothing is ended for a start that would be refused


@pytest.fixture
async def apart(make_pool: Any) -> Any:
    """A pool of two nodes of four GPUs, with a job of two GPUs on each: for a job of four one is moved."""
    pool = await make_pool(settings=SETTINGS, executor=worlds.MemoryExecutor(TWO_NODES))
    pool.executor.checks_starts = True
    jobs = [await pool.submit(gpus=2) for _ in range(3)]
    for job in jobs:
        await pool.state(job.id, "running")
    third = (await pool.job(jobs[2].id)).held[0].node
    beside, _ = [job for job in jobs[:2] if (await pool.job(job.id)).held[0].node != third]
    await pool.engine.cancel(beside.id, "susan")
    await pool.state(beside.id, "cancelled")
    pool.running = [job.id for job in jobs if job.id != beside.id]
    return pool


async def test_a_job_is_moved_where_its_new_place_takes_it(apart: Any) -> None:
    large = await apart.submit("joe", gpus=4)
    await apart.state(large.id, "running")
    moved = [job for job in apart.running if (await apart.job(job)).attempt == 2]
    assert len(moved) == 1
    assert {key.job for key in apart.executor.checked} == {large.id, moved[0]}


@pytest.mark.parametrize("says", ["refused", "nothing"])
async def test_a_job_runs_on_if_its_new_place_would_not_take_it(apart: Any, says: str) -> None:
    def refuses(spec: AttemptSpec) -> Exit | None:
        if spec.key.job in apart.running and spec.key.attempt > 1:
            if says == "nothing":
                raise ExecutorError("The cluster does not say whether it takes the job.")
            return Exit(ExitKind.BLOCKED, 0.0, detail=WORDS, block=LIMITS)
        return None

    apart.executor.refuses = refuses
    large = await apart.submit("joe", gpus=4)
    await apart.until(lambda: {key.job for key in apart.executor.checked} >= set(apart.running))
    await apart.idle()
    for job in apart.running:
        found = await apart.job(job)
        assert (found.state, found.attempt) == ("running", 1)
    assert (await apart.job(large.id)).state == "queued"
    asked = len(apart.executor.checked)
    await apart.later(10.0)
    assert len(apart.executor.checked) == asked, "the place is known to refuse for a while"
    apart.executor.refuses = lambda _: None
    await apart.later(120.0)
    await apart.state(large.id, "running")


async def test_an_owner_is_asked_about_once_though_another_node_is_better_meanwhile(make_pool: Any) -> None:
    pool = await make_pool(settings=SETTINGS, executor=worlds.MemoryExecutor(TWO_NODES))
    pool.executor.checks_starts = True
    borrowed = [await pool.submit(gpus=1) for _ in range(8)]
    for job in borrowed:
        await pool.state(job.id, "running")
    places = {job.id: (await pool.job(job.id)).held[0].node for job in borrowed}
    await pool.later(3600.0)
    asked: list[AttemptSpec] = []
    answered = asyncio.Event()

    async def check(spec: AttemptSpec) -> Exit | None:
        asked.append(spec)
        await answered.wait()
        return None

    pool.executor.check = check
    owner = await pool.submit("joe", gpus=1)
    await pool.until(lambda: asked)
    offered = asked[0].placement[0].node
    for job, node in places.items():
        if node != offered:
            pool.executor.save(pool.key(job), 1)
    answered.set()
    found = await pool.state(owner.id, "running")
    assert found.held[0].node != offered
    assert len(asked) == 1


async def test_a_job_that_no_cluster_would_take_fails_before_others_are_paused_for_it(pool: Any) -> None:
    pool.executor.checks_starts = True
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    refused = Exit(ExitKind.REFUSED, 0.0, detail="There is no such image.")
    pool.executor.refuses = lambda spec: refused if spec.user == "joe" else None
    owner = await pool.submit("joe", gpus=2)
    failed = await pool.state(owner.id, "failed")
    assert "There is no such image." in failed.error
    assert (await pool.job(holder.id)).state == "running"


async def test_jobs_that_are_refused_beforehand_stop_launching_too(pool: Any) -> None:
    pool.executor.checks_starts = True
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    pool.executor.refuses = refuse(LIMITS)
    for user in ("joe", "jemma"):
        for _ in range(2):
            await pool.submit(user, gpus=1)
    await pool.until(lambda: pool.engine.pool().launch_stops)
    (stop,) = pool.engine.pool().launch_stops
    assert (stop.detail, (await pool.job(holder.id)).attempt) == (WORDS, 1)


async def test_nothing_is_reclaimed_for_a_job_that_the_cluster_would_refuse(pool: Any) -> None:
    pool.executor.checks_starts = True
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    pool.executor.refuses = refuse(LIMITS, lambda spec: spec.user == "joe")
    owner = await pool.submit("joe", gpus=2)

    async def is_told() -> bool:
        reason = (await pool.job(owner.id)).reason
        return reason is not None and WORDS in reason.text

    await pool.until(is_told)
    for _ in range(5):
        await pool.later(61.0)
    found = await pool.job(holder.id)
    assert (found.state, found.attempt) == ("running", 1)
    assert launches(pool, owner.id) == 0
    pool.executor.refuses = lambda _: None
    await pool.later(61.0)
    await pool.state(owner.id, "running", attempt=1)
