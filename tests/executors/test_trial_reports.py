"""The reports of a trial, and its history of earlier trials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from springtide.scheduler import metrics
from springtide.scheduler.executors.base import HISTORY, AttemptKey, ExecutorError, Reported, TrialReport
from springtide.scheduler.executors.files import reports
from springtide.scheduler.executors.files.layout import JobPlaces, make_places
from springtide.scheduler.executors.files.tail import Tail


def parsed(trial: object) -> TrialReport | None:
    line = json.dumps({"at": 1.0, "attempt": 1, "trial": trial}).encode()
    report = reports.parse(line, 1, 1, 2.0)
    assert report is not None
    return report.trial


def test_a_trial_reports_its_parameters_its_value_and_its_course() -> None:
    told = {
        "parameters": {"lr": 0.1, "net": "a", "deep": True, "n": 3, "none": None},
        "value": 0.5,
        "pruned": True,
    }
    assert parsed({**told, "curve": [[1, 2.5], [2, 1.5]]}) == TrialReport(
        told["parameters"],  # type: ignore[arg-type]
        0.5,
        ((1.0, 2.5), (2.0, 1.5)),
        pruned=True,
    )


def test_names_with_half_of_a_character_are_left_out() -> None:
    line = json.dumps({"step": 1, "values": {"\ud800": 2.0, "loss": 1.0}, "trial": {"parameters": {"\udfff": 1}}})
    report = reports.parse(line.encode(), 1, 1, 2.0)
    assert report is not None
    assert report.values == {"loss": 1.0}
    assert report.trial == TrialReport({})


@pytest.mark.parametrize(
    ("hostile", "kept"),
    [
        ("text", None),
        ([], None),
        ({}, TrialReport()),
        ({"parameters": [1], "value": "1", "curve": 7, "pruned": 1}, TrialReport()),
        ({"value": 10**400}, TrialReport()),
        (
            {"parameters": {"": 1, "a": [1], "b": {"c": 1}, "d": 10**30, "e": "x" * 2000}},
            TrialReport(parameters={}),
        ),
        ({"parameters": {"lone": "\ud800"}}, TrialReport(parameters={})),
        ({"memo": "for later trials"}, TrialReport(memo="for later trials")),
        ({"memo": "\ud800"}, TrialReport()),
        ({"memo": {"a": 1}}, TrialReport()),
        ({"curve": [[1], [1, 2, 3], ["a", 1], [True, 1], [1, None], [3, 4]]}, TrialReport(curve=((3.0, 4.0),))),
    ],
)
def test_what_is_not_valid_is_left_out(hostile: object, kept: TrialReport | None) -> None:
    assert parsed(hostile) == kept


def test_a_long_course_and_many_parameters_are_cut() -> None:
    told = parsed({"curve": [[n, n] for n in range(500)], "parameters": {f"p{n}": n for n in range(500)}})
    assert told is not None
    assert told.parameters is not None
    assert (len(told.curve), len(told.parameters)) == (100, 64)


@pytest.mark.parametrize("number", [315, 1024, 1025])
def test_all_metrics_of_a_line_are_read_and_the_first_1024_followed(tmp_path: Path, number: int) -> None:
    names = [f"layer{place}/weights/gradient norm of the whole run" for place in range(number)]
    line = {"at": 1.0, "attempt": 1, "step": 1, "values": dict.fromkeys(names, 2.5)}
    (tmp_path / "reports").write_text(json.dumps(line) + "\n")
    (report,) = reports.read(tmp_path / "reports", 0, 10, 1, 2.0).reports
    assert list(report.values) == names
    assert list(metrics.latest({}, report.values)) == names[:1024]
    assert list(metrics.with_values({}, report.values, 1)) == names[:1024]


def test_a_line_beyond_the_limit_is_counted_as_a_report_that_was_left_out(tmp_path: Path) -> None:
    values = {f"{place:0128}": 1.5 for place in range(3000)}
    lines = [json.dumps({"step": step, "values": each}) for step, each in ((1, values), (2, {"loss": 0.5}))]
    (tmp_path / "reports").write_text("".join(f"{line}\n" for line in lines))
    first, second = reports.read(tmp_path / "reports", 0, 10, 1, 2.0).reports
    assert (first.values, first.left_out, second.values) == ({}, 1, {"loss": 0.5})


def test_the_newest_report_of_a_trial_is_told_also_with_later_reports_of_others(tmp_path: Path) -> None:
    lines = [
        {"attempt": 1, "trial": {"value": 1.0}},
        {"attempt": 1, "trial": {"value": 2.0}},
        {"attempt": 1, "step": 3},
    ]
    places = JobPlaces(tmp_path)
    places.reports.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (observed,), _ = Tail(AttemptKey("a", 1), tmp_path, places, ()).read_new(5.0)
    assert observed.trial == TrialReport(value=2.0)


def test_a_message_of_a_trial_hides_no_step_and_no_value_that_came_just_before_it(tmp_path: Path) -> None:
    lines = [
        {"attempt": 1, "step": 2, "of": 9, "values": {"loss": 0.5, "rate": 0.1}},
        {"attempt": 1, "step": 3, "values": {"loss": 0.4}},
        {"attempt": 1, "trial": {"value": 0.4}},
    ]
    places = JobPlaces(tmp_path)
    places.reports.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (observed,), _ = Tail(AttemptKey("a", 1), tmp_path, places, ()).read_new(5.0)
    assert isinstance(observed, Reported)
    assert (observed.last.step, observed.last.of) == (3.0, 9.0)
    assert observed.last.values == {"loss": 0.4, "rate": 0.1}


def test_the_earlier_trials_are_another_file_in_every_attempt(tmp_path: Path) -> None:
    places = JobPlaces(tmp_path)
    make_places(places, {"main.py": b"pass"}, None, b"[]")
    make_places(places, {"main.py": b"pass"}, None, b"[1]")
    assert (places.code / HISTORY).read_bytes() == b"[1]"
    assert sorted(path.name for path in places.code.iterdir()) == ["main.py", HISTORY]


def test_a_link_that_the_job_left_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside, places = tmp_path / "outside", JobPlaces(tmp_path / "job")
    outside.write_text("precious")
    places.root.mkdir()
    make_places(places, {}, None)
    for name in (HISTORY, f".{HISTORY}.new"):
        (places.code / name).symlink_to(outside)
    make_places(places, {}, None, b"[]")
    assert outside.read_text() == "precious"
    assert (places.code / HISTORY).read_bytes() == b"[]"


def test_a_directory_in_the_place_of_the_file_refuses_the_attempt(tmp_path: Path) -> None:
    places = JobPlaces(tmp_path)
    make_places(places, {}, None)
    (places.code / HISTORY / "x").mkdir(parents=True)
    with pytest.raises(ExecutorError, match=HISTORY):
        make_places(places, {}, None, b"[]")
