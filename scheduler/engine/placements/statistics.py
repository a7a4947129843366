"""Speeds of attempts by work and placement, and how placements compare over all works of the pool."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from springtide.scheduler.engine.placements.comparison import MIN_RUNS
from springtide.scheduler.engine.placements.speed import RUNS, Placed, Speed, Work
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.model import Spread

MAX_WORKS = 2_000
"""Maximum number of works, the most recently used ones."""
MAX_PLACEMENTS = 24
"""Maximum number of placements of one work, those that had attempts most recently."""
MAX_SPEEDS = 30
"""Maximum number of speeds of one placement of a work, the latest ones."""
MAX_PAIRS = 500
"""Maximum number of pairs of placements that are compared over all works."""
MAX_RATIOS = 200
"""Maximum number of works that are compared for one pair of placements, the latest ones."""


@dataclass(slots=True)
class Speeds:
    """Speeds in one placement of a work, and the same as a part of the whole job per second, if known."""

    per_second: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SPEEDS))
    whole_per_second: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SPEEDS))
    usual: float = 0.0
    """Median of ``per_second``."""

    def add(self, speed: Speed) -> None:
        """Add the speed of an attempt."""
        self.per_second.append(speed.per_second)
        self.usual = median(self.per_second)
        of = 1.0 if speed.of is None and speed.measure == RUNS else speed.of
        if of:
            self.whole_per_second.append(speed.per_second / of)

    @property
    def enough(self) -> bool:
        """Whether these are enough runs to compare them with others."""
        return len(self.per_second) >= MIN_RUNS


class Measured(NamedTuple):
    """A placement of a work, and its measure: steps or runs."""

    placed: Placed
    measure: str


class PlacementStats:
    """Speeds by work and placement; adding an attempt takes constant time."""

    def __init__(self) -> None:
        self._works: LruCache[Work, dict[Measured, Speeds]] = LruCache(MAX_WORKS)
        self._ratios: LruCache[tuple[str, Spread], dict[Spread, dict[tuple[Work, int, int], float]]]
        self._ratios = LruCache(MAX_PAIRS)

    def add(self, work: Work, placed: Placed, speed: Speed) -> None:
        """Add the speed of an attempt."""
        known = self._works.get_or_put(work, dict)
        measured = Measured(placed, speed.measure)
        speeds = known.pop(measured, None) or Speeds()
        speeds.add(speed)
        known[measured] = speeds
        if len(known) > MAX_PLACEMENTS:
            del known[next(iter(known))]
        for other, others in known.items():
            if other.measure == speed.measure and _differ_in_spread(other.placed, placed):
                self._compare(work, placed, other.placed.spread, speeds.usual / others.usual)

    def of_work(self, work: Work) -> Mapping[Measured, Speeds]:
        """Return the speeds of a work by placement."""
        return self._works.get(work) or {}

    def ratios(self, gpu_type: str, spread: Spread) -> Iterator[tuple[Spread, tuple[float, ...]]]:
        """Iterate over other spreads on GPUs of a type, each with the ratios of the works with both.

        A ratio is how many times as fast a work was in the other spread, with as many workers and GPUs.
        """
        for other, ratios in (self._ratios.get((gpu_type, spread)) or {}).items():
            yield other, tuple(ratios.values())

    def _compare(self, work: Work, placed: Placed, other: Spread, ratio: float) -> None:
        whose = (work, placed.workers, placed.gpus)
        for spread, against, value in ((other, placed.spread, ratio), (placed.spread, other, 1 / ratio)):
            by_spread = self._ratios.get_or_put((placed.gpu_type, spread), dict)
            ratios = by_spread.setdefault(against, {})
            ratios.pop(whose, None)
            ratios[whose] = value
            if len(ratios) > MAX_RATIOS:
                del ratios[next(iter(ratios))]
            if len(by_spread) > MAX_PLACEMENTS:
                del by_spread[next(iter(by_spread))]


def _differ_in_spread(one: Placed, other: Placed) -> bool:
    return one.spread != other.spread and one[:3] == other[:3]
