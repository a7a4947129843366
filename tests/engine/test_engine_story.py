"""The life of jobs in a pool with the real policy."""

from __future__ import annotations

import asyncio

import engine_worlds as worlds
import pytest

from springtide.scheduler import wire
from springtide.scheduler.client.descriptions import reason_at
from springtide.scheduler.engine import JobFilter
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.runs import parse


async def test_a_job_is_accepted_runs_and_ends(pool):
    job = await pool.submit(gpus=2)
    assert job.state in {"queued", "starting", "running"}
    running = await pool.state(job.id, "running")
    assert [gpu.label for gpu in running.held] == ["train 0", "train 1"]
    assert not any(gpu.borrowed for gpu in running.held)
    pool.clock.now += 60
    pool.executor.end(pool.key(job.id), code=0)
    ended = await pool.state(job.id, "succeeded")
    assert ended.exit_code == 0
    assert ended.gpu_seconds == 120
    assert ended.held == []
    assert [(a.number, a.state) for a in ended.attempts] == [(1, "succeeded")]
    await pool.until(lambda: not pool.executor.world)


async def test_what_a_project_holds_beyond_its_quota_is_marked_as_borrowed(pool):
    first = await pool.submit(gpus=4)
    second = await pool.submit(gpus=4)
    await pool.state(first.id, "running")
    await pool.state(second.id, "running")
    assert [gpu.borrowed for gpu in (await pool.job(first.id)).held] == [False, False, True, True]
    assert [gpu.borrowed for gpu in (await pool.job(second.id)).held] == [True] * 4
    view = {project.name: project for project in pool.engine.pool().projects}["susan"]
    assert (view.held, view.borrowed) == (8, 6)
    cells = pool.engine.pool().nodes[0].gpus
    assert sum(cell.holder.borrowed for cell in cells) == 6


async def test_an_owner_gets_her_gpus_back_and_the_paused_job_resumes_by_itself(pool):
    older = await pool.submit(gpus=4)
    await pool.state(older.id, "running")
    pool.clock.now += 10
    newer = await pool.submit(gpus=4)
    await pool.state(newer.id, "running")
    pool.executor.report(pool.key(newer.id), step=41, of=100, saved=True)
    pool.clock.now += 10
    owners = await pool.submit("joe", gpus=2)
    await pool.state(owners.id, "running")
    paused = await pool.state(newer.id, "paused")
    assert "joe" in paused.reason.text
    assert paused.saved_step == 41
    assert paused.attempts[0].state == "paused"
    assert (await pool.job(older.id)).state == "running"
    kept = (await pool.engine.pause(newer.id, "susan")).reason
    assert kept.headline == "Kept paused by “susan”."
    back = "The project “joe” asked for its 2 GPUs back."
    assert kept.text.startswith(f"{back} It is kept paused by “susan”. It runs again when it is resumed.")
    await pool.engine.resume(newer.id, "susan")
    pool.executor.end(pool.key(owners.id), code=0)
    resumed = await pool.state(newer.id, "running", attempt=2)
    assert resumed.attempts[1].resumed_from == 41
    assert resumed.failures == 0
    pool.executor.end(pool.key(newer.id), code=0)
    await pool.state(newer.id, "succeeded")


async def test_a_waiting_job_says_why_and_where_it_stands(pool):
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    first = await pool.submit(gpus=8)
    second = await pool.submit(gpus=8)
    await pool.idle()
    assert (await pool.job(first.id)).reason.text
    assert ((await pool.job(first.id)).place, (await pool.job(second.id)).place) == (1, 2)


async def test_raising_a_quota_moves_the_pool_at_once(pool, members):
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    await pool.engine.edit_project("jemma", wire.ProjectEdit(quota=0), "admin", members=members)
    await pool.engine.edit_project("joe", wire.ProjectEdit(quota=0), "admin", members=members)
    waiting = await pool.submit("joe", gpus=4)
    await pool.idle()
    assert (await pool.job(waiting.id)).state == "queued"
    await pool.engine.edit_project("joe", wire.ProjectEdit(quota=4), "admin", members=members)
    await pool.state(waiting.id, "running")
    await pool.state(holder.id, "paused")


