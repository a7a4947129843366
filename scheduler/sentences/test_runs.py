"""Test runs: their course, and the consequences for their jobs."""

from __future__ import annotations

from springtide.scheduler.sentences.decisions import quoted_name
from springtide.scheduler.sentences.sentence import (
    Params,
    Sentences,
    Table,
    cause,
    change,
    detail,
    follows,
    real,
    state,
)
from springtide.scheduler.wording import duration


def test_run_text(stage: str, ran: float) -> str:
    """Return ``Test run: passed in 40 s.`` for a stage and the test run's run time in seconds."""
    texts = {
        "waiting": "waits for a GPU",
        "running": "runs on 1 GPU",
        "passed": f"passed in {duration(ran)}",
        "failed": f"failed after {duration(ran)}",
    }
    return f"Test run: {texts.get(stage, stage)}."


def _first(p: Params) -> Sentences:
    now = "is in progress" if p.get("stage") == "running" else "waits for 1 GPU"
    yield state(f"Its test run {now}.")
    yield follows("If it passes, the job joins the queue.")


def _long_enough(p: Params) -> Sentences:
    yield cause(f"It ran for {duration(real(p, 'seconds'))} without a failure, as long as a test run does.")


def _failed(p: Params) -> Sentences:
    yield cause("Its test run failed, so it was not put in line.")
    yield from detail(p)
    yield change("The log of the test run says why. Repair that, and submit the job again.")


def _cancelled(p: Params) -> Sentences:
    yield cause(f"Its test run was cancelled by {quoted_name(p, 'by')}, so it was not put in line.")


TEST_RUNS: Table = {
    "test-run-first": _first,
    "test-run-long-enough": _long_enough,
    "test-run-failed": _failed,
    "test-run-cancelled": _cancelled,
}
