"""Estimates before the submission of a job come true after it."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler import wire


@pytest.fixture
def expect(pool, members):
    """The estimate of a job of joe's, who sees the names of his own jobs only."""

    async def expected(*, sees=lambda user, _project: user == "joe", **options: Any):
        question = wire.WhatIf(job=wire.Wish(**options), starts=[], smaller=True)
        return (await pool.engine.forecast(question, "joe", "joe", sees=sees, members=members)).estimate

    return expected


async def test_now_is_said_with_what_is_borrowed_and_the_job_then_starts_like_this(pool, expect):
    told = await expect(gpus=4)
    assert told.code == "estimate-now"
    assert told.text == (
        "It would start now on 4 GPUs: 2 within the quota, 2 borrowed."
        " When the borrowed GPUs are asked back, the job is paused; it runs again by itself."
    )
    job = await pool.submit("joe", gpus=4)
    running = await pool.state(job.id, "running")
    assert sum(gpu.borrowed for gpu in running.held) == told.params["borrowed"] == 2


async def test_a_job_that_is_never_paused_borrows_nothing(expect):
    told = await expect(gpus=2, preemptible=False)
    assert told.text == "It would start now on 2 GPUs, all within the quota."


async def test_who_is_paused_is_named_and_now_is_not_said(pool, expect):
    borrower = await pool.submit("susan", gpus=8, name="secret")
    await pool.state(borrower.id, "running")

    told = await expect(gpus=2)
    seen = await expect(gpus=2, sees=lambda _user, _project: True)

    assert told.code == "estimate-room"
    assert "as soon as other jobs have made room" in told.text
    assert "For it, 1 job with 8 GPUs would be paused and resumed later: a job of “susan”." in told.text
    assert "“secret” of “susan”" in seen.text
    job = await pool.submit("joe", gpus=2)
    await pool.until(lambda: paused(pool, borrower.id))
    assert (await pool.job(job.id)).state == "queued"


async def paused(pool, job_id):
    return (await pool.job(job_id)).state == "pausing"


async def test_while_a_job_is_still_pausing_its_gpus_are_not_said_to_be_free(pool, expect):
    borrower = await pool.submit("susan", gpus=8)
    await pool.state(borrower.id, "running")
    await pool.submit("jemma", gpus=2)
    await pool.state(borrower.id, "pausing")
    told = await expect(gpus=2)
    assert told.text == "It would start on 2 GPUs, all within the quota, as soon as other jobs have made room."


async def test_a_wait_is_told_with_the_smaller_job_that_would_start_now(pool, expect):
    first = await pool.submit("susan", gpus=6, time_limit=1000.0, preemptible=True, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("joe", gpus=1, time_limit=1000.0)
    await pool.state(second.id, "running")

    told = await expect(gpus=8)

    assert told.code == "estimate-later"
    assert told.text.startswith("It would likely start in about ")
    assert told.text.endswith(" With 1 GPU it would start now.")
    job = await pool.submit("joe", gpus=1)
    await pool.state(job.id, "running")


async def test_no_smaller_job_is_offered_that_would_not_start_now(pool, expect):
    for user, gpus in (("joe", 2), ("susan", 6)):
        job = await pool.submit(user, gpus=gpus, time_limit=1000.0, rotate=False)
        await pool.state(job.id, "running")
    told = await expect(gpus=4)
    assert told.code == "estimate-later"
    assert "With" not in told.text


async def test_workers_are_what_a_gang_would_have_fewer_of(pool, expect):
    first = await pool.submit("susan", gpus=2, workers=2, time_limit=1000.0, rotate=False)
    await pool.state(first.id, "running")
    second = await pool.submit("joe", gpus=2, workers=1, time_limit=1000.0)
    await pool.state(second.id, "running")
    told = await expect(gpus=1, workers=8)
    assert told.text.endswith(" With 2 workers with 1 GPU each it would start now.")


async def test_an_elastic_job_tells_with_how_many_workers_it_begins(pool, expect):
    first = await pool.submit("susan", gpus=4, time_limit=1000.0)
    await pool.state(first.id, "running")
    told = await expect(gpus=1, workers=8, min_workers=2)
    assert told.code == "estimate-now"
    assert "It would begin with 4 of 8 workers and grow when GPUs are free." in told.text
