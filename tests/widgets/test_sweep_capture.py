"""What a sweep sends: the points of a space, one payload for all trials, and what cannot be a sweep."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from jobs.payloads import content_of

from springtide.scheduler.arguments import Argument, argument_of
from springtide.widgets.errors import CaptureError, OptionError
from springtide.widgets.shared_pool import Pool
from springtide.widgets.submission.spaces import points_of
from springtide.widgets.submission.sweeps import Plan, Wanted, plan_items, plan_space, plan_study


def train(lr: float = 0.1, layers: int = 1, **_more: Any) -> float:
    return lr * layers


def objective(trial: Any, scale: float = 1.0) -> float:
    return scale * float(trial.suggest_float("x", 0, 1))


@pytest.fixture
def plan(tmp_path: Path):
    """Plans a sweep of a space, items or a study."""

    def plan(what: Any, function: Any = train, *, items: bool = False, kwargs: Any = None, **wanted: Any) -> Plan:
        asked = Wanted(function, kwargs or {}, tmp_path, **wanted)
        if isinstance(what, optuna.study.Study):
            return plan_study(asked, what)
        return plan_items(asked, what) if items else plan_space(asked, what)

    return plan


def called(plan: Plan) -> list[Any]:
    """What each trial's call returns, as its process makes it."""
    payload = content_of(plan.payload.data)
    return [payload["function"](*args, **kwargs) for args, kwargs in payload["calls"]]


# ---------- points


def test_a_grid_has_all_combinations_the_last_parameter_changing_fastest() -> None:
    points = points_of({"lr": [1, 2], "kind": ("a", "b"), "on": [True]}, None, 0)
    assert points == [
        {"lr": 1, "kind": "a", "on": True},
        {"lr": 1, "kind": "b", "on": True},
        {"lr": 2, "kind": "a", "on": True},
        {"lr": 2, "kind": "b", "on": True},
    ]


