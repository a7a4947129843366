from __future__ import annotations

import json
from pathlib import Path

import pytest

from springtide.scheduler.metrics import MAX_METRICS
from springtide.training.job import Job
from springtide.training.reports import Reports
from springtide.training.thinning import BURST, MOST_NAMES, OWN, PER_SECOND


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


def test_a_number_of_steps_below_0_is_left_out_and_said_in_the_log(place, capfd) -> None:
    Job(place.environment()).report(step=1, of=-5)
    (line,) = place.reports()
    assert line.get("of") is None
    assert "of=-5 is no number of steps" in capfd.readouterr().err


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


@pytest.mark.parametrize("value", ["high", "0.5", b"1", None, [1], {}])
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


def extremes_of(found: list[dict], name: str) -> tuple[float, float, float]:
    values = [line["values"][name] for line in found if name in line["values"]]
    return values[-1], min(values), max(values)


def test_the_last_and_the_best_value_of_each_metric_are_written_however_fast_reports_come(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    reports = Reports(str(path), 1, clock=Clock())
    for step in range(300):
        reports.report(step, None, {"loss": 300.0 - step})
    for step in range(300):
        reports.report(step, None, {"acc": float((step * 7) % 300)})
    reports.report(299, None, {"final": 5})
    reports.flush()
    found = lines(path)
    assert extremes_of(found, "loss") == (1, 1, 300)
    assert extremes_of(found, "acc") == (float((299 * 7) % 300), 0, 299)
    assert [line["values"]["final"] for line in found if "final" in line["values"]] == [5]
    assert {line["step"] for line in found if line["values"].get("acc") == 299} == {257}
    assert BURST + OWN <= len(found) <= 200
    assert len(found) + sum(line.get("left_out", 0) for line in found) == 601


def test_a_rare_metric_keeps_its_points_beside_a_frequent_one(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "reports.jsonl"
    reports = Reports(str(path), 1, clock=clock)
    for step in range(4000):
        clock.now += 1 / 200
        reports.report(step, None, {"loss": 1 / (step + 1)})
        if step % 50 == 0:
            reports.report(step, None, {"val_loss": 2 / (step + 1)})
    reports.flush()
    found = lines(path)
    assert sum("val_loss" in line["values"] for line in found) == 80
    assert len(found) <= BURST + 20 * PER_SECOND + 2 * OWN


def test_the_step_since_which_a_value_is_not_finite_is_written(tmp_path: Path) -> None:
    path = tmp_path / "reports.jsonl"
    reports = Reports(str(path), 1, clock=Clock())
    for step in range(1000):
        reports.report(step, None, {"loss": float("nan") if step >= 700 else 1.0})
    reports.flush()
    assert [line["step"] for line in lines(path) if line["values"]["loss"] == "NaN"] == [700, 999]


def test_reports_that_find_no_room_are_merged_until_there_is_some(tmp_path: Path) -> None:
    reports = Reports(str(tmp_path / "missing" / "reports.jsonl"), 1)
    for step in range(10):
        reports.report(step, None, {"loss": abs(step - 4)})
    reports.report(10, None, {"val": 1})
    (tmp_path / "missing").mkdir()
    reports.saved(10)
    found = lines(tmp_path / "missing" / "reports.jsonl")
    assert extremes_of(found, "loss") == (5, 0, 5)
    assert [(line["step"], line["saved"]) for line in found[-2:]] == [(10, False), (10, True)]


def test_a_line_of_the_program_without_an_end_takes_no_later_report_with_it(place) -> None:
    job = Job(place.environment(attempt=1))
    with Path(place.environment()["SPRINGTIDE_REPORT"]).open("a") as own:
        own.write('{"step": 1}')
    job.returned(told_to_stop=False)
    own_line, returned = place.reports()
    assert own_line == {"step": 1}
    assert returned["milestone"] == "returned"


def test_that_reports_are_thinned_out_is_said_once_in_the_log(tmp_path: Path, capfd) -> None:
    reports = Reports(str(tmp_path / "reports.jsonl"), 1, clock=Clock())
    for step in range(1000):
        reports.report(step, None, {"loss": 1})
        if step % 100 == 0:
            reports.flush()
    assert capfd.readouterr().err == (
        "springtide: More than 20 reports a second. The pool keeps the last and the best value of each metric, "
        "and thins out the rest.\n"
    )


def test_steps_without_metrics_are_thinned_out_without_a_word(tmp_path: Path, capfd) -> None:
    path = tmp_path / "reports.jsonl"
    reports = Reports(str(path), 1, clock=Clock())
    for step in range(1000):
        reports.report(step, None, {})
    reports.saved(999)
    assert capfd.readouterr().err == ""
    assert len(lines(path)) == BURST + 2
    assert [line for line in lines(path) if line.get("left_out")] == []


def test_names_that_cannot_be_shown_are_cleaned_and_said_once(place, capfd) -> None:
    job = Job(place.environment())
    for _ in range(2):
        job.report(step=1, **{"a\nb": 1, "x\u202ey": 2, "": 3, "n" * 200: 4, "größe": 5})
    assert [line["values"] for line in place.reports()] == [{"a b": 1, "x y": 2, "n" * 128: 4, "größe": 5}] * 2
    said = capfd.readouterr().err.splitlines()
    assert said[:3] == [
        "springtide: The metric 'a\\nb' is kept as a b.",
        "springtide: The metric 'x\\u202ey' is kept as x y.",
        "springtide: A metric is called ''; it is not kept.",
    ]
    assert len(said) == 4


def test_a_metric_may_be_called_self(place) -> None:
    Job(place.environment()).report(self=1)
    assert [line["values"] for line in place.reports()] == [{"self": 1}]


def test_more_metrics_than_the_pool_keeps_are_said_once_with_the_first_name_beyond(place, capfd) -> None:
    job = Job(place.environment())
    job.report(step=1, **{f"m{number}": number for number in range(MOST_NAMES)})
    assert capfd.readouterr().err == ""
    for _ in range(2):
        job.report(step=2, loss=1, acc=2)
    (said,) = capfd.readouterr().err.splitlines()
    assert said.startswith("springtide: More than 1,024 metrics.")
    assert said.endswith("of the first 1,024 alone, without loss and later ones.")


def test_the_library_and_the_pool_keep_the_same_number_of_metrics() -> None:
    assert MOST_NAMES == MAX_METRICS


@pytest.mark.parametrize("step", [float("nan"), float("-inf"), 10**400])
def test_a_step_that_is_not_finite_is_said_in_the_log_and_the_values_are_kept(place, capfd, step) -> None:
    job = Job(place.environment())
    job.report(step=step, loss=1)
    (line,) = place.reports()
    assert (line["step"], line["values"]) == (None, {"loss": 1})
    assert capfd.readouterr().err.startswith("springtide: step=")


@pytest.mark.parametrize("more", [{"step": "3"}, {"of": "3"}, {"step": [1]}])
def test_a_step_that_is_no_number_is_refused_by_name(place, more) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(more))}="):
        Job(place.environment()).report(**more)


def test_a_report_of_many_metrics_loses_none(place) -> None:
    Job(place.environment()).report(step=1, **{f"m{number}": number for number in range(200)})
    values = [line["values"] for line in place.reports()]
    assert [len(each) for each in values] == [64, 64, 64, 8]
    assert len({name for each in values for name in each}) == 200
