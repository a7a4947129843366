"""The cores and the memory of one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

ROUNDING = 1.0 + 1e-9
"""Factor by which a share may be exceeded, as shares are quotients of floating-point numbers."""


class Share(NamedTuple):
    """CPU cores and bytes of memory of one GPU: what a node has for each of its GPUs, or what a job asks for.

    0 means unknown of a node, and nothing in particular of a job.
    """

    cpus: float = 0.0
    memory: float = 0.0

    def holds(self, asked: Share) -> bool:
        """Return whether a node with this share has what a job asks for; an unknown share holds everything."""
        return (not self.cpus or asked.cpus <= self.cpus * ROUNDING) and (
            not self.memory or asked.memory <= self.memory * ROUNDING
        )


ANY_SHARE = Share()
"""The share of jobs that ask for no cores and no memory, and of nodes of which nothing is known."""


def share_of(cpus: float, memory: float, gpus: int) -> Share:
    """Return the share of one of ``gpus`` GPUs that have so many cores and bytes together."""
    return Share(cpus / gpus, memory / gpus) if gpus and (cpus or memory) else ANY_SHARE


def nearest(asked: Share, shares: Iterable[Share]) -> Share:
    """Return the share that comes nearest to what a job asks for, by the part that it has least of."""

    def part(share: Share) -> float:
        known = ((have, want) for have, want in zip(share, asked, strict=True) if have and want)
        return min((min(1.0, have / want) for have, want in known), default=1.0)

    return max(shares, key=lambda share: (part(share), share))
