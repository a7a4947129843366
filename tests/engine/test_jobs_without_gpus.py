"""Jobs without GPUs: a bounded number of each project runs at a time, beside all GPUs and never in their way."""

from __future__ import annotations

from typing import Any

import engine_worlds as worlds
import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.model import Worker
from springtide.scheduler.refusal import Refusal

GROUPS = {
    "lab": {"quota": 4, "ranges": wire.JobRanges(jobs_without_gpus=2)},
    "vision": {"quota": 2, "parent": "lab"},
    "speech": {"quota": 2, "parent": "lab", "ranges": wire.JobRanges(jobs_without_gpus=1)},
    "gpus only": {"quota": 1, "ranges": wire.JobRanges(jobs_without_gpus=0)},
    "susan": {"quota": 2},
}


@pytest.fixture
async def groups(make_pool) -> Any:
    return await make_pool(projects=GROUPS)


async def states(pool: Any, jobs: list[Any]) -> list[str]:
    await pool.idle()
    return [(await pool.job(job.id)).state for job in jobs]


def running(pool: Any) -> set[str]:
    return {key.job for key in pool.executor.live()}


async def test_jobs_without_gpus_run_beside_full_gpus_and_hold_none(pool: Any) -> None:
    full = await pool.submit("joe", gpus=8)
    job = await pool.submit(gpus=0)
    assert await states(pool, [full, job]) == ["running", "running"]
    spec = pool.executor.specs[pool.key(job.id)]
    assert (spec.workers, spec.placement) == (1, (Worker(0, "", ()),))
    shown = await pool.job(job.id)
    assert (shown.held, shown.options.gpus, shown.reason.text) == ([], 0, "Running without GPUs.")
    assert [attempt.why.text for attempt in shown.attempts] == ["It started without GPUs."]
    view = pool.engine.pool()
    susan = next(each for each in view.projects if each.name == "susan")
    assert (view.train_held, susan.held, susan.borrowed, susan.fair_share, susan.waiting) == (8, 0, 0, 0, 0)
    assert (susan.running_jobs, susan.waiting_jobs) == (1, 0)
    pool.clock.now += 7200
    pool.executor.end(pool.key(job.id), code=0)
    assert (await pool.state(job.id, "succeeded")).gpu_seconds == 0
    assert pool.engine.stats.starts == 2


async def test_a_job_that_waits_for_those_it_submits_never_keeps_them_waiting(pool: Any) -> None:
    pipelines = [await pool.submit(gpus=0) for _ in range(5)]
    steps = [await pool.submit(gpus=0, lineage=(job.id,)) for job in pipelines for _ in range(2)]
    assert await states(pool, pipelines) == ["running"] * 4 + ["queued"]
    assert await states(pool, steps) == ["running"] * 4 + ["queued"] * 6
    reason = (await pool.job(steps[4].id)).reason.text
    assert reason.startswith(
        "The project “susan” runs 4 jobs without GPUs in step 2 of chains of jobs, as many as it"
    )
    for job in steps[:4]:
        pool.executor.end(pool.key(job.id), code=0)
    assert (await states(pool, steps))[4:8] == ["running"] * 4


async def test_those_beyond_the_number_of_their_project_wait_in_line_with_the_reason(pool: Any) -> None:
    jobs = [await pool.submit(gpus=0) for _ in range(6)]
    urgent = await pool.submit(gpus=0, priority="high")
    other = await pool.submit("joe", gpus=0)
    assert await states(pool, [*jobs, urgent, other]) == ["running"] * 4 + ["queued"] * 3 + ["running"]
    shown = [await pool.job(job.id) for job in (urgent, *jobs[4:])]
    assert [job.place for job in shown] == [1, 2, 3]
    first = "The project “susan” runs 4 jobs without GPUs, as many as it may at a time."
    assert [job.reason.text for job in shown] == [
        f"{first} It starts when one of them has ended. Next in line of “susan”.",
        f"{first} Number 2 in line, after 1 job of “susan”.",
        f"{first} Number 3 in line, after 2 jobs of “susan”.",
    ]
    assert all(job.starts is None for job in shown)
    await pool.engine.cancel(jobs[0].id, "susan")
    assert await states(pool, [urgent, *jobs[4:]]) == ["running", "queued", "queued"]
    assert (await pool.job(jobs[4].id)).place == 1


async def test_nobody_pauses_them_and_they_keep_no_gpu_from_anybody(pool: Any) -> None:
    cheap = await pool.submit("joe", gpus=0, priority=0)
    borrower = await pool.submit("joe", gpus=8)
    owner = await pool.submit("susan", gpus=2, priority="critical")
    await pool.state(owner.id, "running")
    assert await states(pool, [cheap, borrower]) == ["running", "paused"]
    assert [key.job for what, key in pool.executor.asked if what == "pause"] == [borrower.id]
    assert len((await pool.job(cheap.id)).attempts) == 1


async def test_a_project_has_its_own_number_or_that_of_the_project_above(groups: Any) -> None:
    jobs = {name: [await groups.submit("susan", name, gpus=0) for _ in range(5)] for name in ("vision", "speech")}
    assert await states(groups, jobs["vision"]) == ["running"] * 2 + ["queued"] * 3
    assert await states(groups, jobs["speech"]) == ["running"] + ["queued"] * 4
    edit = wire.ProjectEdit(ranges=wire.JobRanges(jobs_without_gpus=4))
    await groups.engine.edit_project("lab", edit, "admin", members={})
    assert await states(groups, jobs["vision"]) == ["running"] * 4 + ["queued"]
    edit = wire.ProjectEdit(ranges=wire.JobRanges(jobs_without_gpus=2))
    await groups.engine.edit_project("lab", edit, "admin", members={})
    assert await states(groups, jobs["vision"]) == ["running"] * 4 + ["queued"]
    waits = await groups.job(jobs["vision"][4].id)
    assert waits.reason.text == (
        "The project “vision” runs 4 jobs without GPUs, and may run only 2 at a time. It starts when 3 of them "
        "have ended. Next in line of “vision”."
    )


