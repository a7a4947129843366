"""Which events of a SpringtideJob follow from a change of its job."""

from __future__ import annotations

from typing import Any

from jobs.job_options import with_options
from msgspec import structs

from springtide.hub_extension.train_jobs import happenings, status
from springtide.hub_extension.train_jobs.happenings import LONGEST_TEXT
from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal

NOON = 1_700_000_000.0
ACCEPTED = "The pool accepted it as job j1 of project vision."


def reason(*sentences: tuple[str, str]) -> wire.Reason:
    found = [wire.Sentence(role=role, text=text) for role, text in sentences]
    return wire.Reason(code="x", text=" ".join(each.text for each in found), sentences=found)


def attempt(number: int, state: str, **more: Any) -> wire.Attempt:
    known = {"workers": 1, "gpus": [], "created": NOON, "why": reason(("cause", "It started on 1 GPU."))}
    return wire.Attempt(number=number, state=state, **{**known, **more})


def job(state: str, *attempts: wire.Attempt, **more: Any) -> wire.Job:
    known = {
        "id": "j1",
        "name": "digits",
        "kind": "command",
        "user": "susan",
        "project": "vision",
        "state": state,
        "submitted": NOON,
        "argv": ["true"],
        "attempts": list(attempts),
        "attempt": attempts[-1].number if attempts else 0,
        "started": next((each.started for each in attempts if each.started is not None), None),
        "reason": reason(("state", "As it is."), ("next", "What comes.")),
    }
    return with_options(wire.Job, **{**known, **more})


def shown(found: wire.Job) -> dict[str, Any]:
    """The status that the cluster has of a job."""
    return {key: value for key, value in status.of_job(found, 1).items() if value is not None}


def said(before: dict[str, Any], after: wire.Job) -> list[tuple[str, str, bool]]:
    return [(each.reason, each.text, each.warning) for each in happenings.of_job(before, after)]


def test_a_job_that_is_accepted_is_queued_and_says_why_it_waits():
    assert said({}, job("queued")) == [("Queued", f"{ACCEPTED} As it is.", False)]
    assert said(shown(job("queued")), job("queued")) == []


def test_a_start_that_something_else_refuses_is_a_warning_in_its_words():
    why = reason(
        ("cause", "It could not be started, and not for a reason in the job."),
        ("detail", "The image of the job cannot be pulled: no route to host."),
        ("next", "It is tried again by itself, ever less often."),
    )
    blocked = attempt(1, "blocked", ended=NOON + 60, ended_why=why)
    words = " ".join(each.text for each in why.sentences[:2])
    assert said(shown(job("starting", attempt(1, "starting"))), job("queued", blocked)) == [
        ("Blocked", words, True)
    ]
    assert said(shown(job("queued", blocked)), job("queued", blocked)) == []


def test_a_job_that_is_being_cancelled_does_not_pause():
    running = attempt(1, "running", started=NOON)
    ends = attempt(1, "pausing", shown="cancelling", started=NOON)
    cancelling = job("pausing", ends, shown="cancelling", reason=reason(("cause", "Susan cancelled it.")))
    assert shown(cancelling)["state"] == "cancelling"
    assert {each["type"]: each["reason"] for each in shown(cancelling)["conditions"]}["Running"] == "Cancelling"
    assert said(shown(job("running", running)), cancelling) == [("Cancelling", "Susan cancelled it.", False)]
    assert said(shown(cancelling), cancelling) == []
    paused = job("pausing", attempt(1, "pausing", started=NOON))
    assert said(shown(paused), cancelling) == [("Cancelling", "Susan cancelled it.", False)]
    over = job("cancelled", attempt(1, "cancelled", started=NOON, ended=NOON + 9))
    assert [name for name, _, _ in said(shown(cancelling), over)] == ["Cancelled"]


def test_a_pause_says_for_whom_and_the_resumption_is_no_first_start():
    running = attempt(1, "running", started=NOON)
    pausing = job(
        "pausing", attempt(1, "pausing", started=NOON), reason=reason(("cause", "It made way for bert."))
    )
    assert said(shown(job("running", running)), pausing) == [("Pausing", "It made way for bert.", False)]
    ended = attempt(
        1, "paused", started=NOON, ended=NOON + 9, ended_why=reason(("cause", "It made way for bert."))
    )
    assert said(shown(pausing), job("queued", ended)) == [("Paused", "It made way for bert.", False)]
    again = attempt(2, "running", started=NOON + 20)
    assert said(shown(job("queued", ended)), job("running", ended, again)) == [
        ("Scheduled", "It started on 1 GPU.", False),
        ("Resumed", "As it is.", False),
    ]


def test_a_node_that_is_not_ready_is_a_warning_once_and_its_return_is_told():
    running = attempt(1, "running", started=NOON)
    words = "The node dgx-1 has not been ready since 2026-11-26 12:03 UTC: what the job does there is unknown."
    silent = job(
        "running",
        running,
        reason=structs.replace(reason(("state", words)), params={"node_code": "node-not-ready"}),
    )
    before = shown(job("running", running))
    assert said(before, silent) == [("NodeNotReady", words, True)]
    assert said(shown(silent), silent) == []
    (condition,) = [each for each in shown(silent)["conditions"] if each["type"] == "NodesReady"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "NodeNotReady", words)
    assert said(shown(silent), job("running", running)) == [("NodeReady", "Its nodes are ready again.", False)]
    lost = attempt(1, "lost", started=NOON, ended=NOON + 9, ended_why=reason(("cause", "Its node was removed.")))
    assert said(shown(silent), job("queued", lost)) == [("Lost", "Its node was removed.", True)]


def test_what_was_missed_is_told_in_its_order():
    lost = attempt(1, "lost", started=NOON, ended=NOON + 9, ended_why=reason(("cause", "Its node was removed.")))
    last = attempt(2, "failed", started=NOON + 10, ended=NOON + 20)
    found = said({}, job("failed", lost, last, error="ValueError: no data."))
    assert [each[0] for each in found] == [
        "Queued",
        "Scheduled",
        "Started",
        "Lost",
        "Scheduled",
        "Resumed",
        "Failed",
    ]
    assert found[-1] == ("Failed", "ValueError: no data.", True)


def test_a_pause_and_a_resumption_while_it_waits_are_told():
    paused = job("paused", reason=reason(("cause", "It was paused by susan.")))
    assert said(shown(job("queued")), paused) == [("Paused", "It was paused by susan.", False)]
    assert said(shown(paused), job("queued")) == [("Queued", "As it is.", False)]


def test_after_the_end_nothing_is_told():
    ended = job("succeeded", attempt(1, "succeeded", started=NOON, ended=NOON + 9))
    assert said(shown(ended), ended) == []


def test_the_same_refusal_is_told_once():
    refusal = Refusal(422, "invalid", "Too many GPUs.", field="spec.gpus", hint="Ask for fewer.")
    after = status.of_refusal(refusal, 1, None)
    assert [each.text for each in happenings.of_refusal({}, after, refusal)] == [
        "spec.gpus: Too many GPUs. Ask for fewer."
    ]
    assert happenings.of_refusal(after, after, refusal) == []


def test_hostile_and_endless_words_are_text_of_bounded_length():
    (found,) = happenings.of_job(shown(job("queued")), job("failed", error="\x1b[31m" + "x" * 10_000))
    assert found.text.isprintable()
    assert len(found.text) == LONGEST_TEXT
