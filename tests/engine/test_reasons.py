"""The reasons of each job of a busy pool agree with the pool's view."""

from __future__ import annotations

import random
import re

import pytest

from springtide.scheduler import wire

WAITING = {"queued", "paused"}
HOLDING = {"starting", "running", "pausing"}
LOOKED_AT = 60.0
"""Seconds that a forecast may take on a busy machine."""
USERS = ("susan", "joe", "jemma")


async def unfinished(pool, ids: list[str]) -> list[wire.Job]:
    jobs = [await pool.job(job_id) for job_id in ids]
    return [job for job in jobs if job.state in WAITING | HOLDING]


def check(pool, jobs: list[wire.Job]) -> None:
    """Compare the sentences of all jobs with their states and with the view of the pool."""
    view = pool.engine.pool()
    projects = {project.name: project for project in view.projects}
    borrowed = dict.fromkeys(projects, 0)
    for job in jobs:
        reason = job.reason
        assert reason is not None, job
        assert reason.text == " ".join(sentence.text for sentence in reason.sentences)
        states = [sentence.text for sentence in reason.sentences if sentence.role == "state"]
        roles = {sentence.role for sentence in reason.sentences}
        if job.state in HOLDING:
            assert not roles & {"change", "ease", "place"}, reason
            assert "Waiting" not in reason.text
            borrowed[job.project] += sum(gpu.borrowed for gpu in job.held)
        if job.state in {"starting", "running"}:
            check_held(job, states[0])
        elif job.state == "pausing":
            assert f"{len(job.held)} GPU" in states[0]
        elif job.state in WAITING and not job.held_by_user:
            assert "Running" not in reason.text
            check_project(projects, reason)
            if job.place != 1:
                assert "could start if" not in reason.text
    assert borrowed == {name: project.borrowed for name, project in projects.items()}


def check_held(job: wire.Job, text: str) -> None:
    verb = {"starting": "Starting", "running": "Running"}[job.state]
    mine = sum(not gpu.borrowed for gpu in job.held)
    theirs = len(job.held) - mine
    if mine and theirs:
        assert text.startswith(f"{verb} on {len(job.held)} GPUs: {mine} within the quota, {theirs} borrowed.")
    else:
        assert re.match(rf"{verb} on {len(job.held)} GPUs?, .*\b{'borrowed' if theirs else 'within'}\b", text)


def check_project(projects: dict[str, wire.ProjectView], reason: wire.Reason) -> None:
    for name, held in re.findall(r"The project (\w+) holds (?:its )?(none|\d+)", reason.text):
        assert projects[name].held == (0 if held == "none" else int(held)), reason


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_sentences_of_all_jobs_agree_with_the_pool(pool, seed):
    draw = random.Random(seed)
    ids: list[str] = []
    seen: set[str] = set()
    for turn in range(40):
        if turn % 3 != 2:
            gpus, workers = draw.choice([(1, 1), (1, 1), (2, 1), (4, 1), (2, 2), (1, 4), (8, 1)])
            job = await pool.submit(
                draw.choice(USERS),
                name=f"job {turn}",
                gpus=gpus,
                workers=workers,
                min_workers=draw.randint(1, workers),
                priority=draw.choice([50, 50, 75, 100] if gpus * workers < 3 else [50, 75]),
            )
            ids.append(job.id)
        else:
            live = [job.id for job in await unfinished(pool, ids) if job.state == "running"]
            if live:
                pool.executor.end(pool.key(draw.choice(live)), code=draw.choice([0, 0, 75, 1]))
        await pool.later(draw.choice([0.5, 30.0, 400.0]))
        jobs = await unfinished(pool, ids)
        check(pool, jobs)
        seen |= {job.state for job in jobs}
    assert {"queued", "running", "paused"} <= seen


async def test_an_elastic_job_tells_what_it_holds_after_it_has_grown(pool):
    job = await pool.submit("susan", gpus=1, workers=8, min_workers=2)
    told = await pool.state(job.id, "running")
    assert len(told.held) == 8
    assert told.reason.sentences[0].text == "Running on 8 GPUs: 2 within the quota, 6 borrowed."
    assert told.attempts[0].why.text == (
        "Enough GPUs were idle, so it started on 8 GPUs: 2 within the quota, 6 borrowed."
    )