@pytest.mark.parametrize(
    ("project", "asked", "field", "words"),
    [
        ("gpus only", {}, "gpus", "Jobs of project “gpus only” have at least 1 GPU per worker: none without GPUs"),
        ("susan", {"workers": 3}, "workers", "A job without GPUs has one worker; 3 were asked for."),
        ("susan", {"gpu_types": ["a100"]}, "gpu_types", "gpu_types is “a100”, which is about GPUs"),
        ("susan", {"require": "node"}, "require", "require is “node”, which is about GPUs, and the job asks for"),
        ("susan", {"test_run": True}, "test_run", "A job without GPUs has no test run"),
        ("susan", {"gpus": -1}, "gpus", "gpus is -1; expected a whole number from 0 up to"),
    ],
)
async def test_what_only_gpus_have_is_refused(
    groups: Any, project: str, asked: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(Refusal) as refused:
        await groups.submit("susan", project, **{"gpus": 0, **asked})
    assert refused.value.field == field
    assert words in refused.value.message


async def test_a_pool_without_gpus_runs_them_and_one_that_is_switched_off_refuses(make_pool: Any) -> None:
    none = worlds.MemoryExecutor(nodes=())
    pool = await make_pool(executor=none, projects={"susan": {}})
    assert await states(pool, [await pool.submit(gpus=0)]) == ["running"]
    pool.settings = EngineSettings(jobs_without_gpus=0)
    waits = await pool.submit(gpus=0)
    await pool.engine.pause(waits.id, "susan")
    await pool.restart()
    await pool.engine.resume(waits.id, "susan")
    shown = await pool.job(waits.id)
    assert shown.reason.text.startswith("The project “susan” may not run jobs without GPUs.")
    with pytest.raises(Refusal, match="at least 1 GPU per worker"):
        await pool.submit(gpus=0)


async def test_they_go_on_after_a_restart_a_pause_and_a_failure(pool: Any) -> None:
    jobs = [await pool.submit(gpus=0, retries=1) for _ in range(5)]
    await pool.engine.pause(jobs[0].id, "susan")
    assert await states(pool, jobs) == ["paused", *["running"] * 4]
    await pool.restart()
    await pool.engine.resume(jobs[0].id, "susan")
    assert await states(pool, jobs) == ["paused", *["running"] * 4]
    pool.executor.end(pool.key(jobs[1].id), code=1)
    await pool.state(jobs[0].id, "running")
    again = await pool.job(jobs[1].id)
    assert (again.state, again.place) == ("paused", 1)
    pool.executor.end(pool.key(jobs[2].id), code=0)
    await pool.idle()
    assert jobs[1].id not in running(pool)
    await pool.later(1.5)
    assert await states(pool, [jobs[1]]) == ["running"]
    assert all(number == 1 for number in pool.executor.ran.values())


async def test_trials_without_gpus_share_the_number_of_their_project(pool: Any) -> None:
    trials = wire.Trials(number=6, parameters=[{"at": at} for at in range(6)], metric="loss")
    sweep = await pool.submit(gpus=0, trials=trials)
    await pool.idle()
    assert len(running(pool)) == 4
    shown = await pool.job(sweep.id)
    assert (shown.state, shown.trials.gpus, shown.place) == ("running", 0, 1)
    for key in list(pool.executor.live()):
        pool.executor.end(key, code=0)
    await pool.idle()
    assert len(running(pool)) == 2


async def test_draining_the_machine_pauses_them_and_undraining_starts_them(pool: Any) -> None:
    job = await pool.submit(gpus=0)
    await pool.state(job.id, "running")
    await pool.engine.drain_node(wire.DrainRequest(node="train", why="It is moved."), "admin")
    assert await states(pool, [job]) == ["paused"]
    assert (await pool.job(job.id)).reason.text == (
        "The node train was drained by “admin”. It is moved. The machine is drained: no job starts on it. It "
        "starts when the machine is undrained."
    )
    await pool.engine.drain_node(wire.DrainRequest(node="train", until=pool.clock() + 3_600.0), "admin")
    assert (await pool.job(job.id)).reason.text.endswith("no job starts on it. It starts at 1970-01-12 14:46 UTC.")
    await pool.engine.undrain_node(wire.UndrainRequest(node="train"), "admin")
    assert await states(pool, [job]) == ["running"]


async def test_what_to_expect_of_one_is_told_before_it_is_sent(pool: Any) -> None:
    async def told() -> wire.Forecast:
        question = wire.WhatIf(job=wire.Wish(gpus=0))
        return await pool.engine.forecast(question, "susan", "susan", sees=lambda *_: True, members={})

    now = await told()
    assert (now.estimate.code, now.estimate.text) == ("estimate-now", "It would start now, without GPUs.")
    assert now.job.likely == pool.clock.now
    for _ in range(5):
        await pool.submit(gpus=0)
    await pool.idle()
    later = await told()
    assert later.estimate.text == (
        "The project “susan” runs 4 jobs without GPUs, as many as it may at a time. Number 2 in line, after 1 job "
        "of “susan”."
    )
    assert later.job.likely is None
    assert later.starts == {}
