"""For LightGBM: ``train(params, data, num_boost_round=…)`` in place of ``lightgbm.train``."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import Any, Callable, Dict, Optional, Sequence

from springtide.training.adapters.rounds import Rounds
from springtide.training.job import Job, current_job

FILE = "model.txt"
SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed", "drop_seed")
"""The names of LightGBM for seeds of the draws of each round."""
PATIENCE = ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change")
"""The names of LightGBM for early stopping as a parameter."""


def train(
    params: Dict[str, Any],
    train_set: Any,
    num_boost_round: int = 100,
    *,
    callbacks: Optional[Sequence[Any]] = None,
    job: Optional[Job] = None,
    **more: Any,
) -> Any:
    """Train as ``lightgbm.train`` with the same arguments, from the newest checkpoint on, and return the booster.

    It reports each round and pauses between two of them; ``num_boost_round`` counts those before a pause too. With
    subsampled rows or columns a resumed training draws others than one without a pause: LightGBM does not give the
    state of its random numbers away.
    """
    framework: Any = import_module("lightgbm")
    mine = current_job() if job is None else job
    kept = list(callbacks or ())
    patience = next((params[name] for name in PATIENCE if params.get(name)), 0)
    params = {name: value for name, value in params.items() if name not in PATIENCE}
    if patience > 0:
        kept.append(framework.early_stopping(patience, params.get("first_metric_only", False), verbose=False))
    rounds = Rounds(mine, FILE, kept, num_boost_round)
    model, done = rounds.restore()
    if model is not None and done >= num_boost_round:
        return framework.Booster(model_file=str(model))
    if done:  # not the samples of the first rounds again
        params.update({name: int(params.get(name, params.get("seed", 0))) + done for name in SEEDS})

    def report(env: Any) -> None:
        values = {f"{each[0]}_{each[1]}": each[2] for each in env.evaluation_result_list or ()}
        rounds.done(env.iteration + 1, lambda path: env.model.save_model(str(path), num_iteration=-1), {}, values)

    theirs = [_from_the_first_round(each, index - len(kept)) for index, each in enumerate(kept)]
    return framework.train(
        params,
        train_set,
        num_boost_round - done,
        init_model=None if model is None else str(model),
        callbacks=[*theirs, _placed(report, order=1000, before=False)],
        **more,
    )


def _from_the_first_round(callback: Callable[[Any], Any], order: int) -> Callable[[Any], Any]:
    """Return a callback that sees a resumed training as one from the first round on, and keeps its state."""
    return _placed(
        lambda env: callback(_begun_at_zero(env)),
        order=getattr(callback, "order", order),
        before=getattr(callback, "before_iteration", False),
    )


def _begun_at_zero(env: Any) -> Any:
    if dataclasses.is_dataclass(env):
        return dataclasses.replace(env, begin_iteration=0)  # type: ignore[type-var]
    return env._replace(begin_iteration=0)


def _placed(callback: Callable[[Any], Any], *, order: int, before: bool) -> Callable[[Any], Any]:
    placed: Any = callback
    placed.order, placed.before_iteration = order, before
    return callback
