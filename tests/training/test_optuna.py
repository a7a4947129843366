"""Trials of a study, one by one as the pool starts them, with Optuna's own samplers, pruners and storages."""

from __future__ import annotations

import itertools
import json
import pickle
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import optuna
import pytest
from jobs.payloads import payload_of

from springtide.training import AGAIN, trials
from springtide.training.adapters import optuna as adapter
from springtide.training.job import Job
from springtide.training.trials import Trial

RUN = ("-m", "springtide.training.run", "function")


class Pool:
    """Runs the trials of a sweep one after another in this process, and keeps their reports like the pool."""

    def __init__(self, root: Path, study: Any, objective: Callable[..., Any], *, seed: int = 0) -> None:
        self._root = root
        self._jobs = itertools.count()
        self.call = {"function": objective, "kwargs": {}, "study": cloudpickle.dumps(study), "seed": seed}
        self.history: dict[int, dict[str, Any]] = {}

    def run(self, *numbers: int, job: str = "", without: tuple[int, ...] = ()) -> None:
        """Run trials, each in a job of its own; ``job`` names one that runs again. They do not see ``without``."""
        for number in numbers:
            root = self._root / (job or f"job-{next(self._jobs)}")
            (root / "output").mkdir(parents=True, exist_ok=True)
            environment = {
                "SPRINGTIDE_JOB_ID": root.name,
                "SPRINGTIDE_SWEEP": "sweep",
                "SPRINGTIDE_TRIAL": str(number),
                "SPRINGTIDE_OUTPUT_DIR": str(root / "output"),
                "SPRINGTIDE_REPORT": str(root / "reports.jsonl"),
            }
            trial = Trial(environment, "loss")
            known = [each for each in self.history.values() if each["trial"] not in without]
            running = Job(environment)
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("springtide.training.trials._current", trial)
                state = "failed"
                try:
                    adapter.run_trial(self.call, running, trial, json.loads(json.dumps(known)))
                    state = "pruned" if trial.pruned else "complete"
                finally:
                    trial.flush()  # as at the exit of the process
                    self.history[number] = {"trial": number, "state": state, **newest(root / "reports.jsonl")}

    @property
    def parameters(self) -> list[dict[str, Any]]:
        return [self.history[number]["parameters"] for number in sorted(self.history)]

    @property
    def best(self) -> float:
        return min(each["value"] for each in self.history.values() if each["value"] is not None)


def newest(reports: Path) -> dict[str, Any]:
    """The last report of a trial; empty if there is none."""
    lines = [json.loads(line) for line in reports.read_text().splitlines()] if reports.exists() else []
    told = [line["trial"] for line in lines if "trial" in line]
    return told[-1] if told else {}


@pytest.fixture
def pool_of(tmp_path: Path) -> Callable[..., Pool]:
    places = itertools.count()

    def pool_of(study: Any, objective: Callable[..., Any], **options: Any) -> Pool:
        return Pool(tmp_path / f"pool-{next(places)}", study, objective, **options)

    return pool_of


def bowl(trial: Any) -> float:
    x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", -5, 5)
    return (x - 2) ** 2 + (y + 1) ** 2


def mixed(trial: Any) -> float:
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 4)
    kind = trial.suggest_categorical("kind", ["adam", "sgd", None, True, 3])
    return lr + layers + (kind == "sgd")


SAMPLERS: dict[str, Callable[[], Any]] = {
    "random": optuna.samplers.RandomSampler,
    "tpe": lambda: optuna.samplers.TPESampler(n_startup_trials=3),
    "multivariate tpe": lambda: optuna.samplers.TPESampler(n_startup_trials=3, multivariate=True),
    "cma-es": lambda: optuna.samplers.CmaEsSampler(n_startup_trials=2, popsize=4),
    "nsga": lambda: optuna.samplers.NSGAIISampler(population_size=4),
}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("objective", [bowl, mixed])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_equal_runs_choose_equally_and_their_trials_differently(pool_of, sampler: str, objective: Any) -> None:
    pools = [pool_of(optuna.create_study(sampler=SAMPLERS[sampler]()), objective, seed=seed) for seed in (7, 7, 8)]
    for pool in pools:
        pool.run(*range(9))
    equal, again, other = (pool.parameters for pool in pools)
    assert equal == again
    assert equal != other
    assert len({json.dumps(each) for each in equal}) >= 7  # genetic samplers may copy a parent


