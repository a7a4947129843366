"""Find the rate and the depth of a small network on the handwritten digits that scikit-learn ships.

A sweep of 24 trials, those of a grid; with ``--study`` a study of Optuna chooses and ends bad trials early. Run
it in a notebook or a terminal of the hub: ``python parameters.py``.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from springtide.training import current_job
from springtide.widgets import pool

EPOCHS = 20


def train(rate: float, layers: int, width: int = 64, trial: Any = None) -> float:
    """Train a network; return its error on unseen digits. It saves after each epoch, and can be paused."""
    job = current_job()
    images, digits = load_digits(return_X_y=True)
    seen, unseen, known, wanted = train_test_split(images / 16, digits, test_size=0.25, random_state=0)
    found = job.restore()
    model, done = found.state if found else (MLPClassifier([width] * layers, learning_rate_init=rate), 0)
    error = 1.0
    with threadpool_limits(1):
        for epoch in range(done, EPOCHS):
            model.partial_fit(seen, known, classes=np.unique(digits))
            error = 1 - float(model.score(unseen, wanted))
            job.report(step=epoch + 1, of=EPOCHS, error=error)
            job.save((model, epoch + 1), step=epoch + 1)
            if job.should_pause():
                job.exit_for_pause()
            if trial is not None and trial.should_prune():
                import optuna  # noqa: PLC0415 - only studies need it

                raise optuna.TrialPruned
    return error


def objective(trial: Any) -> float:
    """Let a study of Optuna choose the parameters."""
    rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    return train(rate, trial.suggest_int("layers", 1, 3), trial.suggest_categorical("width", [32, 64, 128]), trial)


def main() -> None:
    """Send the sweep, wait for it and show what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", action="store_true", help="let a study of Optuna choose the parameters")
    parser.add_argument("--trials", type=int, default=24, help="number of trials")
    asked = parser.parse_args()
    if asked.study:
        import optuna  # noqa: PLC0415 - only studies need it

        study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_warmup_steps=5))
        sweep = pool.sweep(objective, study, trials=asked.trials, metric="error", name="digits")
    else:
        space = {"rate": [1e-4, 1e-3, 1e-2, 1e-1], "layers": [1, 2, 3], "width": [64, 128]}
        sweep = pool.sweep(train, space, trials=asked.trials, metric="error", name="digits")
    sweep.wait()
    print(sweep.trials(sort="value"))
    print(sweep.best)


if __name__ == "__main__":
    main()
