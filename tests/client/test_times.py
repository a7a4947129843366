"""When a job is expected to start, in words."""

from __future__ import annotations

import msgspec
import pytest

from springtide.scheduler import model, sentences
from springtide.scheduler.client.descriptions import expectation, lasting, prospect, reason_at
from springtide.scheduler.wire import Forecast, Reason, Sentence, Starts

NOW = 1000.0


def starts(earliest=None, likely=None, latest=None, why=None):
    times = (None if seconds is None else NOW + seconds for seconds in (earliest, likely, latest))
    earliest, likely, latest = times
    reason = None if why is None else Reason(code="x", text=why)
    return Starts(earliest=earliest, likely=likely, latest=latest, why=reason, at=NOW)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (starts(300, 720, 2400), "Likely starts in about 12 min (between 5 and 40 min)."),
        (starts(300, 720, 7500), "Likely starts in about 12 min (between 5 min and 2 h 5 min)."),
        (starts(0, 720, 2400), "Likely starts in about 12 min (within 40 min)."),
        (starts(300, 720), "Likely starts in about 12 min (in 5 min at the earliest)."),
        (starts(0, 720), "Likely starts in about 12 min (now at the earliest)."),
        (starts(720, 720, 720), "Likely starts in about 12 min."),
        (starts(0, 0, 0), "Likely starts any moment."),
        (starts(-50, -20, 600), "Likely starts any moment (within 10 min)."),
        (starts(-300, -180), "It was expected to start 3 min ago."),
        (starts(why="Too many jobs are before it."), "Too many jobs are before it."),
        (starts(), ""),
    ],
)
def test_an_expectation_is_a_sentence(found, said):
    assert expectation(found, NOW) == said


def test_what_was_paused_resumes():
    assert expectation(starts(60, 60, 60), NOW, "resumes") == "Likely resumes in about 1 min."


def test_of_a_sweep_that_has_started_the_next_trial_starts():
    who = "The next trial"
    assert expectation(starts(60, 60, 60), NOW, who=who) == "The next trial likely starts in about 1 min."
    assert expectation(starts(-300, -180), NOW, who=who) == "The next trial was expected to start 3 min ago."


def test_a_prospect_is_the_estimate_of_the_pool():
    told = Forecast(at=NOW, until=NOW, job=starts(0, 0, 0), starts={}, projects={}, shifts=[])
    assert not prospect(told)
    said = Reason(code="estimate-now", text="It would start now on 1 GPU, within the quota.")
    assert prospect(msgspec.structs.replace(told, estimate=said)) == said.text


def test_the_times_of_a_reason_count_on_until_it_is_read():
    said = "Running jobs can be paused for it in 21 s."
    params = {"seconds": 21, "until": NOW + 21}
    made = Reason(code="x", text=said, sentences=[Sentence(role="next", text=said)], params=params)
    read = reason_at(made, NOW + 3)
    assert read.text == read.sentences[0].text == "Running jobs can be paused for it in 18 s."
    assert reason_at(made, NOW) == made
    assert reason_at(Reason(code="x", text=said), NOW + 3).text == said


COUNTED: dict[str, dict[str, str | int | float | tuple[str, ...]]] = {
    "back-off": {},
    "too-soon": {"gpus": 1, "workers": 1, "project": "vision", "place": 1},
    "awaits-pause": {"gpus": 2},
    "node-closes-first": {"nodes": ("n1",), "first": "n1", "lasts": 7200, "known": 1, "needs": 60},
    "stopping": {"gpus": 1},
    "running": {"gpus": 1, "nodes": ("n1",), "awaits_room": 1},
}
AGO: dict[str, dict[str, str | int | float | tuple[str, ...]]] = {
    "awaits-node": {"gpus": 1, "workers": 1, "group": "h100", "asked": 1, "present": 0, "most": 2}
}


def reason_of(code: str, seconds: int, **more: float) -> Reason:
    """A reason made ``seconds`` before the moment that it names."""
    params = {**(COUNTED | AGO)[code], "seconds": seconds, **more}
    why = model.Reason(code, params)
    said = [Sentence(role=each.role.value, text=each.text) for each in sentences.render(why)]
    line, text = sentences.headline(why), sentences.text(why)
    return Reason(code=code, text=text, headline=line, sentences=said, params=params)


@pytest.mark.parametrize("code", COUNTED)
def test_every_time_that_passes_in_a_reason_counts_on(code):
    made = reason_of(code, 90, until=NOW + 90)
    assert "in 1 min" in made.text
    read, later = reason_at(made, NOW + 50), reason_of(code, 40)
    assert (read.text, read.headline) == (later.text, later.headline)


@pytest.mark.parametrize("code", COUNTED)
def test_where_nobody_counts_on_a_reason_names_the_moment(code):
    early, late = (lasting(reason_of(code, seconds, until=NOW + 90)) for seconds in (90, 40))
    assert (early.text, early.headline, early.sentences) == (late.text, late.headline, late.sentences)
    assert "at 1970-01-01 00:18:10 UTC" in early.text


def test_where_nobody_counts_on_what_has_passed_has_its_moment_too():
    just, later = (lasting(reason_of("awaits-node", seconds, since=NOW)) for seconds in (0, 40))
    assert just.text == later.text
    assert "requested at 1970-01-01 00:16:40 UTC" in just.text
