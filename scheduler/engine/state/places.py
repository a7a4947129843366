"""Where GPUs are by their identity, and where that puts what holds them; pure.

A GPU is known by its UUID. Its place, a node and an index there, is a view of the present inventory: another
enumeration, division or type declaration changes it. Where a node itself chooses the GPUs of a pod, the pool
counts slots, and the identity of a slot is ``node/index``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from springtide.scheduler.model import Environment, Node, Placement, Worker

GpuKey: TypeAlias = tuple[str, int]
"""Node and index of a GPU."""
UNMATCHED = "(unmatched)"
"""Beginning of the node of holders that have no place in the present inventory; no node has such a name."""


def identities(node: str, gpus: Sequence[int], uuids: Sequence[str]) -> tuple[str, ...]:
    """Return the identities of GPUs: their UUIDs, or their slots if these are not known."""
    return tuple(uuids) or tuple(f"{node}/{index}" for index in gpus)


def identities_of(placement: Placement) -> tuple[str, ...]:
    """Return the identities of all GPUs of a placement."""
    return tuple(gpu for each in placement for gpu in identities(each.node, each.gpus, each.uuids))


def is_unmatched(node: str) -> bool:
    """Return whether this node is the placeholder of GPUs without a place."""
    return node.startswith(UNMATCHED)


def bare(placement: Placement) -> Placement:
    """Return a placement as decisions are made about it, without UUIDs."""
    return tuple(Worker(each.rank, each.node, each.gpus) if each.uuids else each for each in placement)


def same(one: Placement, other: Placement) -> bool:
    """Return whether two placements have the same workers on the same GPUs, at the same places."""
    return one == other and [each.uuids for each in one] == [each.uuids for each in other]


class GpuPlaces:
    """The places of the GPUs of these nodes."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._chosen = {
            gpu.uuid: (node.name, gpu.index)
            for node in self._nodes.values()
            if not node.resource
            for gpu in node.devices
        }

    def node(self, gpu: str) -> Node | None:
        """Return the node that has a GPU, None if none has it."""
        place = self.of(gpu)
        node = None if place is None else self._nodes.get(place[0])
        return node if node is not None and place is not None and place[1] < node.gpus else None

    def of(self, gpu: str) -> GpuKey | None:
        """Return the place of a GPU, None if it is not there; a slot has its place also while its node is away."""
        place = self._chosen.get(gpu)
        if place is not None:
            return place
        name, _, index = gpu.rpartition("/")
        if not name or not index.isdecimal():
            return None
        node = self._nodes.get(name)
        numbered = node is None or ((node.resource or not node.devices) and int(index) < node.gpus)
        return (name, int(index)) if numbered else None

    def keys(self, node: str, gpus: Sequence[int], uuids: Sequence[str]) -> list[GpuKey]:
        """Return the present places of GPUs; of one that is not there, the place where it was."""
        if not uuids:
            return [(node, index) for index in gpus]
        return [self.of(gpu) or (node, index) for gpu, index in zip(uuids, gpus, strict=True)]

    def identified(self, placement: Placement) -> Placement:
        """Return a placement with the UUIDs of its GPUs if the pool chooses them; known ones stay."""
        return tuple(
            each if each.uuids else Worker(each.rank, each.node, each.gpus, self.uuids(each.node, each.gpus))
            for each in placement
        )

    def uuids(self, name: str, gpus: Sequence[int]) -> tuple[str, ...]:
        """Return the UUIDs of the GPUs at a place; none if the node chooses them, or has not all of them."""
        node = self._nodes.get(name)
        if node is None or node.resource or any(index >= len(node.devices) for index in gpus):
            return ()
        by_index = {gpu.index: gpu.uuid for gpu in node.devices}
        return tuple(by_index[index] for index in gpus)

    def fitted(
        self, placement: Placement, environment: Environment, owner: str, held: Collection[str] = ()
    ) -> Placement:
        """Return where a placement is by its GPUs: in its environment, each worker on one node, all of one type.

        If it is not, or if some of its GPUs are ``held`` by another, it is at a node of its own that is none of
        the pool, named after the ``owner``.
        """
        found = [self._fitted(each, environment) for each in placement]
        fits = [each for each in found if each is not None]
        nodes = (self._nodes.get(each.node) for each in fits)
        types = {node.gpu_type for node in nodes if node is not None}
        gpus = identities_of(placement)
        if len(fits) == len(placement) and len(types) <= 1 and not any(gpu in held for gpu in gpus):
            return tuple(fits)
        return tuple(_unmatched(placement, owner))

    def _fitted(self, worker: Worker, environment: Environment) -> Worker | None:
        places = [self.of(gpu) for gpu in identities(worker.node, worker.gpus, worker.uuids)]
        there = [place for place in places if place is not None]
        names = {name for name, _ in there}
        if len(there) < len(places) or len(names) > 1:
            return None
        name = names.pop() if names else worker.node
        node = self._nodes.get(name)
        if node is not None and node.environment is not environment and worker.gpus:
            return None
        return Worker(worker.rank, name, tuple(index for _, index in there), worker.uuids)


def _unmatched(placement: Placement, owner: str) -> Iterator[Worker]:
    at = 0
    for each in placement:
        gpus = tuple(range(at, at + len(each.gpus)))
        yield Worker(each.rank, f"{UNMATCHED}/{owner}", gpus, identities(each.node, each.gpus, each.uuids))
        at += len(gpus)
