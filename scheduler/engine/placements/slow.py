"""Which placement of a work is fastest, and whether the present one of a job is slow; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from springtide.scheduler.engine.placements.comparison import (
    NOTABLE_RATIO,
    times_as_fast,
    usually_times_as_fast,
)
from springtide.scheduler.engine.placements.speed import MEASURES, Placed, Speed
from springtide.scheduler.engine.placements.statistics import Measured, Speeds
from springtide.scheduler.model import Spread

Known = Mapping[Measured, Speeds]
"""Speeds of one work by placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPlacement:
    """A running job is placed in a way in which jobs like it were slower than in another.

    They were ``times`` as fast with the spread ``faster``, known from ``faster_runs`` there and ``runs`` with the
    present one; or from ``works``, the number of other works of the pool.
    """

    spread: Spread
    faster: Spread
    times: float
    runs: int = 0
    faster_runs: int = 0
    works: int = 0

    def longer(self, left: float) -> float:
        """Return how much longer the rest of a job takes that has ``left`` seconds to go, in seconds."""
        return left * (1 - 1 / self.times)


def slow_by_same_work(known: Known, placed: Placed, own: Speed | None) -> tuple[SlowPlacement | None, bool]:
    """Return with which other spread runs of the work were faster, and whether they tell it at all.

    They do if enough of them had the present spread, and enough another. ``own`` is the speed of the job itself so
    far: one that is as fast as those with the other spread is not slow.
    """
    for measure in MEASURES:
        here = known.get(Measured(placed, measure))
        others = [(spread, speeds) for spread, speeds in _other_spreads(known, placed, measure) if speeds.enough]
        if here is None or not here.enough or not others:
            continue
        found = [
            SlowPlacement(
                spread=placed.spread,
                faster=spread,
                times=times,
                runs=len(here.per_second),
                faster_runs=len(speeds.per_second),
            )
            for spread, speeds in others
            if (times := times_as_fast(speeds.per_second, here.per_second)) is not None
            and not (own and own.measure == measure and own.per_second * NOTABLE_RATIO > speeds.usual)
        ]
        return max(found, key=lambda each: each.times, default=None), True
    return None, False


def slow_by_other_works(
    ratios: Iterable[tuple[Spread, tuple[float, ...]]], placed: Placed
) -> SlowPlacement | None:
    """Return with which other spread works of the pool were faster; ``ratios`` are theirs, by that spread."""
    found = [
        SlowPlacement(spread=placed.spread, faster=spread, times=times, works=len(of_works))
        for spread, of_works in ratios
        if (times := usually_times_as_fast(of_works)) is not None
    ]
    return max(found, key=lambda each: each.times, default=None)


def spreads_by_speed(known: Known, size: tuple[int, int], gpu_type: str) -> list[tuple[Spread, Speeds]]:
    """Return the spreads of a size (workers, GPUs of each) on a GPU type with enough runs, the fastest first.

    Steps count where enough runs of any spread report some, and whole runs otherwise.
    """
    for measure in MEASURES:
        found = [
            (placed.spread, speeds)
            for (placed, counted), speeds in known.items()
            if (counted, placed.gpu_type, placed.workers, placed.gpus) == (measure, gpu_type, *size)
            and speeds.enough
        ]
        if found:
            return sorted(found, key=lambda each: -each[1].usual)
    return []


def fastest_spread(known: Known, size: tuple[int, int]) -> Spread | None:
    """Return the spread with which runs of a size were notably faster than with the next, None if none is.

    Spreads are compared on GPUs of one type, the one on which the most spreads were measured.
    """
    types = dict.fromkeys(placed.gpu_type for placed, _ in known)
    measured = max((spreads_by_speed(known, size, each) for each in types), key=len, default=[])
    if len(measured) < 2:
        return None
    (spread, first), (_, second), *_ = measured
    return None if times_as_fast(first.per_second, second.per_second) is None else spread


def untried_spread(known: Known, size: tuple[int, int]) -> Spread | None:
    """Return a spread that runs of a size have had, but too rarely to be compared with one that is known.

    The one with the most runs is returned, so that it is known soonest; None if there is none. What no run has had
    is not tried, so that a work costs at most ``MIN_RUNS - 1`` runs for each spread that it met anyway.
    """
    for gpu_type in dict.fromkeys(placed.gpu_type for placed, _ in known):
        if not spreads_by_speed(known, size, gpu_type):
            continue
        rare = [
            (len(speeds.per_second), placed.spread)
            for (placed, _), speeds in known.items()
            if (placed.gpu_type, placed.workers, placed.gpus) == (gpu_type, *size) and not speeds.enough
        ]
        if rare:
            return max(rare, key=lambda each: each[0])[1]
    return None


def _other_spreads(known: Known, placed: Placed, measure: str) -> Iterator[tuple[Spread, Speeds]]:
    """Iterate over what was measured of runs of the same size on the same GPU type, with other spreads."""
    for (other, counted), speeds in known.items():
        if counted == measure and other[:3] == placed[:3] and other.spread != placed.spread:
            yield other.spread, speeds
