"""Slow jobs and slow nodes: the fastest placement of a work, and how fast the same works ran elsewhere; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import NamedTuple, TypeAlias

from springtide.scheduler.engine.placements.comparison import (
    NOTABLE_RATIO,
    times_as_fast,
    usually_times_as_fast,
)
from springtide.scheduler.engine.placements.speed import MEASURES, Placed, Speed, Work
from springtide.scheduler.engine.placements.statistics import MAX_WORKS, Measured, Speeds
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.model import Spread

Known = Mapping[Measured, Speeds]
"""Speeds of one work by placement."""


MIN_OTHERS = 2
"""Minimum number of other nodes: of two nodes that differ, either may be the unusual one."""
MAX_NODES = 8
"""Maximum number of nodes on which one work is compared, those where it ran most recently."""
MAX_SPEEDS = 10
"""Maximum number of speeds of one work on one node, the latest ones."""
MAX_RATIOS = 50
"""Maximum number of works that are compared for one node, the latest ones."""
SIGNIFICANCE = 0.001
"""Maximum probability of a chance result. It is lower than for advice, as each job that ends repeats the test."""


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
    """Return the spread with which runs of the work were faster, and whether these runs decide the question.

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

    Steps count if enough runs of any spread report some, and whole runs otherwise.
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
    """Iterate over the measurements of runs of the same size on the same GPU type, with other spreads."""
    for (other, counted), speeds in known.items():
        if counted == measure and other[:3] == placed[:3] and other.spread != placed.spread:
            yield other.spread, speeds


class SlowNode(NamedTuple):
    """A node on which works took ``times`` as long as on others with the same GPUs.

    Known from ``runs`` of one work there and ``other_runs`` elsewhere, or from ``works``, the number of works.
    """

    times: float
    runs: int = 0
    other_runs: int = 0
    works: int = 0


Key: TypeAlias = tuple[Work, Measured, str]
"""Runs that compare with each other: those of one work in one placement, on GPUs of one model."""


class NodeSpeeds:
    """Speeds of attempts that ran on a single node, and the nodes that are slower by ``ratio`` or more.

    With None as ``ratio`` none is, and nothing is kept. A gang on several nodes goes at the speed of its
    slowest, so that its speed says nothing of each.
    """

    def __init__(self, ratio: float | None) -> None:
        self._ratio = ratio
        self._speeds: LruCache[Key, dict[str, deque[float]]] = LruCache(MAX_WORKS)
        self._ratios: dict[str, dict[Key, float]] = {}
        self._slow: dict[str, SlowNode] = {}
        self._drained: set[str] = set()

    def slow(self, drained: Collection[str] = ()) -> Mapping[str, SlowNode]:
        """Return the slow nodes that are not drained, by name; ``drained`` are all that are.

        Of a node that was drained and is in use again nothing is known any more: it was perhaps repaired.
        """
        for node in self._drained.difference(drained):
            self._forget(node)
        self._drained = self._slow.keys() & drained
        return {node: found for node, found in self._slow.items() if node not in self._drained}

    def add(self, node: str, key: Key, per_second: float) -> None:
        """Add the speed of an attempt, and compare the nodes on which its work ran."""
        if self._ratio is None:
            return
        nodes = self._speeds.get_or_put(key, dict)
        own = nodes.pop(node, None) or deque(maxlen=MAX_SPEEDS)
        own.append(per_second)
        nodes[node] = own
        if len(nodes) > MAX_NODES:
            del nodes[next(iter(nodes))]
        if len(nodes) > MIN_OTHERS:
            for each in nodes:
                self._compare(each, key, nodes, self._ratio)

    def _forget(self, node: str) -> None:
        self._slow.pop(node, None)
        for key in self._ratios.pop(node, {}):
            (self._speeds.get(key) or {}).pop(node, None)

    def _compare(self, node: str, key: Key, nodes: Mapping[str, Collection[float]], notable: float) -> None:
        own = list(nodes[node])
        others = list(chain.from_iterable(speeds for name, speeds in nodes.items() if name != node))
        ratios = self._ratios.setdefault(node, {})
        ratios.pop(key, None)
        ratios[key] = median(others) / median(own)
        if len(ratios) > MAX_RATIOS:
            del ratios[next(iter(ratios))]
        times = times_as_fast(others, own, notable, SIGNIFICANCE)
        usual = usually_times_as_fast(ratios.values(), notable, SIGNIFICANCE)
        if times is not None:
            self._slow[node] = SlowNode(times, runs=len(own), other_runs=len(others))
        elif usual is not None:
            self._slow[node] = SlowNode(usual, works=len(ratios))
        else:
            self._slow.pop(node, None)
