"""What an accepted job asks for, and its project, are changed while it does not run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pools.all_channels import CHANNELS, EMAIL, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings, JobFilter
from springtide.scheduler.notifications import NotificationEvent, NotificationSettings
from springtide.scheduler.refusal import Refusal


@pytest.fixture
async def pool(make_pool):
    """A pool that mails edits to the owners of jobs."""
    chosen = NotificationSettings(CHANNELS, WITH_ADDRESS, {EMAIL: frozenset({NotificationEvent.EDITED})})
    return await make_pool(settings=replace(EngineSettings(), notifications=chosen))


@pytest.fixture
async def full(pool) -> wire.Job:
    """A job that runs on all GPUs."""
    job = await pool.submit("susan", gpus=8, name="busy", priority=90, rotate=False)
    return await pool.state(job.id, "running")


@pytest.fixture
async def waiting(pool, full) -> wire.Job:
    """A job that waits for all GPUs."""
    return await pool.submit("susan", gpus=8, name="waits")


async def edited(pool, job: str, by: str = "admin", **changes: Any) -> wire.Job:
    return await pool.engine.edit(job, wire.JobEdit(**changes), by)


async def newest(pool) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    entry = (await pool.engine.audit(None, 1)).items[0]
    return entry.who, entry.what, entry.before, entry.after


async def test_a_higher_priority_puts_a_job_before_others_and_is_in_the_trail(pool, full):
    first = await pool.submit("susan", gpus=8, name="first")
    second = await pool.submit("susan", gpus=8, name="second")
    job = await edited(pool, second.id, priority="high", reason="A deadline.")
    assert (job.options.priority, job.place) == (75, 1)
    assert (await pool.job(first.id)).place == 2
    assert await newest(pool) == (
        *("admin", "job.edit"),
        {"user": "susan", "name": "second", "priority": 50},
        {"priority": 75, "reason": "A deadline."},
    )
    pool.executor.end(pool.key(full.id), code=0)
    await pool.state(second.id, "running")


async def test_changes_outlive_a_restart(pool, full):
    job = await pool.submit("susan", gpus=4, name="waits", workers=2, min_workers=1)
    await edited(pool, job.id, time_limit="2h", workers=1, min_workers=None, project="joe")
    await pool.restart()
    found = await pool.job(job.id)
    assert (found.project, found.options.time_limit, found.options.workers) == ("joe", 7200.0, 1)
    listed = await pool.engine.jobs(JobFilter(project="joe"), None, 10)
    assert [each.id for each in listed.items] == [job.id]


async def test_a_moved_job_keeps_age_and_progress_and_counts_for_its_new_project(pool, full):
    pool.executor.end(pool.key(full.id), code=0)
    job = await pool.submit("susan", gpus=2, name="moves")
    await pool.state(job.id, "running")
    await pool.engine.pause(job.id, "susan")
    await pool.state(job.id, "paused")
    before = await pool.job(job.id)

    moved = await edited(pool, job.id, project="joe")
    assert (moved.submitted, moved.saved, moved.attempt) == (before.submitted, before.saved, 1)
    await pool.engine.resume(job.id, "susan")
    await pool.state(job.id, "running")
    held = {project.name: project.held for project in pool.engine.pool().projects}
    assert (held["susan"], held["joe"]) == (0, 2)


async def test_a_job_without_gpus_moves_to_the_line_of_its_new_project(pool):
    jobs = [await pool.submit("susan", gpus=0, name=f"prepare-{number}") for number in range(5)]
    await edited(pool, jobs[-1].id, project="joe")
    await pool.state(jobs[-1].id, "running")
    pool.executor.end(pool.key(jobs[-1].id), code=0)
    await pool.state(jobs[-1].id, "succeeded")


async def test_a_reserved_place_is_given_up(pool, full):
    pool.executor.ignores_pause = True
    waits = await pool.submit("joe", gpus=2, name="waits")
    await pool.state(full.id, "pausing")
    await edited(pool, waits.id, project="jemma")
    pool.executor.end(pool.key(full.id), code=75)
    await pool.state(waits.id, "running")
    assert (await pool.job(waits.id)).project == "jemma"
    assert pool.executor.violations == []


async def test_the_trials_of_a_sweep_follow_it(pool, full):
    sweep = await pool.submit("susan", gpus=8, name="search", trials=wire.Trials(number=3, at_most=2))
    await edited(pool, sweep.id, project="joe", priority=60)
    trials = await pool.engine.jobs(JobFilter(sweep=sweep.id), None, 10)
    assert {(each.project, each.options.priority) for each in trials.items} == {("joe", 60)}
    trial = trials.items[0]
    with pytest.raises(Refusal, match="is a trial of the sweep"):
        await edited(pool, trial.id, priority=70)


async def test_the_test_run_of_a_job_follows_it(pool, full):
    job = await pool.submit("susan", gpus=4, workers=2, name="tested", test_run=True, time_limit=3600)
    await edited(pool, job.id, project="joe", priority=60, time_limit="3h", workers=1)
    test = await pool.job(f"{job.id}test")
    assert (test.project, test.options.priority, test.options.workers) == ("joe", 60, 1)
    assert test.options.time_limit < 3600


async def test_what_would_not_be_accepted_is_refused_and_changes_nothing(pool, full, waiting):
    for changes, message in (
        ({"project": "nobody"}, "There is no project “nobody”"),
        ({"workers": 3}, "have to run together"),
        ({"min_workers": 2}, "larger than workers"),
        ({"priority": "urgent"}, "There is no priority “urgent”"),
        ({"time_limit": "soon"}, "soon"),
        ({"priority": 100}, "cannot be paused has to fit in the quota"),
        ({"priority": 100_000}, "may have 0 to 100"),
        ({}, "Nothing is to be changed"),
    ):
        with pytest.raises(Refusal, match=message):
            await edited(pool, waiting.id, **changes)
    assert (await pool.job(waiting.id)).options == waiting.options
    with pytest.raises(Refusal, match="runs; only a job that waits"):
        await edited(pool, full.id, priority=60)


async def test_a_time_limit_that_is_used_up_already_is_refused(pool, full):
    await pool.later(600.0)
    await pool.engine.pause(full.id, "susan")
    await pool.state(full.id, "paused")
    with pytest.raises(Refusal, match=r"the job has run for .* already"):
        await edited(pool, full.id, time_limit="5m")
    assert (await edited(pool, full.id, time_limit="1h")).options.time_limit == 3600
    assert (await edited(pool, full.id, time_limit=None)).options.time_limit is None


async def test_an_edit_that_changes_nothing_leaves_no_entry(pool, waiting):
    await edited(pool, waiting.id, priority="high")
    entry = await newest(pool)
    await edited(pool, waiting.id, priority=75)
    assert await newest(pool) == entry


async def test_the_owner_of_an_edited_job_reads_who_changed_what_and_why_until_it_starts(pool, full, waiting):
    mine = await edited(pool, waiting.id, by="susan", priority=60)
    assert "administrator" not in mine.reason.text
    changed = await edited(pool, waiting.id, priority="high", time_limit="2h", reason="a deadline")
    values = "its priority from 60 to high and time limit from none to 2 h"
    said = f"An administrator, “admin”, changed {values}: a deadline."
    assert said in changed.reason.text
    [mail] = await pool.engine.outbox.waiting(("susan", EMAIL))
    assert (mail.notification.title, mail.notification.text) == ("The job “waits” was edited by “admin”.", said)
    await pool.restart()
    assert said in (await pool.job(waiting.id)).reason.text
    pool.executor.end(pool.key(full.id), code=0)
    assert said not in (await pool.state(waiting.id, "running")).reason.text


async def test_what_the_owner_changes_later_is_no_longer_said_of_the_administrator(pool, waiting):
    await edited(pool, waiting.id, project="joe", priority="high", time_limit="2h")
    values = "An administrator, “admin”, changed its priority from train to high and time limit from none to 2 h"
    both = f"{values} and moved it to the project “joe”."
    assert both in (await pool.job(waiting.id)).reason.text
    moved = await edited(pool, waiting.id, by="susan", project="jemma")
    assert f"{values}." in moved.reason.text
    changed = await edited(pool, waiting.id, by="susan", priority=60)
    assert "An administrator, “admin”, changed its time limit from none to 2 h." in changed.reason.text
    assert "administrator" not in (await edited(pool, waiting.id, by="susan", time_limit="3h")).reason.text
    assert len(await pool.engine.outbox.waiting(("susan", EMAIL))) == 1
