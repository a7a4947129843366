"""Rules by which placements are compared: when one counts as faster, and which number of GPUs pays; pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import NormalDist, median
from typing import TypeVar

S = TypeVar("S")

MIN_RUNS = 3
"""Minimum number of runs of each placement that are compared: the median of three bears one outlier."""
NOTABLE_RATIO = 1.1
"""Minimum ratio of two speeds that is reported."""
SIGNIFICANCE = 0.05
"""Significance level: the maximum probability of a difference between equally fast placements."""


def times_as_fast(
    faster: Sequence[float],
    slower: Sequence[float],
    notable: float = NOTABLE_RATIO,
    significance: float = SIGNIFICANCE,
) -> float | None:
    """Return how many times as fast the first runs were, by their medians; None if that may be chance.

    None, too, if they were less than ``notable`` times as fast. Both are speeds of runs, at least `MIN_RUNS` each.

    The rank-sum test of Mann and Whitney ("On a test of whether one of two random variables is stochastically
    larger than the other", Annals of Mathematical Statistics 18, 1947), one-sided, in the normal approximation
    with its correction for continuity, has to show a difference: of three runs each, all of one have to be faster
    than all of the other. It assumes nothing of how speeds vary, and a few runs beside a busy neighbour do not
    change it.
    """
    if min(len(faster), len(slower)) < MIN_RUNS:
        return None
    ratio = median(faster) / median(slower)
    return ratio if ratio >= notable and _chance(faster, slower) <= significance else None


def _chance(faster: Sequence[float], slower: Sequence[float]) -> float:
    """Return the probability that runs of equal speed are at least so far apart by chance."""
    pairs = len(faster) * len(slower)
    wins = sum((a > b) + 0.5 * (a == b) for a in faster for b in slower)
    deviation = math.sqrt(pairs * (len(faster) + len(slower) + 1) / 12)
    return 1.0 - NormalDist().cdf((wins - pairs / 2 - 0.5) / deviation)


def usually_times_as_fast(
    ratios: Collection[float], notable: float = NOTABLE_RATIO, significance: float = SIGNIFICANCE
) -> float | None:
    """Return how many times as fast works usually are in one placement, None if that may be chance.

    Each ratio is of the speeds of one work in two placements, so that works which are fast anywhere do not count
    for the placement that they happened to have. The sign test (Dixon and Mood, "The statistical sign test",
    Journal of the American Statistical Association 41, 1946), one-sided, has to agree: all of five works, or seven
    of eight, are faster. The result is the median of the ratios, None below ``notable``.
    """
    if not ratios:
        return None
    usual, faster = median(ratios), sum(ratio > 1 for ratio in ratios)
    n = len(ratios)
    chance = sum(math.comb(n, wins) for wins in range(faster, n + 1)) / 2**n
    return usual if usual >= notable and chance <= significance else None


def best_size(speeds: Mapping[S, float], gpus: Mapping[S, int]) -> S:
    """Return the size whose speed is worth its GPUs: the one with the highest square of the speed per GPU.

    That is the knee at which efficiency per execution time is highest (Eager, Zahorjan and Lazowska, "Speedup
    versus efficiency in parallel systems", IEEE Transactions on Computers 38, 1989). Twice the GPUs pay from 1.41
    times the speed on. Of equals the smaller one is returned.
    """
    return min(speeds, key=lambda size: (-(speeds[size] ** 2) / gpus[size], gpus[size]))
