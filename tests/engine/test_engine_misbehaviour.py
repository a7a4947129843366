"""Executors, nodes and jobs that do not do what they should."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import engine_worlds as worlds
import pytest
from servers.message_servers import until

from springtide.scheduler import wire
from springtide.scheduler.engine import JobFilter, open_engine, store_threads
from springtide.scheduler.engine.loop.actuator import MAX_LAUNCHES
from springtide.scheduler.engine.requests import control
from springtide.scheduler.engine.sweeps import controller
from springtide.scheduler.executors.base import ExecutorError, ExitKind
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError, StoreFullError


async def test_a_slow_start_shows_as_starting_and_can_be_cancelled(pool):
    pool.executor.slow_start = True
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "starting")
    assert len((await pool.job(job.id)).held) == 1
    await pool.engine.cancel(job.id, "susan")
    await pool.state(job.id, "cancelled")


async def test_a_slow_start_can_be_paused(pool):
    pool.executor.slow_start = True
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "starting")
    await pool.engine.pause(job.id, "susan")
    held = await pool.state(job.id, "paused")
    assert held.held_by_user


async def test_an_attempt_that_dies_during_its_start_is_a_failure_with_words(pool):
    pool.executor.during_launch = lambda key: pool.executor.end(
        key, kind=ExitKind.REFUSED, detail="There is no program 'pyhton'."
    )
    job = await pool.submit(gpus=1)
    failed = await pool.state(job.id, "failed")
    assert "There is no program 'pyhton'." in failed.error
    assert failed.started is None
    assert failed.gpu_seconds == 0


async def test_a_job_that_cannot_be_asked_to_pause_runs_on_and_says_so_until_it_is_asked(pool, monkeypatch):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    words = "The cluster cannot be asked to end the job: no webhook answers."

    async def refuse(key):
        raise ExecutorError(words)

    async def reason():
        return (await pool.job(job.id)).reason

    async def says(text):
        return text in (await reason()).text

    pool.executor.ignores_pause = True
    monkeypatch.setattr(pool.executor, "pause", refuse)
    await pool.engine.pause(job.id, "susan")
    await pool.until(lambda: says(words))
    said = f"It runs on: it could not be asked to end so far. {words} It is asked again."
    assert (await reason()).text.startswith(said)
    assert (await reason()).headline.startswith("It runs on: it could not be asked to end so far.")
    assert (await pool.job(job.id)).state == "pausing"
    monkeypatch.undo()
    await pool.until(lambda: says("for a pause"))
    assert not await says(words)
    pool.executor.end(pool.key(job.id), code=75, paused=True)
    await pool.state(job.id, "paused")


async def test_a_job_that_ignores_the_pause_holds_its_gpus_until_it_is_gone(pool):
    pool.executor.ignores_pause = True
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    owners = await pool.submit("joe", gpus=2)
    await pool.state(holder.id, "pausing")
    await pool.idle()
    assert (await pool.job(owners.id)).state == "queued"
    assert len((await pool.job(holder.id)).held) == 8
    pool.executor.end(pool.key(holder.id), signal=9, paused=True)
    await pool.state(owners.id, "running")
    paused = await pool.state(holder.id, "paused")
    assert paused.failures == 0


async def test_work_that_is_complete_when_a_pause_is_asked_for_has_succeeded(pool):
    pool.executor.pause_exit = 0
    pool.executor.pause_completes = True
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    await pool.submit("joe", gpus=2)
    ended = await pool.state(holder.id, "succeeded")
    assert ended.attempt == 1


async def test_launches_that_fail_are_repeated_until_one_works(pool):
    pool.executor.launch_errors = 2
    job = await pool.submit(gpus=1)

    async def is_told():
        reason = (await pool.job(job.id)).reason
        return reason is not None and "The machine is busy" in reason.text

    await pool.until(is_told)
    await pool.state(job.id, "running", attempt=1)
    assert pool.executor.ran == {pool.key(job.id): 1}


async def test_a_job_whose_launches_do_not_work_gives_its_gpus_up_and_waits(pool, monkeypatch):
    monkeypatch.setattr("springtide.scheduler.engine.loop.actuator.FIRST_DELAY", 0.001)
    pool.executor.launch_errors = MAX_LAUNCHES
    job = await pool.submit(gpus=1)

    async def waits():
        return (await pool.job(job.id)).attempts[0].state == "blocked"

    await pool.until(waits)
    waiting = await pool.job(job.id)
    assert (waiting.state, waiting.failures) == ("queued", 0)
    assert "It was tried 10 times. The machine is busy." in waiting.reason.text
    assert not pool.executor.ran
    other = await pool.submit(gpus=8)
    await pool.state(other.id, "running")
    await pool.engine.cancel(other.id, "susan")
    await pool.later(60.0)
    await pool.state(job.id, "running", attempt=2)


async def test_a_launch_that_worked_although_it_seemed_not_to_is_no_failure(pool, monkeypatch):
    monkeypatch.setattr("springtide.scheduler.engine.loop.actuator.FIRST_DELAY", 0.001)

    def start_but_never_say_so(key):
        placement = pool.executor.world.pop(key).placement
        if pool.executor.asked.count(("launch", key)) == MAX_LAUNCHES:
            pool.executor.appear(key, placement)
        raise ExecutorError("The machine does not say whether it started.")

    pool.executor.during_launch = start_but_never_say_so
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running", attempt=1)
    await pool.idle()
    assert (await pool.job(job.id)).state == "running"
    assert pool.executor.asked.count(("launch", pool.key(job.id))) == MAX_LAUNCHES


async def test_a_job_whose_launches_never_work_can_be_cancelled(pool):
    pool.executor.launch_errors = 10_000
    job = await pool.submit(gpus=1)
    await pool.until(lambda: pool.engine.stats.act_errors)
    await pool.engine.cancel(job.id, "susan")
    await pool.state(job.id, "cancelled")
    assert not pool.executor.ran


async def test_a_lost_attempt_is_run_again_and_costs_no_retry(pool):
    job = await pool.submit(gpus=1, retries=0)
    await pool.state(job.id, "running")
    pool.executor.report(pool.key(job.id), step=5, saved=True)
    pool.executor.end(pool.key(job.id), kind=ExitKind.LOST, detail="The supervisor vanished.")
    again = await pool.state(job.id, "running", attempt=2)
    assert (again.failures, again.attempts[0].state, again.attempts[1].resumed_from) == (0, "lost", 5)


async def test_failures_are_tried_again_after_a_wait(pool):
    job = await pool.submit(gpus=1, retries=1)
    await pool.state(job.id, "running")
    pool.executor.end(pool.key(job.id), code=1)
    await pool.state(job.id, "paused")
    assert "1 of 1" in (await pool.job(job.id)).reason.text
    await pool.idle()
    assert (await pool.job(job.id)).attempt == 1
    await pool.later(2)
    await pool.state(job.id, "running", attempt=2)
    pool.executor.end(pool.key(job.id), code=7)
    failed = await pool.state(job.id, "failed")
    assert (failed.exit_code, failed.failures) == (7, 2)


async def test_a_job_that_asks_to_run_again_for_ever_fails_in_words(pool):
    job = await pool.submit(gpus=1)
    for attempt in range(1, pool.settings.retries.fruitless_limit + 1):
        await pool.state(job.id, "running", attempt=attempt)
        pool.executor.end(pool.key(job.id), code=75)
        await pool.state(job.id, "paused", "failed", attempt=attempt)
        await pool.later(1_000)
    failed = await pool.state(job.id, "failed")
    assert "exit code 75" in failed.error
    assert failed.failures == 0


async def test_a_job_is_stopped_at_its_time_limit(make_pool):
    pool = await make_pool(executor=worlds.MemoryExecutor(clock=time.time))
    pool.executor.ignores_kill = True
    job = await pool.submit(gpus=1, time_limit=0.05)
    ending = await pool.state(job.id, "pausing")
    assert (ending.shown, ending.attempts[-1].shown) == ("ending", "ending")
    pool.executor.end(pool.key(job.id), signal=9)
    failed = await pool.state(job.id, "failed")
    assert "time limit" in failed.error
    assert [what for what, _ in pool.executor.asked][:2] == ["launch", "kill"]


async def test_a_node_that_goes_away_is_not_used(pool):
    pool.executor.change_nodes(worlds.node("train", 8, available=False))
    await pool.idle()
    job = await pool.submit(gpus=1)
    await pool.idle()
    assert (await pool.job(job.id)).state == "queued"
    pool.executor.change_nodes(*worlds.EIGHT)
    await pool.state(job.id, "running")


async def test_news_of_nobody_does_no_harm(pool):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    pool.executor.report(worlds.AttemptKey("nobody", 1), step=1)
    pool.executor.report(worlds.AttemptKey(job.id, 99), step=3)
    pool.executor.tell(worlds.AttemptStatus(worlds.AttemptKey("nobody", 1), worlds.AttemptPhase.GONE))
    pool.executor.tell("nonsense")
    await pool.idle()
    assert (await pool.job(job.id)).state == "running"


async def test_an_attempt_that_nobody_knows_is_left_alone_and_its_gpus_too(pool):
    stranger = worlds.AttemptKey("stranger", 1)
    pool.executor.appear(stranger, (worlds.Worker(0, "train", tuple(range(8))),))
    await pool.idle()
    job = await pool.submit(gpus=1)
    await pool.idle()
    assert (await pool.job(job.id)).state == "queued"
    assert pool.engine.stats.quarantined == 1
    assert ("kill", stranger) not in pool.executor.asked
    assert pool.engine.pool().nodes[0].gpus[0].holder.kind == "foreign"
    pool.executor.end(stranger, code=0)
    await pool.state(job.id, "running")
    await pool.until(lambda: stranger not in pool.executor.world)


async def test_another_owner_of_the_executor_ends_the_engine(pool):
    pool.executor.epoch = pool.store.epoch + 1
    await pool.submit(gpus=1)
    why = await pool.engine.wait_closed()
    assert "epoch" in why
    with pytest.raises(Refusal) as refused:
        await pool.submit(gpus=1)
    assert refused.value.status == 503


async def test_an_executor_that_cannot_work_here_stops_the_start(tmp_path, pool):
    class Broken(worlds.MemoryExecutor):
        async def start(self, listener):
            await super().start(listener)
            raise ExecutorError("There is no /proc here.")

    with pytest.raises(ExecutorError, match="no /proc"):
        await open_engine(pool.store, Broken())


async def test_a_planner_that_fails_keeps_nobody_from_cancelling(make_pool):
    class Moody:
        broken = False

        def __init__(self, snapshot) -> None:
            self.inner = worlds.Planner(snapshot)

        def __getattr__(self, name) -> object:
            return getattr(self.inner, name)

        def plan(self, now):
            if Moody.broken:
                raise ZeroDivisionError
            return self.inner.plan(now)

    pool = await make_pool(planner=Moody)
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    Moody.broken = True
    waiting = await pool.submit(gpus=1)
    assert waiting.state == "queued"
    await pool.engine.cancel(job.id, "susan")
    await pool.state(job.id, "cancelled")
    Moody.broken = False
    await pool.later(10)
    await pool.state(waiting.id, "running")


async def test_a_plan_that_breaks_a_promise_is_not_carried_out(make_pool):
    class Reckless:
        """Starts every job on the same GPU."""

        def __init__(self, snapshot) -> None:
            self.inner = worlds.Planner(snapshot)

        def __getattr__(self, name) -> object:
            return getattr(self.inner, name)

        def plan(self, now):
            plan = self.inner.plan(now)
            same = (worlds.Worker(0, "train", (0,)),)
            return worlds.Plan(tuple(worlds.Start(d.job, same, d.reason) for d in plan.decisions))

    pool = await make_pool(planner=Reckless)
    first = await pool.submit(gpus=1)
    await pool.state(first.id, "running")
    second = await pool.submit(gpus=1)
    await pool.idle()
    assert (await pool.job(second.id)).state == "queued"
    assert pool.engine.stats.breaches
    assert len(pool.executor.live()) == 1


async def test_a_planner_without_rest_does_not_run_away(make_pool):
    class Restless(worlds.Planner):
        """Drops reservations that do not exist, for ever."""

        def __init__(self, snapshot) -> None:
            super().__init__(snapshot)
            self.seen = {job.id for job in snapshot.jobs}

        def apply(self, change):
            super().apply(change)
            if isinstance(change, worlds.JobChanged):
                self.seen.add(change.job.id)

        def plan(self, now):
            super().plan(now)
            return worlds.Plan(tuple(worlds.Drop(job, worlds.Reason("drop")) for job in self.seen))

    pool = await make_pool(planner=Restless)
    await pool.submit(gpus=1)
    await pool.idle()
    ticks = pool.engine.stats.ticks
    assert ticks < 1_000


async def test_a_superseded_attempt_is_killed_also_when_the_first_commit_with_it_fails(pool, monkeypatch):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    key = pool.key(job.id)
    pool.executor.end(key, code=0)
    await pool.state(job.id, "succeeded")
    await pool.idle()
    failures = iter([StoreError("The database is away.")])
    commit = pool.store.commit

    def fail_once(batch):
        for error in failures:
            raise error
        commit(batch)

    monkeypatch.setattr(pool.store, "commit", fail_once)
    pool.executor.appear(key)
    with pytest.raises(Refusal):
        await pool.submit(gpus=1)
    await pool.until(lambda: ("now", key) in pool.executor.asked)
    await pool.until(lambda: key not in pool.executor.world)


async def test_news_while_the_store_cannot_be_written_do_not_make_it_try_without_a_pause(pool, monkeypatch):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    commit = pool.store.commit

    def fail(batch):
        raise StoreError("The database is away.")

    monkeypatch.setattr(pool.store, "commit", fail)
    pool.executor.end(pool.key(job.id), code=0)
    await pool.until(lambda: pool.engine.stats.failed_commits)
    for gpus in range(50):
        pool.executor.change_nodes(worlds.node("train", 8 + gpus))
        await asyncio.sleep(0.001)
    assert pool.engine.stats.failed_commits < 25
    monkeypatch.setattr(pool.store, "commit", commit)
    await pool.state(job.id, "succeeded")
    await pool.idle()
    assert pool.engine.pool().nodes[0].gpus[-1].index == 56


async def test_a_request_during_a_full_disk_is_not_answered_from_what_could_not_be_written(pool, monkeypatch):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")

    def fail(batch):
        raise StoreFullError("The disk that holds the store is full.")

    monkeypatch.setattr(pool.store, "commit", fail)
    pool.executor.end(pool.key(job.id), code=1)
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            await pool.engine.pause(job.id, "susan")
        assert refused.value.status == 507
        assert (await pool.job(job.id)).state == "running"


async def test_a_request_that_fails_changes_nothing_and_those_that_came_with_it_are_answered(pool, monkeypatch):
    accept = control.accept_job

    def fail_half_way(transaction, spec, *arguments: Any, **more: Any):
        job_id = accept(transaction, spec, *arguments, **more)
        if spec.name == "defect":
            raise ZeroDivisionError("a defect")
        return job_id

    monkeypatch.setattr(control, "accept_job", fail_half_way)
    names = ("first", "defect", "last")
    first, defect, last = await asyncio.gather(
        *(pool.submit(gpus=1, name=name) for name in names), return_exceptions=True
    )
    assert isinstance(defect, ZeroDivisionError)
    assert {job.name for job in (await pool.engine.jobs(JobFilter(), None, 10)).items} == {"first", "last"}
    for job in (first, last):
        await pool.state(job.id, "running")


async def test_a_sweep_whose_trials_cannot_be_made_is_refused_alone(pool, monkeypatch):
    make = controller.make_trial

    def fail(sweep, number, run, parameters, now):
        if sweep.spec.name == "defect":
            raise ZeroDivisionError("a defect")
        return make(sweep, number, run, parameters, now)

    monkeypatch.setattr(controller, "make_trial", fail)
    names = ("good", "defect")
    good, defect = await asyncio.gather(
        *(pool.submit(gpus=1, name=name, trials=wire.Trials(number=2)) for name in names), return_exceptions=True
    )
    assert isinstance(defect, ZeroDivisionError)
    await pool.idle()
    assert (await pool.job(good.id)).trials.running == 2
    assert {job.name for job in (await pool.engine.jobs(JobFilter(), None, 10)).items} == {"good"}


async def test_an_engine_that_cannot_go_on_says_so_and_answers_who_waits(pool, monkeypatch):
    sweep = await pool.submit(gpus=1, trials=wire.Trials(number=20))
    await pool.idle()

    def fail(standing, ended, goal):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(controller, "count_ended", fail)
    pool.executor.end(next(iter(pool.executor.live())), code=0)
    with pytest.raises(Refusal) as refused:
        await pool.engine.pause(sweep.id, "susan")
    assert refused.value.status == 503
    assert "failed" in await pool.engine.wait_closed()


async def test_a_full_disk_is_told_with_the_pool_and_by_waiting_jobs_until_it_has_room(pool, monkeypatch):
    monkeypatch.setattr(store_threads, "PROBE_EVERY_S", 0.01)
    for _ in range(2):
        await pool.submit(gpus=8)
    await pool.idle()
    waits = next(job for job in (await pool.engine.jobs(JobFilter(), None, 10)).items if job.state == "queued")
    probe, commit = pool.store.probe, pool.store.commit

    def fail(*_: Any):
        raise StoreFullError("The disk that holds the store is full.")

    monkeypatch.setattr(pool.store, "commit", fail)
    monkeypatch.setattr(pool.store, "probe", fail)
    assert pool.engine.pool().store_trouble == ""
    with pytest.raises(Refusal):
        await pool.submit(gpus=1)
    assert pool.engine.pool().store_trouble == "The disk that holds the store is full."
    told = await pool.job(waits.id)
    assert told.reason.text == (
        "The pool starts no jobs at present. The disk that holds the store is full. "
        "It keeps its place, and can start once an administrator has corrected that."
    )
    assert told.starts is None

    monkeypatch.setattr(pool.store, "commit", commit)
    monkeypatch.setattr(pool.store, "probe", probe)
    await until(lambda: pool.engine.pool().store_trouble == "")
    assert "at present" not in (await pool.job(waits.id)).reason.text
