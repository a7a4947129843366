"""Drains that end by themselves: the GPUs that come back then, for which a job may wait; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import NamedTuple

from springtide.scheduler.engine import messages
from springtide.scheduler.model import Node, Reason
from springtide.scheduler.store.tables import DrainRecord, GpuDrainRecord
from springtide.scheduler.wording import labelled

CLOSED = "without-gpus-drained"
"""Code of the reason of jobs without GPUs whose machine is drained."""
LACKS_ROOM = frozenset({"no-room", "share-used", "too-soon", "too-large", "gang-too-large"})
"""Codes of the reasons of jobs that more GPUs would let start."""

TOO_LARGE = frozenset({"too-large", "gang-too-large"})
"""Those of jobs that the pool as it is cannot hold."""


class DrainEnd(NamedTuple):
    """The end of the drain of a node, or of one ``gpu`` of it, in seconds since the epoch."""

    until: float
    node: Node
    gpu: int | None = None

    @property
    def name(self) -> str:
        """Return ``the node n1`` or ``GPU 2 of n1``."""
        node = labelled(self.node.name)
        return f"the node {node}" if self.gpu is None else f"GPU {self.gpu} of {node}"


def drain_ends(
    nodes: Iterable[Node], drains: Mapping[str, DrainRecord], gpu_drains: Mapping[str, GpuDrainRecord]
) -> list[DrainEnd]:
    """Return the drains of these nodes and their GPUs that end by themselves, the first to end first.

    A GPU of a drained node does not come back by itself, and a lost node not by the end of its drain.
    """
    if not (drains or gpu_drains):
        return []
    ends = (each for node in nodes if node.available for each in _ends(node, drains.get(node.name), gpu_drains))
    return sorted(ends, key=lambda end: (end.until, end.node.name, end.gpu or 0))


def _ends(node: Node, drain: DrainRecord | None, gpu_drains: Mapping[str, GpuDrainRecord]) -> Iterator[DrainEnd]:
    if drain is not None:
        if drain.until is not None:
            yield DrainEnd(drain.until, node)
        return
    for gpu in node.devices:
        record = gpu_drains.get(gpu.uuid)
        if record is not None and record.until is not None:
            yield DrainEnd(record.until, node, gpu.index)


def with_drain_ends(why: Reason, ends: Iterable[DrainEnd]) -> Reason:
    """Return why a job waits, with the ends of the drains that stand in its way, if there are any."""
    if why.code == CLOSED:
        found = [end for end in ends if end.gpu is None]
    else:
        found = _in_the_way(why, ends) if why.code in LACKS_ROOM else []
    if not found:
        return why
    return replace(why, params={**why.params, **messages.drained_until([(end.name, end.until) for end in found])})


def with_undrains(why: Reason, nodes: Iterable[Node], drains: Mapping[str, DrainRecord]) -> Reason:
    """Return why a job waits that the pool cannot hold, with the drained nodes that would hold it once undrained.

    Drains that end by themselves come first: with these it is left as it is.
    """
    if why.code not in TOO_LARGE or why.params.get("drained") or not drains:
        return why
    ends = [DrainEnd(inf, node) for node in nodes if node.available and node.name in drains]
    found = tuple(end.name for end in _in_the_way(why, ends))
    return replace(why, params={**why.params, "undrain": found}) if found else why


def _in_the_way(why: Reason, ends: Iterable[DrainEnd]) -> list[DrainEnd]:
    """Return the drains whose ends give GPUs to the job: for one that the pool cannot hold, enough of them."""
    types, gpus, workers = (why.params.get(key) for key in ("gpu_types", "gpus", "workers"))
    assert isinstance(gpus, int)
    assert isinstance(workers, int)
    of_type = [end for end in ends if not types or (isinstance(types, tuple) and end.node.gpu_type in types)]
    if why.code not in TOO_LARGE:
        return of_type
    large = [end for end in of_type if end.gpu is None and end.node.gpus >= gpus]
    if why.code == "too-large":
        return large
    most = why.params.get("most")
    assert isinstance(most, int)
    return large if most + sum(end.node.gpus // gpus for end in large) >= workers else []
