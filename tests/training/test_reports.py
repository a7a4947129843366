from __future__ import annotations

import json
from pathlib import Path

import pytest

from springtide.training.job import Job
from springtide.training.reports import BURST, PER_SECOND, Reports


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_report_is_one_line(place) -> None:
    job = Job(place.environment(attempt=3))
    job.report(step=2, of=10, loss=0.5, accuracy=1)
    (line,) = place.reports()
    assert line["at"] > 1e9
    del line["at"]
    assert line == {
        "attempt": 3,
        "step": 2.0,
        "of": 10.0,
        "values": {"loss": 0.5, "accuracy": 1.0},
        "saved": False,
    }


def test_a_value_that_is_not_finite_is_said_once_in_the_log(place, capfd) -> None:
    job = Job(place.environment(attempt=1))
    for step in range(3):
        job.report(step=step, loss=float("nan"), accuracy=0.5)
    job.report(step=3, loss=10**400, accuracy=float("-inf"))
    assert [line["values"] for line in place.reports()] == [
        *[{"loss": "NaN", "accuracy": 0.5}] * 3,
        {"loss": "Infinity", "accuracy": "-Infinity"},
    ]
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "springtide: loss=nan at step 0 is no finite number."
    assert said[1:] == ["springtide: accuracy=-inf at step 3 is no finite number."]


def test_a_checkpoint_notes_that_a_value_was_not_finite_and_is_not_the_best(place) -> None:
    job = Job(place.environment(attempt=1, SPRINGTIDE_KEEP_LAST="1", SPRINGTIDE_KEEP_BEST="loss"))
    for step, loss in enumerate([0.5, float("nan"), float("-inf"), 0.7]):
        job.report(step=step, loss=loss)
        job.save(step, step=step)
    kept = sorted(place.checkpoints.iterdir())
    assert [json.loads((path / "manifest.json").read_text())["values"]["loss"] for path in kept] == [0.5, 0.7]


def test_a_checkpoint_is_reported_when_it_is_complete(place) -> None:
    job = Job(place.environment())
    with job.checkpoint(step=4):
        assert place.reports() == []
    with pytest.raises(ZeroDivisionError), job.checkpoint(step=5):
        raise ZeroDivisionError
    assert [(line["step"], line["saved"]) for line in place.reports()] == [(4.0, True)]


def test_only_the_first_of_several_processes_reports(place) -> None:
    Job(place.environment(rank=1, world=2)).report(step=1)
    assert place.reports() == []


@pytest.mark.parametrize("value", ["high", None, [1], {}])
def test_what_is_no_number_is_refused_by_name(place, value: object) -> None:
    with pytest.raises(TypeError, match="loss="):
        Job(place.environment()).report(step=1, loss=value)


def test_a_job_that_reports_at_every_little_step_is_thinned_out_and_the_last_is_kept(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "reports.jsonl"
    reports = Reports(str(path), 1, now=clock, clock=clock)
    for step in range(10_000):
        reports.report(step, None, {})
    assert len(lines(path)) == BURST
    clock.now += 3 / PER_SECOND
    for step in range(10_000, 10_010):
        reports.report(step, None, {})
    assert [line["step"] for line in lines(path)[BURST:]] == [10_000, 10_001, 10_002]
    reports.saved(10_009)
    assert [(line["step"], line["saved"]) for line in lines(path)[-2:]] == [(10_009, False), (10_009, True)]


def test_the_last_report_is_written_at_the_end(place) -> None:
    text = "from springtide.training import current_job as j\nfor n in range(1000): j().report(step=n)"
    assert place.run("-c", text)[0] == 0
    assert place.reports()[-1]["step"] == 999


def test_a_disk_that_takes_nothing_does_not_fail_the_job(tmp_path: Path) -> None:
    reports = Reports(str(tmp_path / "missing" / "reports.jsonl"), 1)
    reports.report(1, None, {})
    (tmp_path / "missing").mkdir()
    reports.flush()
    assert [line["step"] for line in lines(tmp_path / "missing" / "reports.jsonl")] == [1.0]
