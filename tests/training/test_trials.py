"""Trials of a sweep, as the runner makes them: what they call, and their reports to the pool."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from jobs.payloads import payload_of

from springtide.training import AGAIN
from springtide.training.trials import MOST_BYTES, MOST_POINTS, PACE, Curve, Trial

RUN = ("-m", "springtide.training.run", "function")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def begin(place):
    """Begins an attempt of a trial in this process."""

    def begin(metric: str = "loss", number: int = 3, **options: Any) -> Trial:
        return Trial(of_sweep(place, number), metric, **options)

    return begin


def of_sweep(place, number: int) -> dict[str, str]:
    return place.environment(SPRINGTIDE_SWEEP="sweep", SPRINGTIDE_TRIAL=str(number))


def told(place) -> list[dict[str, Any]]:
    """The reports of the trial to the pool, in order."""
    return [line["trial"] for line in place.reports() if "trial" in line]


def run(place, payload: dict[str, Any], number: int, *, attempt: int = 1) -> tuple[int, str, str]:
    code = place.root / "code"
    code.mkdir(exist_ok=True)
    (code / "payload.pkl").write_bytes(payload_of(payload))
    trial = {"SPRINGTIDE_SWEEP": "sweep", "SPRINGTIDE_TRIAL": str(number)}
    return place.run(*RUN, str(code / "payload.pkl"), attempt=attempt, **trial)


def by_value(text: str) -> Any:
    """A function as a notebook has it: of no module that could be imported."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    return namespace["f"]


def calls(*items: Any, **kwargs: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((item,), kwargs) for item in items]


def test_each_trial_calls_the_function_with_its_own_item(place) -> None:
    payload = {"function": by_value("def f(x, by): return x * by"), "calls": calls(5, 6, 7, by=2), "metric": ""}
    code, _, err = run(place, payload, 1)
    assert code == 0, err
    assert pickle.loads((place.output / "result.pkl").read_bytes()) == 12
    assert told(place) == [{"parameters": None, "value": 12.0, "curve": [], "pruned": False, "memo": ""}]


def test_what_is_reported_of_the_metric_becomes_the_curve_and_the_value(place) -> None:
    text = """
def f(x):
    from springtide.training import current_job
    job = current_job()
    assert (job.sweep, job.trial) == ("sweep", 0)
    for step in range(3):
        job.report(step=step, of=3, loss=x / (step + 1), other=step)
"""
    code, _, err = run(place, {"function": by_value(text), "calls": calls(6), "metric": "loss"}, 0)
    assert code == 0, err
    assert (told(place)[-1]["value"], told(place)[-1]["curve"]) == (2.0, [[0.0, 6.0], [1.0, 3.0], [2.0, 2.0]])
    assert [line["values"]["loss"] for line in place.reports() if line["values"]] == [6.0, 3.0, 2.0]


@pytest.mark.parametrize(
    ("result", "value"),
    [(1, 1.0), (0.25, 0.25), ({"loss": 2, "model": "x"}, 2.0), (None, 9.0), ("model", 9.0), ({"x": 1}, 9.0)],
)
def test_a_result_that_is_no_number_leaves_the_last_report(begin, result: Any, value: float) -> None:
    trial = begin()
    trial.observe(None, {"loss": 9.0})
    assert trial.value_of(result) == value


def test_a_value_that_is_not_finite_is_none(place, begin) -> None:
    begin().end(float("nan"))
    assert told(place)[-1]["value"] is None


def test_a_growing_curve_is_told_at_a_pace_and_choices_at_once(place, begin) -> None:
    clock = Clock()
    trial = begin(clock=clock)
    clock.now = 100.0
    trial.observe(0, {"loss": 1.0})
    for step in range(1, 50):
        clock.now += PACE / 100
        trial.observe(step, {"loss": 1.0})
    assert [len(each["curve"]) for each in told(place)] == [1]
    trial.choose({"lr": 0.1}, "memo")
    assert [(len(each["curve"]), each["parameters"]) for each in told(place)][1:] == [(50, {"lr": 0.1})]
    clock.now += PACE
    trial.observe(50, {"loss": 1.0})
    trial.flush()
    assert [len(each["curve"]) for each in told(place)][2:] == [51]


def test_the_next_attempt_continues_the_curve_from_its_checkpoint(place, begin) -> None:
    first = begin()
    for step in range(6):
        first.observe(step, {"loss": 10.0 - step})
    first.flush()
    second = begin(attempt=2)
    assert second.last == 5.0
    second.observe(4, {"loss": 1.0})
    second.flush()
    assert told(place)[-1]["curve"] == [[0.0, 10.0], [1.0, 9.0], [2.0, 8.0], [3.0, 7.0], [4.0, 1.0]]


@pytest.mark.parametrize("length", [1, 99, 100, 101, 1000, 12345])
def test_a_long_curve_keeps_few_points_evenly_and_the_last(length: int) -> None:
    curve = Curve([(step, -step) for step in range(length)])
    steps = [step for step, _ in curve.points]
    assert len(steps) <= MOST_POINTS
    assert len(steps) >= min(length, MOST_POINTS // 2)
    assert (steps[0], steps[-1]) == (0, length - 1)
    gaps = {steps[place + 1] - steps[place] for place in range(len(steps) - 2)}
    assert len(gaps) <= 1


def test_a_trial_that_is_too_large_is_told_without_its_memo_and_its_curve(place, begin) -> None:
    trial = begin()
    for step in range(50):
        trial.observe(step, {"loss": 1.0})
    trial.choose({"lr": 0.1}, "m" * MOST_BYTES)
    trial.choose({"text": "t" * (MOST_BYTES - 400)}, "")
    assert [(each["memo"], len(each["curve"])) for each in told(place)[1:]] == [("", 50), ("", 0)]
    assert begin().earlier["parameters"] == trial.parameters


def test_of_a_gang_the_first_process_tells(place, begin) -> None:
    trial = begin(rank=1)
    trial.observe(0, {"loss": 1.0})
    trial.end(1.0)
    assert place.reports() == []
    assert begin().earlier is None


def test_a_broken_file_of_an_earlier_attempt_is_none(place, begin) -> None:
    (place.output / "trial.json").write_text("[]")
    assert begin().earlier is None


def test_a_trial_that_pauses_tells_its_curve_first(place) -> None:
    text = """
def f(x):
    from springtide.training import current_job
    job = current_job()
    for step in range(3):
        job.report(step=step, loss=step)
    job.save(3, step=3)
    job.exit_for_pause()
"""
    code, _, _ = run(place, {"function": by_value(text), "calls": calls(6), "metric": "loss"}, 0)
    assert code == AGAIN
    assert len(told(place)[-1]["curve"]) == 3
    assert told(place)[-1]["value"] is None


def test_a_trial_that_fails_keeps_its_error(place) -> None:
    code, _, err = run(place, {"function": by_value("def f(x): 1 / 0"), "calls": calls(6), "metric": ""}, 0)
    error = json.loads((place.output / "error.json").read_text())
    assert (code, error["type"]) == (1, "ZeroDivisionError")
    assert "springtide" not in err


def test_a_study_without_optuna_is_told_how_to_install_it(place) -> None:
    (place.root / "code").mkdir()
    (place.root / "code" / "optuna.py").write_text("raise ModuleNotFoundError('no', name='optuna')")
    payload = {"function": by_value("def f(t): pass"), "kwargs": {}, "study": b"", "seed": 0, "metric": "value"}
    code, _, err = run(place, payload, 0)
    assert code == 1
    assert "pip install 'springtide[sweeps]'" in err
    assert "Traceback" not in err
