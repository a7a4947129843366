"""A frozen project's jobs neither start nor resume, those submitted meanwhile included."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal

WHY = "The budget of the quarter is used up."


async def frozen(pool, project: str = "susan", **fields: Any) -> wire.ProjectView:
    return await pool.engine.freeze(project, wire.FreezeRequest(why=WHY, **fields), "admin", members={})


async def unfrozen(pool, project: str = "susan") -> None:
    await pool.engine.unfreeze(project, "admin", members={})


async def trail(pool, number: int) -> list[tuple[str, str, str]]:
    return [(each.who, each.what, each.subject) for each in (await pool.engine.audit(None, number)).items]


async def test_running_jobs_are_paused_waiting_ones_wait_and_all_say_who_and_why(pool):
    runs = await pool.submit("susan", gpus=2, name="runs")
    await pool.state(runs.id, "running")
    view = await frozen(pool)
    assert (view.freeze.by, view.freeze.why, view.freeze.project) == ("admin", WHY, "susan")
    paused = await pool.state(runs.id, "paused")
    assert paused.reason.text.startswith(f"The project “susan” was frozen by “admin”: {WHY}")
    assert paused.reason.headline == "Project frozen by “admin”."
    assert paused.attempts[-1].ended_why.code == "engine-paused-for-freeze"

    new = await pool.submit("susan", gpus=1, name="new")
    theirs = await pool.submit("joe", gpus=8, name="theirs")
    await pool.state(theirs.id, "running")
    assert (await pool.job(new.id)).place is None
    project = next(each for each in pool.engine.pool().projects if each.name == "susan")
    assert (project.waiting, project.waiting_jobs) == (0, 0)

    pool.executor.end(pool.key(theirs.id), code=0)
    await pool.state(theirs.id, "succeeded")
    await pool.idle()
    assert (await pool.job(new.id)).state == "queued"

    await unfrozen(pool)
    await pool.state(runs.id, "running", attempt=2)
    await pool.state(new.id, "running")
    assert await trail(pool, 2) == [("admin", "project.unfreeze", "susan"), ("admin", "project.freeze", "susan")]


async def test_a_job_that_waits_after_a_freeze_or_a_hold_says_first_what_it_waits_for(pool):
    runs = await pool.submit("susan", gpus=8, name="runs")
    await pool.state(runs.id, "running")

    async def after(pause: str) -> wire.Job:
        await pool.state(runs.id, "paused")
        other = await pool.submit("joe", gpus=8, name="other", preemptible=True, priority="high")
        await pool.state(other.id, "running")
        await (unfrozen(pool) if pause == "freeze" else pool.engine.release(runs.id, "admin"))
        await pool.idle()
        job = await pool.job(runs.id)
        pool.executor.end(pool.key(other.id), code=0)
        await pool.state(runs.id, "running")
        return job

    await frozen(pool)
    job = await after("freeze")
    assert job.reason.headline.startswith("Waiting for 8 GPUs")
    assert "frozen" not in job.reason.headline
    assert f"It was paused when “admin” froze the project “susan”: {WHY}" in job.reason.text
    await pool.engine.hold(runs.id, "admin", WHY)
    job = await after("hold")
    assert job.reason.headline.startswith("Waiting for 8 GPUs")
    assert f"It was paused when “admin” put it on hold: {WHY}" in job.reason.text


async def test_running_jobs_may_finish(pool):
    runs = await pool.submit("susan", gpus=2, name="runs")
    await pool.state(runs.id, "running")
    await frozen(pool, finish=True)
    job = await pool.job(runs.id)
    assert job.state == "running"
    assert "It runs on, and does not start again before the freeze ends." in job.reason.text
    pool.executor.end(pool.key(runs.id), code=75)
    await pool.state(runs.id, "paused")
    await pool.later(600.0)
    assert (await pool.job(runs.id)).state == "paused"


async def test_projects_inside_it_are_frozen_with_it(pool):
    await pool.engine.create_project("robots", wire.ProjectEdit(parent="susan", quota=1), "admin", members={})
    inside = await pool.submit("susan", project="robots", gpus=1, name="inside")
    await pool.state(inside.id, "running")
    await frozen(pool)
    await pool.state(inside.id, "paused")
    views = {view.name: view.freeze for view in pool.engine.pool().projects}
    assert (views["robots"].project, views["joe"]) == ("susan", None)
    await pool.engine.edit_project("robots", wire.ProjectEdit(parent=None, quota=0), "admin", members={})
    await pool.state(inside.id, "running")


async def test_a_freeze_outlives_a_restart_and_a_job_moved_out_of_it_starts(pool):
    await frozen(pool)
    waits = await pool.submit("susan", gpus=1, name="waits")
    await pool.restart()
    await pool.idle()
    assert (await pool.job(waits.id)).hold.project == "susan"
    await pool.engine.edit(waits.id, wire.JobEdit(project="joe"), "admin")
    await pool.state(waits.id, "running")


async def test_sweeps_begin_nothing_and_jobs_without_gpus_do_not_start(pool):
    await frozen(pool)
    sweep = await pool.submit("susan", gpus=1, name="search", trials=wire.Trials(number=2))
    prepares = await pool.submit("susan", gpus=0, name="prepare")
    tested = await pool.submit("susan", gpus=1, name="tested", test_run=True)
    await pool.idle()
    assert {(await pool.job(job.id)).state for job in (sweep, prepares, tested)} == {"queued"}
    assert (await pool.job(f"{tested.id}test")).state == "queued"
    await unfrozen(pool)
    for job in (sweep, prepares, tested):
        await pool.state(job.id, "running", "succeeded", "queued")
    await pool.state(prepares.id, "running")


async def test_a_hold_of_a_job_itself_outlives_the_freeze(pool):
    await frozen(pool)
    waits = await pool.submit("susan", gpus=1, name="waits")
    with pytest.raises(Refusal, match="is on hold because its project “susan” is frozen"):
        await pool.engine.release(waits.id, "admin")
    await pool.engine.hold(waits.id, "lead", "Its data may not be used.")
    await unfrozen(pool)
    await pool.idle()
    assert (await pool.job(waits.id)).hold.by == "lead"
    await frozen(pool)
    await pool.engine.release(waits.id, "lead")
    assert (await pool.job(waits.id)).hold.project == "susan"


async def test_a_freeze_ends_by_itself_at_its_time(pool):
    now = pool.clock.now
    await frozen(pool, until=now + 3600.0)
    waits = await pool.submit("susan", gpus=1, name="waits")
    assert "The freeze ends by itself at 1970-01-12 14:46 UTC" in (await pool.job(waits.id)).reason.text
    await pool.later(3599.0)
    assert (await pool.job(waits.id)).state == "queued"
    await pool.later(1.0)
    await pool.state(waits.id, "running")
    assert await trail(pool, 1) == [("springtide", "project.unfreeze", "susan")]


async def test_a_new_reason_or_end_replaces_the_old_one(pool):
    now = pool.clock.now
    await frozen(pool, until=now + 60.0)
    waits = await pool.submit("susan", gpus=1, name="waits")
    await frozen(pool)
    await pool.later(120.0)
    assert (await pool.job(waits.id)).hold.until is None
    await pool.engine.freeze("susan", wire.FreezeRequest(why="An audit."), "lead", members={})
    hold = (await pool.job(waits.id)).hold
    assert (hold.by, hold.reason, hold.at) == ("lead", "An audit.", now)


async def test_wrong_freezes_are_refused(pool):
    with pytest.raises(Refusal, match="There is no project “nobody”"):
        await frozen(pool, "nobody")
    with pytest.raises(Refusal, match="The end has passed already"):
        await frozen(pool, until=pool.clock.now)
    with pytest.raises(Refusal, match="control characters"):
        await pool.engine.freeze("susan", wire.FreezeRequest(why="a\x00"), "admin", members={})
    with pytest.raises(Refusal, match="The project “susan” is not frozen") as refused:
        await unfrozen(pool)
    assert refused.value.status == 409
    assert await trail(pool, 1) == [("configuration", "project.create", "jemma")]


async def test_a_project_inside_a_frozen_one_is_unfrozen_with_that(pool):
    await pool.engine.create_project("robots", wire.ProjectEdit(parent="susan", quota=1), "admin", members={})
    await frozen(pool)
    with pytest.raises(Refusal, match="“robots” is not frozen itself: “susan” is"):
        await unfrozen(pool, "robots")