async def test_a_job_that_was_looked_at_tells_what_lets_it_start_until_anything_changes(pool):
    runs = await pool.submit("jemma", gpus=8, name="sweep lr=0.017", priority=75)
    waiting = []
    for number in range(20):
        await pool.later(1.0)
        waiting.append(await pool.submit("jemma", gpus=8, name=f"sweep {number}"))
    await pool.idle()
    before = await pool.job(waiting[0].id)
    assert before.starts_if is None
    assert "could start" not in before.reason.text
    assert before.reason.text.endswith("Next in line of “jemma”.")

    await pool.engine.request_starts([await pool.job(waiting[at].id) for at in (0, -1)], LOOKED_AT)

    first, last = [await pool.job(waiting[at].id) for at in (0, -1)]
    assert "It could start if the job “sweep lr=0.017” of “jemma” ended." in first.reason.text
    assert first.starts_if[0].remove_jobs == [runs.id]
    assert "Number 20 in line, after 19 jobs of “jemma”." in last.reason.text
    assert "sweep lr" not in last.reason.text

    await pool.submit("joe", gpus=2)
    await pool.idle()
    assert "sweep lr" not in (await pool.job(waiting[0].id)).reason.text


async def test_a_limit_lowered_below_a_job_never_lets_it_start_until_it_is_removed(pool, members):
    job = await pool.submit("susan", gpus=8)
    await pool.state(job.id, "running")
    waits = await pool.submit("susan", gpus=4)
    await pool.engine.edit_project("susan", wire.ProjectEdit(limit=2), "admin", members=members)
    await pool.idle()
    reason = (await pool.job(waits.id)).reason
    assert reason.text == (
        "The project “susan” may hold at most 2 GPUs, and the job needs 4. With this limit it can never start."
    )
    await pool.engine.edit_project("susan", wire.ProjectEdit(limit=None), "admin", members=members)
    await pool.idle()
    assert "limit" not in (await pool.job(waits.id)).reason.text
    assert "limit" not in (await pool.job(job.id)).reason.text


async def test_a_limit_that_paused_a_job_is_told_as_past_once_it_is_removed(pool, members):
    job = await pool.submit("susan", gpus=8)
    await pool.state(job.id, "running")
    await pool.engine.edit_project("susan", wire.ProjectEdit(limit=4), "admin", members=members)
    await pool.state(job.id, "paused")
    other = await pool.submit("joe", gpus=2)
    await pool.state(other.id, "running")
    assert "may hold at most 4 GPUs" in (await pool.job(job.id)).reason.text
    await pool.engine.edit_project("susan", wire.ProjectEdit(limit=None), "admin", members=members)
    await pool.idle()
    paused = await pool.job(job.id)
    assert paused.state == "paused"
    assert paused.reason.text.startswith("The limit of the project “susan” was lowered to 4 GPUs, and it held 8. ")
    assert paused.reason.text.count("limit") == 1


async def test_what_happens_next_is_not_called_a_failure_when_the_job_asked_to_be_run_again(pool):
    job = await pool.submit("susan", gpus=1)
    await pool.state(job.id, "running")
    pool.executor.end(pool.key(job.id), code=75)
    again = await pool.state(job.id, "paused")
    assert "fail" not in again.reason.text
    assert [sentence.role for sentence in again.reason.sentences] == ["cause", "next", "next"]
    assert again.reason.text.endswith("It can run again in 1 s.")


async def test_a_job_that_could_not_be_started_at_first_says_nothing_of_it_once_it_runs(pool):
    pool.executor.launch_errors = 1
    job = await pool.submit("susan", gpus=1)
    running = await pool.state(job.id, "running")
    assert running.reason.sentences[0].text == "Running on 1 GPU, within the quota."


async def test_a_headline_names_the_job_that_was_made_way_for_until_that_has_ended(pool):
    made_way = await pool.submit("susan", gpus=8, name="made way")
    await pool.state(made_way.id, "running")
    await pool.later(LOOKED_AT * 60)
    bert = await pool.submit("susan", gpus=8, priority=75, name="bert")
    follows = await pool.submit("susan", gpus=8, priority=75, name="follows")
    await pool.state(bert.id, "running")
    reason = (await pool.job(made_way.id)).reason
    assert reason.headline.startswith("Paused for “bert”")

    pool.executor.end(pool.key(bert.id), code=0)
    await pool.state(follows.id, "running")
    reason = (await pool.job(made_way.id)).reason
    assert reason.headline.startswith("Waiting for 8 GPUs: none is free.")
    assert "It made way for the job “bert” of “susan”" in reason.text
