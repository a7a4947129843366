"""Best values of metrics by their names' conventions, and values at a step."""

from __future__ import annotations

import random

import pytest

from springtide.scheduler.metrics import MAX_METRICS, Extremes, best_of, goal_of, merged, values_at, with_values


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
    for number in range(1000):
        found = with_values(found, {f"m{number}": 1.0}, None)
    assert len(found) == MAX_METRICS


def test_the_value_at_a_step_is_the_newest_one_there_or_before() -> None:
    reports = [(1.0, {"loss": 3.0}), (None, {"loss": 9.0}), (4.0, {"loss": 2.0, "acc": 0.5}), (2.0, {"loss": 2.5})]
    reports += [(4.0, {"loss": 1.0})]
    assert values_at(reports, 0) == {}
    assert values_at(reports, 3) == {"loss": 2.5}
    assert values_at(reports, 4) == {"loss": 1.0, "acc": 0.5}
