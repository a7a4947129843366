"""For XGBoost: ``train(params, data, num_boost_round=…)`` in place of ``xgboost.train``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Dict, Optional, Sequence

from springtide.training.adapters.rounds import Rounds
from springtide.training.job import Job, current_job

FILE = "model.ubj"


def train(
    params: Dict[str, Any],
    dtrain: Any,
    num_boost_round: int = 10,
    *,
    callbacks: Optional[Sequence[Any]] = None,
    early_stopping_rounds: Optional[int] = None,
    maximize: Optional[bool] = None,
    job: Optional[Job] = None,
    **more: Any,
) -> Any:
    """Train as ``xgboost.train`` with the same arguments, from the newest checkpoint on, and return the booster.

    It reports each round and pauses between two of them; ``num_boost_round`` counts those before a pause too. With
    subsampled rows or columns a resumed training draws others than one without a pause: XGBoost does not give the
    state of its random numbers away.
    """
    framework: Any = import_module("xgboost")
    mine = current_job() if job is None else job
    kept = list(callbacks or ())
    if early_stopping_rounds:
        kept.append(framework.callback.EarlyStopping(rounds=early_stopping_rounds, maximize=maximize))
    rounds = Rounds(mine, FILE, kept, num_boost_round)
    model, done = rounds.restore()
    name = "random_state" if "random_state" in params else "seed"
    params = {**params, name: int(params.get(name, 0)) + done}  # not the samples of the first rounds again

    class Springtide(framework.callback.TrainingCallback):  # type: ignore[misc]
        def before_iteration(self, _model: Any, epoch: int, evals_log: Any) -> bool:
            if epoch == 0:
                evals_log.update(rounds.history)
            return False

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            values = {
                f"{data}_{name}": scores[-1] for data, log in evals_log.items() for name, scores in log.items()
            }
            rounds.done(done + epoch + 1, lambda path: model.save_model(str(path)), evals_log, values)
            return False

    if model is not None and done >= num_boost_round:
        return framework.Booster(params, model_file=str(model))
    return framework.train(
        params,
        dtrain,
        num_boost_round - done,
        xgb_model=None if model is None else str(model),
        callbacks=[*kept, Springtide()],
        **more,
    )
