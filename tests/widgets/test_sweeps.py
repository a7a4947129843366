"""Sweeps in a real pool: functions over items and spaces, studies of Optuna, and what comes of their trials."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import optuna
import pytest

from springtide.scheduler.wire.run_table import csv_of
from springtide.training import current_job
from springtide.widgets.connection import PoolError
from springtide.widgets.display.document import JOB_TYPE
from springtide.widgets.errors import (
    JobFailedError,
    NoResultError,
    NotFinishedError,
    OptionError,
    UntrustedResultError,
)
from springtide.widgets.job import Job
from springtide.widgets.results import job_rows
from springtide.widgets.sweep import Sweep

EXAMPLE = Path(__file__).parents[2] / "examples/sweeps/parameters.py"
LIMIT_S = 90


def test_a_function_is_called_for_each_item_and_its_results_come_in_order(pool, workdir) -> None:
    words = ["tide", "spring"]
    sweep = pool.map(lambda word, times: word * times, words, times=2, name="words")
    assert sweep.results(LIMIT_S) == ["tidetide", "springspring"]
    assert (sweep.name, sweep.state, len(sweep)) == ("words", "succeeded", 2)
    again = pool.job(sweep.id)
    assert isinstance(again, Sweep)
    assert isinstance(sweep[1], Job)
    assert again == sweep == pickle.loads(pickle.dumps(sweep))
    assert sweep[-1].result() == "springspring"
    assert [row.parameters for row in sweep.trials()] == [{"item": "tide"}, {"item": "spring"}]
    assert [handle for handle in pool.jobs(search="words") if isinstance(handle, Job)] == []
    with pytest.raises(IndexError, match="2 trials, numbered from 0; there is no trial 2"):
        sweep[2]


def test_a_trial_that_ended_its_process_has_no_result(pool, workdir) -> None:
    def leave(code: int) -> int:
        return sys.exit(0) if code else code

    sweep = pool.map(leave, [0, 1])
    with pytest.raises(NoResultError, match=r"Trial 1 has no result\. .*before the function or cell returned"):
        sweep.results(LIMIT_S)
    assert sweep.results(missing="none") == [0, "none"]


def test_a_sweep_compares_its_trials_and_shows_them(pool, workdir, capsys) -> None:
    def bowl(x: float, y: float) -> float:
        job = current_job()
        for step in range(3):
            job.report(step=step, of=3, loss=x * x + y * y + 2 - step)
        return x * x + y * y

    sweep = pool.sweep(bowl, {"x": [3, 1], "y": [0.5, -2.0]}, metric="loss", name="bowl")
    sweep.wait(LIMIT_S)
    bar = capsys.readouterr().out
    assert "4 of 4 trials ended" in bar
    assert (sweep.best.trial, sweep.best.value, sweep.best.parameters) == (2, 1.25, {"x": 1, "y": 0.5})
    assert [row.value for row in sweep.trials(sort="value")] == [1.25, 5.0, 9.25, 13.0]
    table = repr(sweep.trials())
    assert table.splitlines()[0].split() == ["trial", "state", "x", "y", "loss", "step", "attempts", "error"]
    assert table.splitlines()[3].split() == ["2", "✔", "succeeded", "1", "0.5", "1.25", "2", "of", "3", "1"]
    frame = sweep.to_frame()
    assert list(frame["x"]) == [3, 3, 1, 1]
    assert list(frame["loss"]) == [9.25, 13.0, 1.25, 5.0]
    assert "value" not in frame, "the compared value has the name of the metric, and is there once"
    assert {str(frame[name].dtype) for name in ("started", "ended")} == {"datetime64[ns, UTC]"}
    assert (frame["ended"] > frame["started"]).all()
    shown = sweep._repr_mimebundle_()
    assert "Sweep bowl" in shown["text/plain"]
    assert "Best loss 1.25 in trial 2 (x 1, y 0.5)" in shown["text/plain"]
    assert "<td" in shown["text/html"]
    assert shown[JOB_TYPE]["job"]["trials"]["succeeded"] == 4
    assert "application/vnd.jupyter.widget-view+json" in shown
    study = sweep.study()
    assert (study.best_value, study.best_params) == (1.25, {"x": 1, "y": 0.5})
    assert study.trials[0].intermediate_values == {0: 11.25, 1: 10.25, 2: 9.25}


def test_parameters_come_back_as_they_were_given(pool, workdir) -> None:
    def one(layers: Any) -> float:
        return 1.0 if layers is not None else 2.0

    given = [[64, 64], (1, "a"), {"depth": 3}, 2**70, 2**60, float("inf"), "[64]", "x" * 500, None, True]
    sweep = pool.sweep(one, [{"layers": value} for value in given], metric="value", name="kinds")
    sweep.wait(LIMIT_S)
    rows = sweep.trials()
    assert [row.parameters["layers"] for row in rows] == given
    assert list(sweep.to_frame()["layers"]) == given
    assert sweep.best.parameters["layers"] in given
    assert "[64, 64]" in repr(rows)
    assert "Best value 1 in trial 0 (layers [64, 64])" in sweep._repr_mimebundle_()["text/plain"]
    assert {row["layers"] for row in job_rows(sweep[place].info for place in (1, 3, 6, 7))} == {
        given[place] for place in (1, 3, 6, 7)
    }
    line = csv_of([sweep[7].info], 0.0)
    assert "x" * 500 in line
    job = pool.submit(
        lambda sizes, rate: (sizes, rate), kwargs={"sizes": [1, 2], "rate": float("nan")}, name="alone"
    )
    (row,) = job_rows([job.wait(LIMIT_S, quiet=True).info])
    assert (row["sizes"], str(row["rate"])) == ([1, 2], "nan")


def test_trials_that_fail_are_named_and_may_be_tried_again(pool, workdir, until) -> None:
    mended = workdir / "mended"

    def picky(item: int) -> int:
        if item == 1 and not mended.exists():
            raise OSError("no data at /x")
        while item == 2 and not mended.exists():
            time.sleep(0.02)
        return item

    sweep = pool.map(picky, [0, 1, 2])
    until(lambda: [row.state for row in sweep.trials()] == ["succeeded", "failed", "running"])
    assert [row.trial for row in sweep.trials(state="failed")] == [1]
    with pytest.raises(NotFinishedError, match="still running"):
        sweep.results(0)
    first = sweep[1]
    sweep.retry()
    until(lambda: sweep[1] != first and sweep[1].state == "failed")
    mended.touch()
    sweep.wait(LIMIT_S, quiet=True)
    with pytest.raises(JobFailedError, match=r"Trial 1 has no result\. It failed.*See sweep\[1\]") as raised:
        sweep.results()
    assert "OSError: no data at /x" in raised.value.traceback
    assert sweep.results(missing=None) == [0, None, 2]
    assert (sweep.state, sweep.shown) == ("succeeded", "succeeded, 1 of 3 trials failed")
    with pytest.raises(PoolError, match=r"\(succeeded, 1 of 3 trials failed\), and begins no more trials"):
        sweep.retry()
    failed = [trial.parameters["item"] for trial in sweep.trials(state="failed")]
    assert pool.map(picky, failed).results(LIMIT_S) == [1]


def test_ended_trials_stay_when_the_rest_is_cancelled(pool, workdir, until) -> None:
    def first_only(item: int) -> int:
        time.sleep(600 * min(item, 1))
        return item

    sweep = pool.map(first_only, range(12), at_most=2)
    until(lambda: sweep.info.trials.succeeded == 1 and sweep.info.trials.running)
    with pytest.raises(OptionError, match="at_most is 0; expected the number of trials that are unfinished"):
        sweep.set(at_most=0)
    sweep.set(at_most=1)
    assert sweep.info.trials.at_most == 1
    sweep.cancel()
    until(lambda: sweep.done)
    assert sweep.state == "cancelled"
    assert sweep.results(missing="-")[:2] == [0, "-"]
    with pytest.raises(NotFinishedError, match="Trial 11 has not begun"):
        sweep[11]


def test_results_of_another_person_are_not_loaded_unasked(pool_of, workdir) -> None:
    sweep = pool_of("susan").map(len, ["x"]).wait(LIMIT_S, quiet=True)
    theirs = pool_of("joe").job(sweep.id)
    with pytest.raises(UntrustedResultError, match=r"susan.*sweep\.results\(trust=True\)"):
        theirs.results()
    assert theirs.results(trust=True) == [1]


def test_a_sweep_can_be_awaited(pool, workdir) -> None:
    async def both() -> Any:
        return await asyncio.wait_for(_results(pool.map(len, ["ab", "c"])), LIMIT_S)

    assert asyncio.run(both()) == [2, 1]


async def _results(sweep: Sweep) -> Any:
    return await sweep


# ---------- studies


def test_a_study_learns_from_the_trials_before_and_prunes_by_what_they_reported(pool, workdir) -> None:
    def objective(trial: Any) -> float:
        known = trial.study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
        x = trial.suggest_float("x", 0, 1, log=False)
        trial.report(10.0 * len(known), 0)
        if trial.should_prune():
            raise optuna.TrialPruned
        return float(sum("x" in each.distributions for each in known)) + x / 1000

    study = optuna.create_study(
        direction="minimize", pruner=optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=0)
    )
    sweep = pool.sweep(objective, study, trials=4, at_most=1, metric="loss", seed=5)
    sweep.wait(LIMIT_S, quiet=True)
    rows = sweep.trials()
    assert [row.state for row in rows] == ["succeeded", "succeeded", "succeeded", "pruned"]
    assert [int(row.value) for row in rows] == [0, 1, 2, 30]
    assert len({row.parameters["x"] for row in rows}) == 4
    found = sweep.study()
    assert [trial.state.name for trial in found.trials] == ["COMPLETE", "COMPLETE", "COMPLETE", "PRUNED"]
    assert found.best_params == sweep.best.parameters
    assert found.trials[0].distributions == {"x": optuna.distributions.FloatDistribution(0, 1)}
    with pytest.raises(NoResultError, match=r"Trial 3 was pruned"):
        sweep[3].result()


def test_a_trial_of_a_study_keeps_its_parameters_when_it_is_paused(pool, workdir, until) -> None:
    tried = workdir / "tried"

    def objective(trial: Any) -> float:
        job = current_job()
        x = float(trial.suggest_float("x", 0, 1))
        with tried.open("a") as file:
            file.write(f"{x}\n")
        job.report(step=job.attempt, value=x)
        while job.attempt == 1:
            time.sleep(0.02)
            if job.should_pause():
                job.save(x, step=1)
                job.exit_for_pause()
        return x

    sweep = pool.sweep(objective, optuna.create_study(), trials=1)
    until(lambda: tried.exists() and sweep.state == "running")
    sweep.pause()
    until(lambda: sweep.state == "paused" and sweep[0].state == "paused")
    sweep.resume()
    sweep.wait(LIMIT_S, quiet=True)
    first, second = tried.read_text().split()
    assert float(first) == float(second) == sweep.best.parameters["x"]
    assert [step for step, _ in sweep.trials()[0].curve] == [1, 2]


def test_a_study_with_a_storage_has_all_trials_itself(pool, workdir) -> None:
    def objective(trial: Any) -> float:
        return float(trial.suggest_int("x", 0, 100))

    study = optuna.create_study(storage="sqlite:///study.db", study_name="mine")
    sweep = pool.sweep(objective, study, trials=3, at_most=2)
    sweep.wait(LIMIT_S, quiet=True)
    found = optuna.load_study(study_name="mine", storage="sqlite:///study.db")
    assert sorted(trial.params["x"] for trial in found.trials) == sorted(
        row.parameters["x"] for row in sweep.trials()
    )
    assert found.best_value == sweep.best.value


def test_an_objective_without_a_value_fails_in_words(pool, workdir) -> None:
    def objective(trial: Any) -> None:
        trial.suggest_int("x", 0, 1)

    sweep = pool.sweep(objective, optuna.create_study(), trials=1).wait(LIMIT_S, quiet=True)
    assert sweep.state == "failed"
    with pytest.raises(JobFailedError, match=r"returned NoneType None, which is no value of a trial"):
        sweep[0].result()


# ---------- the example


@pytest.mark.parametrize("how", [(), ("--study",)])
def test_the_example_finds_parameters(service: str, pool, workdir: Path, how: tuple[str, ...]) -> None:
    command = [sys.executable, str(EXAMPLE), "--trials", "1", *how]
    env = {**os.environ, "SPRINGTIDE_URL": service, "JUPYTERHUB_API_TOKEN": "susan"}
    done = subprocess.run(command, cwd=workdir, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    table, best = done.stdout.splitlines()[-3:-1], done.stdout.splitlines()[-1]
    assert table[0].split()[:2] == ["trial", "state"]
    assert "✔ succeeded" in table[1]
    assert best.startswith("Best(trial=0")