# ---------- users


async def test_a_job_paused_by_its_user_stays_paused_until_resumed(pool):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    asked = await pool.engine.pause(job.id, "susan")
    assert asked.state in {"pausing", "paused"}
    held = await pool.state(job.id, "paused")
    assert held.held_by_user
    assert held.reason.text.startswith("It was paused by “susan”.")
    await pool.idle()
    assert (await pool.job(job.id)).state == "paused"
    await pool.engine.resume(job.id, "susan")
    resumed = await pool.state(job.id, "running", attempt=2)
    assert not resumed.held_by_user


async def test_a_queued_job_can_be_paused_and_resumed(pool):
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    job = await pool.submit(gpus=8)
    held = await pool.engine.pause(job.id, "susan")
    assert (held.state, held.held_by_user, held.place) == ("paused", True, None)
    pool.executor.end(pool.key(holder.id), code=0)
    await pool.state(holder.id, "succeeded")
    await pool.idle()
    assert (await pool.job(job.id)).state == "paused"
    assert (await pool.engine.resume(job.id, "susan")).state in {"queued", "starting", "running"}
    await pool.state(job.id, "running", attempt=1)


async def test_a_waiting_job_is_cancelled_at_once(pool):
    holder = await pool.submit(gpus=8)
    await pool.state(holder.id, "running")
    job = await pool.submit(gpus=8)
    cancelled = await pool.engine.cancel(job.id, "susan")
    assert (cancelled.state, cancelled.attempts) == ("cancelled", [])
    assert (await pool.engine.cancel(job.id, "susan")).state == "cancelled"


async def test_a_running_job_is_cancelled_when_its_processes_are_gone(pool):
    pool.executor.ignores_kill = True
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    assert (await pool.engine.cancel(job.id, "susan")).state == "pausing"
    await pool.idle()
    ending = await pool.job(job.id)
    assert (ending.state, ending.shown) == ("pausing", "cancelling")
    assert (ending.attempts[-1].state, ending.attempts[-1].shown) == ("pausing", "cancelling")
    holders = [gpu.holder for node in pool.engine.pool().nodes for gpu in node.gpus if gpu.holder is not None]
    assert [holder.shown for holder in holders] == ["cancelling"]
    for state, found in (("cancelling", [job.id]), ("pausing", []), ("ending", []), ("running", [])):
        by_state = await pool.engine.jobs(JobFilter(states=frozenset({state})), None, 50)
        by_condition = await pool.engine.jobs(JobFilter(where=parse(f"state = {state}")), None, 50)
        assert [one.id for one in by_state.items] == [one.id for one in by_condition.items] == found, state
    assert len(ending.held) == 1
    pool.executor.end(pool.key(job.id), signal=9)
    ended = await pool.state(job.id, "cancelled")
    assert (ended.shown, ended.attempts[-1].shown) == ("cancelled", "cancelled")


async def test_cancelling_overrides_a_pause(pool):
    pool.executor.ignores_pause = True
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    await pool.engine.pause(job.id, "susan")
    assert (await pool.state(job.id, "pausing")).shown == "pausing"
    await pool.engine.cancel(job.id, "susan")
    await pool.state(job.id, "cancelled")
    await pool.idle()
    assert [what for what, _ in pool.executor.asked] == ["launch", "pause", "kill", "discard"]


async def test_a_paused_job_that_is_being_cancelled_can_neither_pause_nor_resume(pool):
    pool.executor.ignores_pause = pool.executor.ignores_kill = True
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    await pool.engine.pause(job.id, "susan")
    await pool.engine.cancel(job.id, "susan")
    for change in (pool.engine.resume, pool.engine.pause):
        with pytest.raises(Refusal, match="is being cancelled; there is nothing to"):
            await change(job.id, "joe")
    pool.executor.end(pool.key(job.id), signal=9)
    assert "Cancelled by “susan”" in (await pool.state(job.id, "cancelled")).reason.headline