def test_the_seed_of_the_users_sampler_counts_too(pool_of) -> None:
    seeds = (1, 1, 2)
    pools = [
        pool_of(optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)), bowl) for seed in seeds
    ]
    for pool in pools:
        pool.run(0)
    assert pools[0].parameters == pools[1].parameters
    assert pools[0].parameters != pools[2].parameters


def test_trials_that_know_nothing_of_each_other_choose_differently(pool_of) -> None:
    pool = pool_of(optuna.create_study(sampler=optuna.samplers.TPESampler()), bowl)
    pool.run(*range(8), without=tuple(range(8)))
    assert len({each["x"] for each in pool.parameters}) == 8


@pytest.mark.parametrize("sampler", ["tpe", "cma-es"])
def test_a_sampler_learns_from_the_trials_before(pool_of, sampler: str) -> None:
    learning = pool_of(optuna.create_study(sampler=SAMPLERS[sampler]()), bowl)
    learning.run(*range(40))
    blind = pool_of(optuna.create_study(sampler=SAMPLERS[sampler]()), bowl)
    blind.run(*range(40), without=tuple(range(40)))
    assert learning.best < blind.best / 2
    late = [each["value"] for number, each in learning.history.items() if number >= 30]
    assert sum(late) / 10 < sum(each["value"] for each in blind.history.values()) / 40 / 2


def test_the_points_of_a_grid_are_tried_once_each(pool_of) -> None:
    grid: dict[str, list[Any]] = {"lr": [0.1, 0.2, 0.3], "kind": ["a", "b"]}

    def objective(trial: Any) -> float:
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return trial.suggest_float("lr", 0, 1) + (kind == "a")

    pool = pool_of(optuna.create_study(sampler=optuna.samplers.GridSampler(grid)), objective)
    pool.run(*range(3), without=(0, 1, 2))
    pool.run(*range(3, 6))
    assert len({json.dumps(each, sort_keys=True) for each in pool.parameters}) == 6
    assert {each["state"] for each in pool.history.values()} == {"complete"}


def test_trials_that_were_enqueued_come_first_one_for_each_trial(pool_of) -> None:
    study = optuna.create_study()
    study.enqueue_trial({"x": 1.0, "y": 1.0})
    study.enqueue_trial({"x": 2.0})
    pool = pool_of(study, bowl)
    pool.run(0, 1, 2)
    assert pool.parameters[0] == {"x": 1.0, "y": 1.0}
    assert pool.parameters[1]["x"] == 2.0
    assert pool.parameters[2]["x"] not in (1.0, 2.0)


def test_what_the_study_had_found_before_counts(pool_of) -> None:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(bowl, n_trials=40)
    pool = pool_of(study, bowl)
    pool.run(*range(10), without=tuple(range(10)))
    assert (
        statistics.median(each["value"] for each in pool.history.values()) < 10
    )  # 22 without the earlier 40 trials


# ---------- pauses


def in_steps(trial: Any) -> float:
    """Pause after step 2 of the first attempt, and go on from there."""
    x = trial.suggest_float("x", 0, 1)
    found = trial.suggest_int("unused", 0, 10)
    for step in range(int(Path("done").exists()) * 3, 6):
        trial.report(x + found - step, step)
        if step == 2 and not Path("done").exists():
            Path("done").touch()
            raise SystemExit(AGAIN)
    return x


