"""Which nodes are clearly slower than others with the same GPUs, by how fast the same works ran on them; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from itertools import chain
from statistics import median
from typing import NamedTuple, TypeAlias

from springtide.scheduler.engine.placements.comparison import times_as_fast, usually_times_as_fast
from springtide.scheduler.engine.placements.speed import Work
from springtide.scheduler.engine.placements.statistics import MAX_WORKS, Measured
from springtide.scheduler.lru_cache import LruCache

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
