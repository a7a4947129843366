"""The metrics of a job: the best value of each, and its value at a step; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

MAX_METRICS: Final = 64
"""Maximum number of metrics of a job whose best values are kept."""

Goal: TypeAlias = Literal["min", "max"]
"""Whether the smallest or the largest value of a metric is the best."""
Values: TypeAlias = Mapping[str, float]

_WORDS = re.compile(r"[a-z]+\d*")
_LARGE_IS_GOOD = re.compile(
    r"acc|accuracy|auc|auroc|auprc|ap|map|f1|precision|recall|sensitivity|specificity|score|rewards?|returns?|bleu"
    r"|rouge|meteor|cider|iou|miou|dice|psnr|ssim|r2|ndcg|mrr|hits?|top|kappa|mcc|wins?|elo|success|throughput|speed"
    r"|utilization|likelihood|elbo|similarity|gain|correct"
)
_SMALL_IS_GOOD = re.compile(r"loss|error|err|nll|perplexity|ppl|mse|mae|rmse|time")
_RATES: Final = ("per_s", "per_sec", "/s", "/sec", "_per_second")


class Extremes(NamedTuple):
    """The smallest and the largest value of a metric, and the steps at which they were reported first."""

    least: float
    least_step: float | None
    most: float
    most_step: float | None


class Best(NamedTuple):
    """The best value of a metric, and the step at which it was reported; None if it had none."""

    value: float
    step: float | None


def goal_of(name: str) -> Goal:
    """Return whether small or large values of a metric are good, by the words of its name: else small ones."""
    lower = name.lower()
    words = [part for word in _WORDS.findall(lower) for part in (word, word.rstrip("0123456789"))]
    if any(map(_SMALL_IS_GOOD.fullmatch, words)):
        return "min"
    return "max" if any(map(_LARGE_IS_GOOD.fullmatch, words)) or lower.endswith(_RATES) else "min"


def best_of(extremes: Extremes, goal: Goal) -> Best:
    """Return the best value."""
    if goal == "max":
        return Best(extremes.most, extremes.most_step)
    return Best(extremes.least, extremes.least_step)


def with_values(known: Mapping[str, Extremes], values: Values, step: float | None) -> dict[str, Extremes]:
    """Return the extremes after a report."""
    return merged(known, {name: Extremes(value, step, value, step) for name, value in values.items()})


def merged(known: Mapping[str, Extremes], others: Mapping[str, Extremes]) -> dict[str, Extremes]:
    """Return the extremes of both; of equal values the step of the known one, and no more than `MAX_METRICS`."""
    both = dict(known)
    for name, other in others.items():
        own = both.get(name)
        if own is None:
            if len(both) < MAX_METRICS:
                both[name] = other
            continue
        least, most = other.least < own.least, other.most > own.most
        if least or most:
            both[name] = Extremes(
                *((other.least, other.least_step) if least else (own.least, own.least_step)),
                *((other.most, other.most_step) if most else (own.most, own.most_step)),
            )
    return both


def values_at(reports: Iterable[tuple[float | None, Values]], step: float) -> dict[str, float]:
    """Return the value of each metric at a step: the newest one at it, else at the last step before it.

    ``reports`` are pairs of step and values, in the order in which they came.
    """
    found: dict[str, tuple[float, float]] = {}
    for at, values in reports:
        if at is None or at > step:
            continue
        for name, value in values.items():
            if name not in found or found[name][0] <= at:
                found[name] = (at, value)
    return {name: value for name, (_, value) in found.items()}