@pytest.mark.parametrize("trials", [5, 60, 99, 100])
def test_a_sample_of_a_grid_is_chosen_by_the_seed(trials: int) -> None:
    grid = {"x": range(10), "y": range(10)}
    first, again, other = (points_of(grid, trials, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len({tuple(point.items()) for point in first}) == trials
    assert {name for point in first for name in point} == {"x", "y"}


def test_a_grid_larger_than_any_machine_is_sampled() -> None:
    points = points_of({f"p{place}": range(100) for place in range(40)}, 500, 0)
    assert len({tuple(point.values()) for point in points}) == 500
    assert {value for point in points for value in point.values()} == set(range(100))


def test_points_that_are_listed_stay_as_they_are() -> None:
    listed = [{"lr": 1}, {"lr": 2, "layers": 3}]
    assert points_of(listed, None, 0) == listed
    assert points_of(listed, 1, 0)[0] in listed


# ---------- what runs


def test_each_point_is_a_call(plan) -> None:
    made = plan({"lr": [0.5, 2], "layers": [1, 3]}, kwargs={"more": "x"})
    assert (made.number, made.history, made.goal) == (4, False, "minimize")
    assert called(made) == [0.5, 1.5, 2, 6]
    assert made.parameters[1] == {"lr": 0.5, "layers": 3}


def test_each_item_is_a_call_and_shown_as_a_parameter(plan) -> None:
    items = [3, "text", (1, 2), {"a": 1}, np.float32(0.5), np.int64(7), np.arange(3), "x" * 500, float("inf")]
    made = plan(iter(items), lambda item: type(item).__name__, items=True, metric="loss", goal="maximize")
    assert called(made) == ["int", "str", "tuple", "dict", "float32", "int64", "ndarray", "str", "float"]
    shown = [of["item"] for of in made.parameters]
    assert [argument_of(each).restored for each in shown[:7]] == [3, "text", (1, 2), {"a": 1}, 0.5, 7, "<ndarray>"]
    assert (len(shown[7].value), shown[7].type, shown[8]) == (200, "text", Argument(value="inf", type="float"))
    assert (made.metric, made.goal) == ("loss", "maximize")
    assert [plan([1], len, items=True, **more).goal for more in ({}, {"metric": "a"}, {"goal": "maximize"})] == [
        "",
        "minimize",
        "maximize",
    ]


def test_values_of_a_space_keep_their_types_and_are_shown_as_json_has_them(plan) -> None:
    made = plan({"lr": [np.float64(0.5)], "layers": [(64, 32), [1], None, True, np.bool_(True)]}, lambda **of: of)
    assert [type(each["layers"]).__name__ for each in called(made)] == [
        "tuple",
        "list",
        "NoneType",
        "bool",
        "bool",
    ]
    pair, single = Argument(value="(64, 32)", type="tuple"), Argument(value="[1]", type="list")
    assert [each["layers"] for each in made.parameters] == [pair, single, None, True, True]


def test_texts_of_parameters_are_whole_unless_there_are_very_many(plan) -> None:
    text = "x" * 2_000
    assert plan([{"a": text}], lambda a: a).parameters == [{"a": text}]
    assert len(plan([{"a": f"{text}y"}], lambda a: a).parameters[0]["a"].value) == 2_000
    assert {len(each["a"].value) for each in plan([{"a": text}] * 3_000, lambda a: a).parameters} == {200}
    assert plan([{"a": 10**9_000}], lambda a: a).parameters[0]["a"] == Argument(value="<int>", type="int")


def test_a_study_goes_along_with_its_trials_sampler_and_pruner(plan) -> None:
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.HyperbandPruner())
    study.enqueue_trial({"x": 0.5})
    made = plan(study, objective, trials=20, kwargs={"scale": 2}, seed=4)
    payload = content_of(made.payload.data)
    sent = pickle.loads(payload["study"])
    assert (made.number, made.goal, made.metric, made.history) == (20, "maximize", "value", True)
    assert (payload["seed"], payload["kwargs"], type(sent.pruner)) == (
        4,
        {"scale": 2},
        optuna.pruners.HyperbandPruner,
    )
    assert sent.trials[0].system_attrs == {"fixed_params": {"x": 0.5}}
    assert "TPESampler, HyperbandPruner" in made.payload.source


def test_a_study_with_a_storage_is_asked_itself(plan, tmp_path: Path) -> None:
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db", study_name="mine")
    made = plan(study, objective, trials=3)
    sent = pickle.loads(content_of(made.payload.data)["study"])
    sent.add_trial(optuna.trial.create_trial(value=1.0))
    assert not made.history
    assert [trial.value for trial in study.trials] == [1.0]


# ---------- what goes wrong


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({}, "The space is empty"),
        ([], "The space is empty"),
        ({"lr": []}, "`lr` has no values"),
        ({"lr": 0.1}, r"`lr` is a float, 0\.1; a space has a list of values .* \{'lr': \[0\.1\]\}"),
        ({"lr": "0.1"}, "`lr` is a str"),
        ("lr", "The space is a str; give lists of values by parameter"),
        (3, "The space is an int"),
        ([0.1, 0.2], "Point 0 of the space is a float, 0.1; each is a dictionary"),
        ({3: [1]}, "A parameter is called 3"),
        ({"lr": [threading.Lock]}, "Parameter `lr` has the value .*pool.map takes anything"),
        ({"x": range(200), "y": range(200)}, "40,000 points, and a sweep has at most 10,000 trials"),
    ],
)
def test_a_space_that_is_none_is_told_what_to_give(plan, space: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        plan(space, lambda **of: of)


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        (7, "only 6 points, so there cannot be 7 trials"),
        (0, "trials is 0; expected"),
        (True, "trials is True; expected"),
    ],
)
def test_a_number_of_trials_that_cannot_be_is_refused(plan, trials: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        plan({"lr": [1, 2, 3], "layers": [1, 2]}, trials=trials)


def test_a_parameter_that_the_function_has_not_is_refused(plan) -> None:
    with pytest.raises(CaptureError, match=r"has no argument “rate”"):
        plan({"rate": [1]}, lambda lr=1: lr)
    with pytest.raises(OptionError, match=r"`lr` is a parameter of the space and also given for all trials"):
        plan({"lr": [1]}, kwargs={"lr": 2})


@pytest.mark.parametrize(("items", "words"), [([], "There are no items"), (3, "The items are an int")])
def test_items_that_are_none_are_refused(plan, items: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        plan(items, items=True)


def test_an_item_that_cannot_be_pickled_is_named(plan) -> None:
    with pytest.raises(CaptureError, match=r"item 2 → \['lock'\] is a _thread.lock and cannot be sent"):
        plan([1, 2, {"lock": threading.Lock()}], lambda item: item, items=True)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_study_that_cannot_be_a_sweep_is_refused(plan, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"say how many trials, with trials="):
        plan(optuna.create_study(), objective)
    with pytest.raises(OptionError, match="2 directions, and a sweep has one goal"):
        plan(optuna.create_study(directions=["minimize", "minimize"]), objective, trials=1)
    with pytest.raises(OptionError, match="goal is “maximize”, but the study's direction is to minimize"):
        plan(optuna.create_study(), objective, trials=1, goal="maximize")
    with pytest.raises(OptionError, match="goal is “best”; expected “minimize” or “maximize”"):
        plan(optuna.create_study(), objective, trials=1, goal="best")
    with pytest.raises(OptionError, match="QMCSampler counts its points in the study"):
        plan(optuna.create_study(sampler=optuna.samplers.QMCSampler()), objective, trials=1)
    stored = optuna.create_study(storage=f"sqlite:///{tmp_path}/study.db")
    with pytest.raises(OptionError, match="With several workers"):
        plan(stored, objective, trials=1, workers=2)


def test_a_study_that_cannot_be_pickled_is_told_why(plan) -> None:
    study = optuna.create_study()
    study.sampler.lock = threading.Lock()
    with pytest.raises(CaptureError, match=r"the study → .*is a _thread.lock"):
        plan(study, objective, trials=1)


def test_what_is_no_function_is_refused(plan) -> None:
    with pytest.raises(CaptureError, match=r"A sweep calls a function; “python train\.py” is a str"):
        plan({"lr": [1]}, "python train.py")


def test_an_argument_that_may_be_the_functions_is_asked_about() -> None:
    pool = Pool()
    with pytest.raises(OptionError, match="`seed` is an argument of sweep and a parameter of the function too"):
        pool.sweep(lambda lr, seed=0: lr + seed, {"lr": [1]}, seed=3)
    with pytest.raises(OptionError, match="`gpus` is an option of submit and a parameter of the function too"):
        pool.map(lambda item, gpus: item + gpus, [1], gpus=3)
    with pytest.raises(OptionError, match="Unknown option `epochs`"):
        pool.map(lambda item: item, [1], epochs=3)


def test_help_shows_the_options_of_each_trial() -> None:
    assert "- ``gpus``: GPUs of each worker" in (Pool.sweep.__doc__ or "")
    assert '{"lr": [0.1, 0.01]' in (Pool.sweep.__doc__ or "")
