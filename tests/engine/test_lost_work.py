"""A job that has saved nothing says how much work a pause would lose, before, during and after the pause."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler import sentences
from springtide.scheduler.client.descriptions import start_verb
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.views.job_view import next_loss

START = "No checkpoint of it has been seen yet"
HINT = "Have it save checkpoints"


async def test_a_job_that_has_saved_nothing_says_what_a_pause_would_lose(pool: Any) -> None:
    job = await pool.submit("susan", gpus=1)
    early = (await pool.state(job.id, "running")).reason.text
    assert START in early
    assert "would be lost" not in early
    await pool.later(1300)
    late = (await pool.job(job.id)).reason.text
    assert START in late
    assert "More than 20 min of work would be lost." in late
    assert HINT in late
    pool.executor.report(pool.key(job.id), step=3, saved=True)
    await pool.idle()
    assert START not in (await pool.job(job.id)).reason.text


@pytest.mark.parametrize(("ran", "loss"), [(0, 300), (299, 300), (300, 600), (1300, 2400)])
def test_greater_losses_are_mentioned_ever_less_often(ran: float, loss: float) -> None:
    assert next_loss(ran) == loss


def test_a_pause_says_that_the_job_saves_only_if_it_does() -> None:
    def said(**about: Any) -> str:
        return sentences.joined(sentences.render(messages.pausing(2, **about)))

    assert said(saved=True) == "Saving its work, then giving its 2 GPUs back."
    assert said(saved=True, found="last.ckpt") == (
        "Stopping for a pause, then giving its 2 GPUs back. Its newest checkpoint is “last.ckpt”."
    )
    assert "No checkpoint is known so far" in said(saved=False)


async def interrupted(pool: Any, **saved: Any) -> Any:
    """Return a borrowing job that ran for 100 s, and was paused for the owner of its GPUs."""
    pool.executor.pause_exit = 1
    job = await pool.submit("susan", gpus=8)
    await pool.state(job.id, "running")
    if saved:
        pool.executor.report(pool.key(job.id), saved=True, **saved)
    await pool.later(100.0)
    owner = await pool.submit("joe", gpus=2)
    await pool.state(owner.id, "running")
    return await pool.state(job.id, "paused"), pool.key(owner.id)


async def test_a_pause_without_a_checkpoint_says_on_every_line_that_the_job_starts_over(pool: Any) -> None:
    paused, owner = await interrupted(pool)
    assert paused.from_start
    assert "No checkpoint: 1 min 40 s of work lost." in paused.reason.headline
    assert start_verb(paused) == "starts again from the beginning"
    assert "resume" not in paused.reason.text
    pool.executor.end(owner, code=0)
    await pool.later(100.0)
    again = await pool.state(paused.id, "running", attempt=2)
    assert again.from_start
    assert [each.from_start for each in again.attempts] == [False, True]
    assert "1 min 40 s of work was lost" in again.attempts[0].ended_why.text
    assert "starts again" not in again.attempts[0].ended_why.text, "what followed has happened"


async def test_a_pause_with_a_checkpoint_resumes(pool: Any) -> None:
    paused, owner = await interrupted(pool, step=41)
    assert not paused.from_start
    assert "No checkpoint" not in paused.reason.headline
    assert start_verb(paused) == "resumes"
    pool.executor.end(owner, code=0)
    await pool.later(100.0)
    again = await pool.state(paused.id, "running", attempt=2)
    assert [each.from_start for each in again.attempts] == [False, False]