@pytest.fixture(params=["in memory", "SQLite"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    monkeypatch.chdir(tmp_path)
    return None if request.param == "in memory" else "sqlite:///study.db"


def test_a_trial_that_was_paused_keeps_its_parameters(pool_of, stored: str | None) -> None:
    study = optuna.create_study(storage=stored)
    pool = pool_of(study, in_steps)
    with pytest.raises(SystemExit):
        pool.run(0, job="one")
    first = dict(pool.history[0])
    Path("done").unlink()
    with pytest.raises(SystemExit):
        pool.run(1, job="two")
    pool.run(0, job="one")
    assert pool.history[0]["parameters"] == first["parameters"] != pool.history[1]["parameters"]
    assert [step for step, _ in pool.history[0]["curve"]] == [0, 1, 2, 3, 4, 5]
    if stored:
        (trial,) = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
        assert (trial.params, sorted(trial.intermediate_values)) == (first["parameters"], list(range(6)))
        assert len(study.trials) == 2


def test_a_trial_that_is_tried_again_as_another_job_has_the_same_parameters(pool_of, stored: str | None) -> None:
    def fails_first(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        if not Path("failed").exists():
            Path("failed").touch()
            raise OSError("no data")
        return x

    study = optuna.create_study(storage=stored)
    pool = pool_of(study, fails_first)
    with pytest.raises(OSError, match="no data"):
        pool.run(0)
    first = pool.history[0]
    assert first["state"] == "failed"
    if stored:
        pool.run(0, job="job-0")
    else:
        pool.run(0)
    assert (pool.history[0]["state"], pool.history[0]["parameters"]) == ("complete", first["parameters"])
    if stored:
        assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE"]


# ---------- storages


def test_a_study_with_a_storage_is_used_as_it_is(pool_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = optuna.create_study(storage="sqlite:///study.db", study_name="mine", direction="minimize")
    pool = pool_of(study, bowl)
    pool.run(0, 1, 2)
    found = optuna.load_study(study_name="mine", storage="sqlite:///study.db")
    assert [trial.params for trial in found.trials] == pool.parameters
    assert found.best_value == pool.best
    assert {trial.state.name for trial in found.trials} == {"COMPLETE"}


# ---------- pruning


def falling(trial: Any) -> float:
    """Reports through the job, as a training does that knows nothing of Optuna, and asks after each step."""
    base = trial.suggest_float("base", 0, 10)
    for step in range(10):
        trials.observe(step, None, {"loss": base + 1 / (step + 1)})
        if trial.should_prune():
            raise optuna.TrialPruned
    return base


PRUNERS: dict[str, Callable[[], Any]] = {
    "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=1),
    "halving": lambda: optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=2),
    "hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=1, max_resource=10, reduction_factor=3),
}


@pytest.mark.parametrize("pruner", PRUNERS)
def test_a_pruner_ends_trials_by_what_was_reported_of_the_others(pool_of, pruner: str) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3), pruner=PRUNERS[pruner]())
    pool = pool_of(study, falling)
    pool.run(*range(16))
    pruned = [each for each in pool.history.values() if each["state"] == "pruned"]
    complete = [each for each in pool.history.values() if each["state"] == "complete"]
    assert len(pruned) >= 4
    assert len(complete) >= 3
    assert min(len(each["curve"]) for each in pruned) < 10
    assert all(each["value"] == each["curve"][-1][1] for each in pruned)
    assert pool.best == min(each["value"] for each in complete)


def test_a_pruner_reads_what_was_reported_from_the_storage_of_the_study(
    pool_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=1)
    pool = pool_of(optuna.create_study(storage="sqlite:///study.db", pruner=pruner), falling)
    for base in (1.0, 2.0, 0.5):
        study = optuna.load_study(study_name=None, storage="sqlite:///study.db")
        study.enqueue_trial({"base": base})
        pool.run(len(pool.history))
    assert [pool.history[number]["state"] for number in range(3)] == ["complete", "pruned", "complete"]


def test_pruning_is_that_of_optuna_alone(pool_of) -> None:
    """One after another, in memory and one process each, the trials end where one process of Optuna ends them."""

    def chosen(trial: Any) -> float:
        base = trial.suggest_float("base", 0, 10)
        for step in range(10):
            trial.report(base + 1 / (step + 1), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return base

    for pruner in ("median", "halving"):
        alone = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=3), pruner=PRUNERS[pruner]())
        alone.optimize(chosen, n_trials=16)
        study = optuna.create_study(pruner=PRUNERS[pruner]())
        for trial in alone.trials:
            study.enqueue_trial(trial.params)
        pool = pool_of(study, chosen)
        pool.run(*range(16))
        expected = [(trial.state.name.lower(), trial.last_step) for trial in alone.trials]
        assert [(each["state"], each["curve"][-1][0]) for each in pool.history.values()] == expected


