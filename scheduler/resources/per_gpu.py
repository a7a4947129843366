"""The cores, the memory and the RDMA of one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor
from typing import NamedTuple

ROUNDING = 1.0 + 1e-9
"""Factor by which an amount per GPU may be exceeded, as amounts are quotients of floating-point numbers."""


class PerGpu(NamedTuple):
    """CPU cores and bytes of memory for each GPU, of a node or of a job's request.

    0 means unknown for a node, and no request for a job. ``rdma`` is the number of workers with RDMA for each GPU:
    for a node the number that it can have at a time, for a job 1, divided by the number of GPUs. 0 is none.
    """

    cpus: float = 0.0
    memory: float = 0.0
    rdma: float = 0.0

    def holds(self, request: PerGpu) -> bool:
        """Return whether a node that offers this has enough for a job's request; an unknown amount is enough."""
        return (
            (not self.cpus or request.cpus <= self.cpus * ROUNDING)
            and (not self.memory or request.memory <= self.memory * ROUNDING)
            and request.rdma <= self.rdma * ROUNDING
        )

    def rdma_workers(self, gpus: int) -> int:
        """Return the number of workers with RDMA that ``gpus`` GPUs come with."""
        return floor(self.rdma * ROUNDING * gpus)


UNSPECIFIED = PerGpu()
"""Value for jobs that request only GPUs, and for unknown nodes."""


def per_gpu_of(cpus: float, memory: float, gpus: int, rdma: int = 0) -> PerGpu:
    """Return the amounts for one of ``gpus`` GPUs, from the totals of cores, bytes and workers with RDMA.

    Each worker has a GPU of its own, so the workers with RDMA count only up to the number of GPUs.
    """
    if not gpus or not (cpus or memory or rdma):
        return UNSPECIFIED
    return PerGpu(cpus / gpus, memory / gpus, min(rdma, gpus) / gpus)


def nearest(request: PerGpu, offered: Iterable[PerGpu]) -> PerGpu:
    """Return the offer nearest to a job's request, by its scarcest part."""

    def part(offer: PerGpu) -> float:
        known = ((have, want) for have, want in zip(offer, request, strict=True) if have and want)
        return min((min(1.0, have / want) for have, want in known), default=1.0)

    return max(offered, key=lambda offer: (part(offer), offer))
