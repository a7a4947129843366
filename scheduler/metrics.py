"""The metrics of a job: their values, the best one of each, and that at a step; pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from typing import Final, Literal, NamedTuple, Self, TypeAlias

MAX_METRICS: Final = 1024
"""Maximum number of metrics of a job whose last and best values are kept: the first ones that it reported."""

Goal: TypeAlias = Literal["min", "max"]
"""Whether the smallest or the largest value of a metric is the best."""


class NotFinite(float, Enum):
    """A number that is not finite: a float in Python, in JSON a text, which ``Number()`` of JavaScript reads."""

    NAN = "NaN"
    INFINITY = "Infinity"
    MINUS_INFINITY = "-Infinity"

    def __new__(cls, text: str) -> Self:
        """Return the number in a text, which is the value of the member."""
        number = float.__new__(cls, text)
        number._value_ = text
        return number

    __format__ = float.__format__  # type: ignore[assignment]
    __str__ = float.__str__
    __repr__ = float.__repr__


SPELLINGS: Final = tuple(each.value for each in NotFinite)
"""Numbers that are not finite, as JSON has them."""
Value: TypeAlias = float | NotFinite
"""The value of a metric, as `value` makes it: JSON has no other numbers that are not finite."""
Values: TypeAlias = Mapping[str, Value]

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


def value(number: float) -> Value:
    """Return a number as the value of a metric."""
    if math.isfinite(number):
        return number
    if math.isnan(number):
        return NotFinite.NAN
    return NotFinite.INFINITY if number > 0 else NotFinite.MINUS_INFINITY


def value_of(reported: object) -> Value | None:
    """Return the value of a metric that a job reported as JSON, None for anything but a number."""
    if isinstance(reported, str):
        return NotFinite(reported) if reported in SPELLINGS else None
    if isinstance(reported, bool) or not isinstance(reported, int | float):
        return None
    try:
        return value(float(reported))
    except OverflowError:
        return NotFinite.INFINITY if reported > 0 else NotFinite.MINUS_INFINITY


def latest(known: Values, values: Values) -> dict[str, Value]:
    """Return the last value of each metric after a report, of at most `MAX_METRICS` metrics."""
    both = {**known, **values}
    return both if len(both) <= MAX_METRICS else dict(islice(both.items(), MAX_METRICS))


def since(known: Mapping[str, float | None], values: Values, step: float | None) -> dict[str, float | None]:
    """Return the steps since which metrics are not finite, by their names, after a report."""
    lost = {name: known.get(name, step) for name, each in values.items() if not math.isfinite(each)}
    if known:
        lost = {**{name: at for name, at in known.items() if name not in values}, **lost}
    return lost if len(lost) <= MAX_METRICS else dict(islice(lost.items(), MAX_METRICS))


def with_values(known: Mapping[str, Extremes], values: Values, step: float | None) -> dict[str, Extremes]:
    """Return the extremes after a report; values that are not finite count for none."""
    found = {name: Extremes(each, step, each, step) for name, each in values.items() if math.isfinite(each)}
    return merged(known, found)


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


def values_at(reports: Iterable[tuple[float | None, Values]], step: float) -> dict[str, Value]:
    """Return the value of each metric at a step: the newest one at it, else at the last step before it.

    ``reports`` are pairs of step and values, in the order in which they came.
    """
    found: dict[str, tuple[float, Value]] = {}
    for at, values in reports:
        if at is None or at > step:
            continue
        for name, each in values.items():
            if name not in found or found[name][0] <= at:
                found[name] = (at, each)
    return {name: each for name, (_, each) in found.items()}
