"""Best values of metrics by their names' conventions, and values at a step."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from springtide.scheduler.metrics import (
    MAX_METRICS,
    Extremes,
    NotFinite,
    Value,
    best_of,
    goal_of,
    latest,
    merged,
    since,
    value,
    value_of,
    values_at,
    with_values,
)


@pytest.mark.parametrize(
    ("name", "goal"),
    [
        ("loss", "min"),
        ("val_loss", "min"),
        ("valid/accuracy", "max"),
        ("top-1 acc", "max"),
        ("top5", "max"),
        ("macro_f1", "max"),
        ("eval/reward", "max"),
        ("score_loss", "min"),
        ("samples_per_second", "max"),
        ("tokens/s", "max"),
        ("perplexity", "min"),
        ("map50", "max"),
        ("anything", "min"),
        ("", "min"),
    ],
)
def test_the_name_of_a_metric_says_which_values_are_good(name: str, goal: str) -> None:
    assert goal_of(name) == goal


def test_the_best_value_is_that_of_all_reports_whatever_their_batches() -> None:
    chance = random.Random(3)
    for _ in range(200):
        reports = [(float(step), {"loss": chance.choice([0.1, 0.5, 0.9, -1.0])}) for step in range(30)]
        cut = chance.randrange(31)
        parts = []
        for some in (reports[:cut], reports[cut:]):
            found: dict[str, Extremes] = {}
            for step, values in some:
                found = with_values(found, values, step)
            parts.append(found)
        both = merged(*parts)["loss"]
        series = [(values["loss"], step) for step, values in reports]
        assert best_of(both, "min") == min(series)
        assert best_of(both, "max").value == max(series)[0]
        assert best_of(both, "max").step == min(step for value, step in series if value == max(series)[0])


def test_a_program_that_reports_ever_new_names_fills_no_memory() -> None:
    found: dict[str, Extremes] = {}
    last: dict[str, Value] = {}
    lost: dict[str, float | None] = {}
    for number in range(2000):
        found = with_values(found, {f"m{number}": 1.0}, None)
        last = latest(last, {f"m{number}": 1.0, "loss": 2.0})
        lost = since(lost, {f"m{number}": NotFinite.NAN}, None)
    assert (len(found), len(last), len(lost)) == (MAX_METRICS, MAX_METRICS, MAX_METRICS)


@pytest.mark.parametrize(
    ("number", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (0.5, "0.5")]
)
def test_a_value_is_the_same_number_in_python_and_in_json(number: float, text: str) -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(value(number)), type=Value)
    assert repr(decoded) == repr(number)
    assert f"{decoded:.3g}" == f"{number:.3g}"
    assert float(text) == decoded or math.isnan(decoded)
    assert msgspec.json.encode(value(number)) == (b"0.5" if number == 0.5 else f'"{text}"'.encode())
    assert value_of(number) is value(number)
    assert value_of(text) is (None if number == 0.5 else value(number))


@pytest.mark.parametrize("reported", [True, None, "nan", "", [], {}, ["NaN"]])
def test_what_is_no_number_is_no_value(reported: object) -> None:
    assert value_of(reported) is None
    assert [value_of(10**400), value_of(-(10**400))] == [math.inf, -math.inf]


def test_a_value_that_is_not_finite_is_never_the_best_and_has_the_step_since_which_it_is() -> None:
    found: dict[str, Extremes] = {}
    lost: dict[str, float | None] = {}
    history = []
    for step, loss in enumerate([math.nan, 0.5, -math.inf, math.nan, 0.7]):
        found = with_values(found, {"loss": value(loss)}, step)
        lost = since(lost, {"loss": value(loss), "accuracy": 1.0}, step)
        history.append(lost)
    assert (best_of(found["loss"], "min"), best_of(found["loss"], "max")) == ((0.5, 1), (0.7, 4))
    assert history == [{"loss": 0}, {}, {"loss": 2}, {"loss": 2}, {}]
    assert since({"loss": 2}, {"accuracy": 1.0}, 9) == {"loss": 2}


def test_the_value_at_a_step_is_the_newest_one_there_or_before() -> None:
    reports = [(1.0, {"loss": 3.0}), (None, {"loss": 9.0}), (4.0, {"loss": 2.0, "acc": 0.5}), (2.0, {"loss": 2.5})]
    reports += [(4.0, {"loss": 1.0})]
    assert values_at(reports, 0) == {}
    assert values_at(reports, 3) == {"loss": 2.5}
    assert values_at(reports, 4) == {"loss": 1.0, "acc": 0.5}