async def test_a_cancel_during_a_pause_gives_no_more_time_and_says_so(pool):
    pool.executor.ignores_pause = pool.executor.ignores_kill = True
    job = await pool.submit(gpus=1, grace=30.0)
    await pool.state(job.id, "running")
    paused = await pool.engine.pause(job.id, "susan")
    pool.clock.now += 16.0
    cancelled = await pool.engine.cancel(job.id, "susan")
    assert (paused.held_by_user, cancelled.held_by_user) == (True, False)
    assert cancelled.attempts[-1].asked == paused.attempts[-1].asked
    assert "It is killed in 14 s, if it has not ended by then." in cancelled.reason.text
    read = reason_at(cancelled.reason, pool.clock.now + 9)
    assert "It is killed in 5 s, if it has not ended by then." in read.text
    pool.executor.end(pool.key(job.id), signal=9)
    assert not (await pool.state(job.id, "cancelled")).held_by_user


async def test_a_cancelled_job_that_has_not_ended_is_ended_at_once_when_that_is_asked_for(pool):
    pool.executor.ignores_kill = True
    job = await pool.submit(gpus=1, grace=120.0)
    await pool.state(job.id, "running")
    first = await pool.engine.cancel(job.id, "susan")
    assert "It is killed in 2 min, if it has not ended by then." in first.reason.text
    since = first.attempts[-1].asked
    pool.clock.now += 10.0
    again = await pool.engine.cancel(job.id, "susan")
    assert "It is killed in 1 min, if it has not ended by then." in again.reason.text
    ending = await pool.engine.cancel(job.id, "susan", now=True)
    assert (ending.shown, ending.attempts[-1].asked) == ("cancelling", since)
    assert "It is killed" not in ending.reason.text
    await pool.idle()
    assert [what for what, _ in pool.executor.asked] == ["launch", "kill", "now"]
    assert len((await pool.job(job.id)).held) == 1, "its GPUs are its own until it has ended"
    pool.executor.end(pool.key(job.id), signal=9)
    await pool.state(job.id, "cancelled")


async def test_a_job_that_is_to_end_at_once_is_asked_only_that(pool):
    pool.executor.ignores_kill = True
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    await pool.engine.cancel(job.id, "susan", now=True)
    await pool.idle()
    assert [what for what, _ in pool.executor.asked] == ["launch", "now"]


@pytest.mark.parametrize("what", ["pause", "resume", "cancel"])
async def test_an_ended_job_cannot_be_controlled(pool, what):
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")
    pool.executor.end(pool.key(job.id), code=0)
    await pool.state(job.id, "succeeded")
    with pytest.raises(Refusal) as refused:
        await getattr(pool.engine, what)(job.id, "susan")
    assert refused.value.status == 409
    assert "succeeded" in refused.value.message


@pytest.mark.parametrize("what", ["pause", "resume", "cancel"])
async def test_an_unknown_job_is_not_found(pool, what):
    with pytest.raises(Refusal) as refused:
        await getattr(pool.engine, what)("nobody", "susan")
    assert refused.value.status == 404


# ---------- lists


async def test_jobs_are_listed_newest_first_by_pages(pool):
    made = [(await pool.submit(gpus=8)).id for _ in range(5)]
    other = (await pool.submit("joe", gpus=8)).id
    page = await pool.engine.jobs(JobFilter(user="susan"), None, 2)
    assert [job.id for job in page.items] == [made[4], made[3]]
    page = await pool.engine.jobs(JobFilter(user="susan"), page.next, 2)
    assert [job.id for job in page.items] == [made[2], made[1]]
    page = await pool.engine.jobs(JobFilter(user="susan"), page.next, 2)
    assert ([job.id for job in page.items], page.next) == ([made[0]], None)
    seen = await pool.engine.jobs(JobFilter(viewer="joe", viewer_projects=("joe",)), None, 50)
    assert [job.id for job in seen.items] == [other]
    queued = await pool.engine.jobs(JobFilter(states=frozenset({"queued"})), None, 50)
    assert all(job.state == "queued" for job in queued.items)


