"""What a SpringtideJob's status says of its job."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml
from jobs.job_options import with_options

from springtide.hub_extension.train_jobs import status
from springtide.hub_extension.train_jobs.owner import Owner
from springtide.scheduler import wire
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal

CRD = Path(__file__).parents[3] / "helm/springtide/crds/springtidejob.yaml"
OWNER = Owner("team-a", "vision", "susan")
NOON = 1_700_000_000.0
SCHEMA = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
    "status"
]


def job(state, **more: object) -> wire.Job:
    known = {
        "id": "j1",
        "name": "digits",
        "kind": "command",
        "user": "susan",
        "project": "vision",
        "state": state,
        "priority": 50,
        "preemptible": True,
        "workers": 2,
        "gpus": 1,
        "min_workers": 2,
        "submitted": NOON,
        "argv": ["true"],
        "reason": wire.Reason(code="x", text="Because of it."),
    }
    return with_options(wire.Job, **{**known, **more})


def conditions(found):
    return {one["type"]: (one["status"], one["reason"]) for one in found["conditions"]}


@pytest.mark.parametrize("state", list(JobState))
def test_every_state_of_a_job_shows_in_the_conditions_and_fits_the_schema(state):
    held = [wire.GpuRef(node="n", index=i, uuid=str(i), label=f"n {i}") for i in range(2 * state.holds_gpus)]
    found = status.timed(status.of_job(job(state.value, held=held, attempt=3), 1), {}, NOON)
    assert (found["state"], found["gpus"], found["attempt"], found["jobId"]) == (state, len(held), 3, "j1")
    told = conditions(found)
    assert told["Accepted"] == ("True", "Accepted")
    runs = state in {JobState.RUNNING, JobState.PAUSING}
    assert told["Running"] == (str(runs), state.title())
    assert told.get("NodesReady") == (("True", "NodesReady") if state.holds_gpus else None)
    assert told["Finished"] == (str(state.final), state.title())
    assert told["Succeeded"][0] == (str(state is JobState.SUCCEEDED) if state.final else "Unknown")
    assert status.finished(found) is state.final
    jsonschema.validate({key: value for key, value in found.items() if value is not None}, SCHEMA)


def test_a_refusal_shows_field_words_and_way_out():
    refusal = Refusal(422, "unknown_field", "There is no field gpu.", field="spec.gpu", hint="Did you mean gpus?")
    found = status.timed(status.of_refusal(refusal, 1, OWNER), {}, NOON)
    assert (found["state"], found["project"]) == ("refused", "vision")
    assert found["reason"] == "spec.gpu: There is no field gpu. Did you mean gpus?"
    assert conditions(found)["Accepted"] == ("False", "UnknownField")
    assert not status.finished(found)
    assert status.finished_at(found) == NOON
    jsonschema.validate({key: value for key, value in found.items() if value is not None}, SCHEMA)


def test_one_too_many_is_pending_rather_than_refused():
    refusal = Refusal(429, "too_many_jobs", "susan has 5 unfinished jobs.")
    assert status.of_refusal(refusal, 1, OWNER)["state"] == "pending"


def test_a_condition_keeps_its_time_until_it_turns():
    queued = status.timed(status.of_job(job("queued"), 1), {}, NOON)
    paused = status.timed(status.of_job(job("paused"), 1), queued, NOON + 60)
    running = status.timed(status.of_job(job("running"), 1), paused, NOON + 120)
    times = [
        {one["type"]: one["lastTransitionTime"] for one in s["conditions"]} for s in (queued, paused, running)
    ]
    assert times[0] == times[1]
    assert times[2]["Accepted"] == times[0]["Accepted"]
    assert times[2]["Running"] > times[0]["Running"]


def test_only_other_words_are_told_from_other_facts():
    before = status.timed(status.of_job(job("queued"), 1), {}, NOON)
    again = status.of_job(job("queued"), 1)
    reworded = status.of_job(job("queued", reason=wire.Reason(code="x", text="Another reason.")), 1)
    running = status.of_job(job("running"), 1)
    assert status.same(again, before)
    assert not status.same(reworded, before)
    assert status.same_but_words(reworded, before)
    assert not status.same_but_words(running, before)


def test_what_happens_later_has_its_moment_as_nobody_counts_on_in_a_status():
    why = wire.Reason(
        code="back-off",
        text="It can run again in 2 s.",
        headline="Runs again in 2 s.",
        params={"seconds": 2, "until": NOON + 2},
    )
    found = status.of_job(job("queued", reason=why), 1)
    assert found["reason"] == "It can run again at 2023-11-14 22:13:22 UTC."
    assert found["headline"] == "Runs again at 2023-11-14 22:13:22 UTC."


def test_what_a_terminal_would_obey_is_shown_as_text():
    hostile = "\x1b[31mred\x1b]8;;http://evil\x07 \u202ereversed\nnext"
    found = status.of_job(job("failed", error=hostile), 1)
    texts = [found["reason"], *(one["message"] for one in found["conditions"])]
    assert all(text.isprintable() for text in texts)
    assert "reversed" in found["reason"]


def test_endless_words_are_cut():
    found = status.of_job(job("failed", error="x" * 100_000), 1)
    assert len(found["reason"]) == status.LONGEST_REASON
    assert all(len(one["message"]) <= status.LONGEST_MESSAGE for one in found["conditions"])


def test_a_job_that_the_pool_lost_is_not_run_again():
    before = status.timed(status.of_job(job("running"), 1), {}, NOON)
    found = status.timed(status.of_forgotten(before, 1), before, NOON)
    assert (found["state"], found["jobId"]) == ("forgotten", "j1")
    assert status.finished(found)
    assert "create it again" in found["reason"]