# ---------- what goes wrong


@pytest.mark.parametrize("result", [None, "fine", float("nan"), {"accuracy": 1}])
def test_an_objective_without_a_value_is_told_what_to_return(pool_of, result: Any) -> None:
    pool = pool_of(optuna.create_study(), lambda trial: [trial.suggest_int("x", 0, 1), result][1])
    with pytest.raises(adapter.ObjectiveError, match=r"Return a number, or report it as `loss`\."):
        pool.run(0)


def test_a_trial_without_a_value_has_failed_in_the_storage_of_the_study_too(
    pool_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    study = optuna.create_study(storage="sqlite:///study.db")
    with pytest.raises(adapter.ObjectiveError):
        pool_of(study, lambda trial: [trial.suggest_int("x", 0, 1), None][1]).run(0)
    assert [trial.state.name for trial in study.trials] == ["FAIL"]


def test_an_objective_may_only_report_its_value(pool_of) -> None:
    def reports(trial: Any) -> None:
        trial.report(trial.suggest_int("x", 4, 4), 0)

    pool = pool_of(optuna.create_study(), reports)
    pool.run(0)
    assert pool.history[0]["value"] == 4.0


def test_choices_that_no_table_has_are_refused_by_name(pool_of) -> None:
    pool = pool_of(optuna.create_study(), lambda trial: trial.suggest_categorical("layers", [(64,), (64, 32)]))
    with pytest.raises(TypeError, match=r"'layers' has the choice \(64,\) of type tuple"):
        pool.run(0)


def test_a_history_that_is_damaged_costs_only_what_it_told(pool_of) -> None:
    pool = pool_of(optuna.create_study(sampler=SAMPLERS["tpe"]()), bowl)
    pool.run(*range(6))
    pool.history[1]["memo"] = "{"
    pool.history[2]["parameters"] = None
    pool.history[3]["value"] = "high"
    pool.history[4]["state"] = "unheard of"
    pool.history[5]["curve"] = [[1]]
    pool.run(6)
    assert pool.history[6]["state"] == "complete"


def test_the_runner_makes_a_trial_of_a_study(place) -> None:
    """In a process of its own: choices, reports and results reach the pool; a pruned trial has no result."""
    text = """
import optuna
def f(trial, start):
    from springtide.training import current_job
    x = trial.suggest_float("x", start, start + 1)
    current_job().report(step=0, of=1, loss=x)
    if trial.number == 1:
        raise optuna.TrialPruned
    return x
"""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    study = cloudpickle.dumps(optuna.create_study())
    payload = {"function": namespace["f"], "kwargs": {"start": 5}, "study": study, "seed": 0, "metric": "loss"}
    (place.root / "code").mkdir()
    (place.root / "code" / "payload.pkl").write_bytes(payload_of(payload))
    told: list[dict[str, Any]] = []
    for number in (0, 1):
        (place.root / "code" / "trials.json").write_text(json.dumps(told))
        trial = {"SPRINGTIDE_SWEEP": "sweep", "SPRINGTIDE_TRIAL": str(number)}
        more = {"SPRINGTIDE_OUTPUT_DIR": str(place.root / f"output-{number}")}
        code, _, err = place.run(*RUN, str(place.root / "code" / "payload.pkl"), **trial, **more)
        assert code == 0, err
        last = [line["trial"] for line in place.reports() if "trial" in line][-1]
        told.append({"trial": number, "state": "pruned" if last["pruned"] else "complete", **last})
    assert [each["state"] for each in told] == ["complete", "pruned"]
    assert all(5 <= each["parameters"]["x"] == each["value"] for each in told)
    assert pickle.loads((place.root / "output-0" / "result.pkl").read_bytes()) == told[0]["value"]
    assert not (place.root / "output-1" / "result.pkl").exists()
    assert json.loads((place.root / "output-1" / "trial.json").read_text()) == last