async def test_a_cursor_of_something_else_is_refused(pool):
    with pytest.raises(Refusal) as refused:
        await pool.engine.jobs(JobFilter(), "'; drop table jobs", 10)
    assert (refused.value.status, refused.value.field) == (422, "cursor")


async def test_lists_show_the_latest_attempts_and_a_jobs_own_page_all(pool):
    job = await pool.submit(gpus=1, source="x")
    for attempt in range(1, 8):
        await pool.state(job.id, "running", attempt=attempt)
        pool.executor.report(pool.key(job.id), step=attempt, saved=True)
        pool.executor.end(pool.key(job.id), code=75)
        await pool.state(job.id, "paused", attempt=attempt)
        await pool.later(1_000)
    await pool.state(job.id, "running", attempt=8)
    [listed] = (await pool.engine.jobs(JobFilter(), None, 10)).items
    assert [attempt.number for attempt in listed.attempts] == [4, 5, 6, 7, 8]
    assert listed.source == ""
    whole = await pool.engine.job(job.id)
    assert [attempt.number for attempt in whole.attempts] == list(range(1, 9))
    assert whole.source == "x"


async def test_an_ended_attempt_still_tells_what_it_had_borrowed(pool):
    job = await pool.submit(gpus=4)
    await pool.state(job.id, "running")
    pool.executor.end(pool.key(job.id), code=0)
    ended = await pool.state(job.id, "succeeded")
    assert [gpu.borrowed for gpu in ended.attempts[0].gpus] == [False, False, True, True]
    await pool.restart()
    assert (await pool.job(job.id)).attempts == ended.attempts


async def test_reasons_are_whole_sentences(pool):
    first = await pool.submit(gpus=8)
    await pool.state(first.id, "running")
    running = (await pool.job(first.id)).reason.text
    assert running.startswith("Running on 8 GPUs: 2 within the quota, 6 borrowed.")
    await pool.submit("joe", gpus=2, name="bert")
    paused = await pool.state(first.id, "paused")
    told = paused.reason.text
    assert told.startswith("The project “joe” asked for its 2 GPUs back, for the job “bert”. ")
    assert "The project “susan” holds none of its 2 GPUs." in told
    assert told.endswith(".")


# ---------- repeating


async def test_the_same_key_answers_the_job_that_was_accepted_first(pool):
    first = await pool.submit(key="once")
    again = await pool.submit(key="once")
    assert again.id == first.id
    assert (await pool.submit("joe", key="once")).id != first.id
    await pool.state(first.id, "running")
    pool.executor.end(pool.key(first.id), code=0)
    await pool.state(first.id, "succeeded")
    assert (await pool.submit(key="once")).id == first.id


async def test_a_hundred_equal_keys_at_once_make_one_job(pool):
    made = await asyncio.gather(*(pool.submit(key="once") for _ in range(100)))
    assert len({job.id for job in made}) == 1


# ---------- nodes


async def test_a_job_waits_for_gpus_that_come_later(make_pool):
    pool = await make_pool(executor=worlds.MemoryExecutor(nodes=(worlds.node("train", 8),)))
    pool.executor.change_nodes(worlds.node("train", 8, taken=frozenset(range(8))))
    await pool.idle()
    job = await pool.submit(gpus=1)
    await pool.idle()
    assert (await pool.job(job.id)).state == "queued"
    assert pool.engine.pool().nodes[0].gpus[0].holder.kind == "foreign"
    pool.executor.change_nodes(worlds.node("train", 8))
    await pool.state(job.id, "running")
