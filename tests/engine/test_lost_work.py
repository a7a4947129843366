"""A job that has saved nothing says how much work a pause would lose, before, during and after the pause."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler import sentences
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
