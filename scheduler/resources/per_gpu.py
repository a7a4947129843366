"""The cores and the memory of one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

ROUNDING = 1.0 + 1e-9
"""Factor by which cores and memory per GPU may be exceeded, as they are quotients of floating-point numbers."""


class PerGpu(NamedTuple):
    """CPU cores and bytes of memory of one GPU: what a node has for each of its GPUs, or what a job asks for.

    0 means unknown of a node, and nothing in particular of a job.
    """

    cpus: float = 0.0
    memory: float = 0.0

    def holds(self, asked: PerGpu) -> bool:
        """Return whether a node whose GPUs come with this has enough for a job; an unknown amount is enough."""
        return (not self.cpus or asked.cpus <= self.cpus * ROUNDING) and (
            not self.memory or asked.memory <= self.memory * ROUNDING
        )


UNSPECIFIED = PerGpu()
"""Of jobs that ask for no cores and no memory, and of nodes of which nothing is known."""


def per_gpu_of(cpus: float, memory: float, gpus: int) -> PerGpu:
    """Return what one of ``gpus`` GPUs comes with that have so many cores and bytes together."""
    return PerGpu(cpus / gpus, memory / gpus) if gpus and (cpus or memory) else UNSPECIFIED


def nearest(asked: PerGpu, offered: Iterable[PerGpu]) -> PerGpu:
    """Return the amount that comes nearest to what a job asks for, by the part that it has least of."""

    def part(each: PerGpu) -> float:
        known = ((have, want) for have, want in zip(each, asked, strict=True) if have and want)
        return min((min(1.0, have / want) for have, want in known), default=1.0)

    return max(offered, key=lambda each: (part(each), each))
