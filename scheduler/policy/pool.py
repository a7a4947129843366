"""The nodes and who holds or awaits which GPU, indexed by how many GPUs are free.

Sets of GPUs of a node and sets of nodes are bit masks: bit ``i`` stands for GPU ``i`` of the node, or for the
``i``-th node by name. All changes can be taken back to a mark, so that the policy may try things.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from springtide.scheduler.model import WITHIN_NODES, Node, Placement, Worker


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(indices: Iterable[int]) -> int:
    """The mask with these bits set."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


@dataclass(slots=True, eq=False)
class Place:
    """A node as the policy sees it.

    ``usable`` GPUs exist on an available node and are not used from outside the pool; ``free`` ones are
    neither held nor reserved either. ``jobs`` tells which job holds which. ``groups`` are the sets of GPUs of each
    topology level that divides the usable ones, the tightest level first.
    """

    node: Node
    rank: int
    usable: int
    groups: dict[str, tuple[int, ...]]
    held: int = 0
    reserved: int = 0
    free: int = 0
    jobs: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name


class Pool:
    """All train nodes. Nodes that are not available count as having no free GPU."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        ordered = sorted(nodes, key=lambda each: each.name)
        self.places: list[Place] = [_place(rank, node) for rank, node in enumerate(ordered)]
        self.by_name: dict[str, Place] = {place.name: place for place in self.places}
        self.types: dict[str, int] = {}
        self.levels: dict[str, dict[str, int]] = {}
        self.all = 0
        self.total = 0
        self.largest = 0
        self.buckets: list[int] = [0] * (max((place.node.gpus for place in self.places), default=0) + 1)
        self._undo: list[tuple[Place, str | None, int]] = []
        self._capacities: dict[tuple[int, tuple[str, ...]], int] = {}
        for place in self.places:
            if place.usable:
                self._index(place)
        self.refill()

    def _index(self, place: Place) -> None:
        bit = 1 << place.rank
        self.total += place.usable.bit_count()
        self.largest = max(self.largest, place.usable.bit_count())
        self.all |= bit
        node = place.node
        self.types[node.gpu_type] = self.types.get(node.gpu_type, 0) | bit
        for level, domain in node.labels.items():
            domains = self.levels.setdefault(level, {})
            domains[domain] = domains.get(domain, 0) | bit

    def refill(self) -> None:
        """Count all free GPUs afresh, after many were taken directly."""
        members: list[list[int]] = [[] for _ in self.buckets]
        for place in self.places:
            place.free = place.usable & ~place.held & ~place.reserved
            members[place.free.bit_count()].append(place.rank)
        self.buckets = [mask_of(ranks) for ranks in members]

    def first(self, nodes: int) -> Place:
        """The first of these nodes by name."""
        return self.places[(nodes & -nodes).bit_length() - 1]

    @property
    def free(self) -> int:
        """How many GPUs are free."""
        return sum(count * nodes.bit_count() for count, nodes in enumerate(self.buckets))

    @property
    def roomiest(self) -> int:
        """The most free GPUs that one node has."""
        return max((count for count, nodes in enumerate(self.buckets) if nodes), default=0)

    def mask_for(self, gpu_types: tuple[str, ...]) -> int:
        """The nodes that have one of these GPU types; all nodes if none is named."""
        if not gpu_types:
            return self.all
        mask = 0
        for gpu_type in gpu_types:
            mask |= self.types.get(gpu_type, 0)
        return mask

    def slots(self, gpus: int, within: int) -> int:
        """How many workers with ``gpus`` each fit on the free GPUs of these nodes."""
        return sum(
            (count // gpus) * (self.buckets[count] & within).bit_count()
            for count in range(gpus, len(self.buckets))
            if self.buckets[count]
        )

    def capacity(self, gpus: int, gpu_types: tuple[str, ...]) -> int:
        """How many workers with ``gpus`` each would fit if nobody held or awaited anything."""
        known = self._capacities.get((gpus, gpu_types))
        if known is None:
            places = (self.places[rank] for rank in bits(self.mask_for(gpu_types)))
            known = sum(place.usable.bit_count() // gpus for place in places)
            self._capacities[gpus, gpu_types] = known
        return known

    def mark(self) -> int:
        """A point that `back_to` returns to."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """Take back all that changed since the mark."""
        while len(self._undo) > mark:
            place, job_id, mask = self._undo.pop()
            if job_id is None:
                place.reserved = mask
                self._refresh(place)
            else:
                self._set_held(place, job_id, mask)

    def settle(self) -> None:
        """What was done so far will not be taken back."""
        self._undo.clear()

    def hold(self, job_id: str, placement: Placement) -> None:
        """The job's attempt holds these GPUs now, on top of what it held."""
        for worker in placement:
            place = self.by_name.get(worker.node)
            if place is not None:
                before = place.jobs.get(job_id, 0)
                self._undo.append((place, job_id, before))
                self._set_held(place, job_id, before | mask_of(worker.gpus))

    def let_go(self, job_id: str, placement: Placement) -> None:
        """The job's attempt holds these GPUs no longer."""
        for worker in placement:
            place = self.by_name.get(worker.node)
            if place is not None:
                before = place.jobs.get(job_id, 0)
                self._undo.append((place, job_id, before))
                self._set_held(place, job_id, before & ~mask_of(worker.gpus))

    def reserve(self, placement: Placement) -> None:
        """Set these GPUs aside."""
        for worker in placement:
            place = self.by_name.get(worker.node)
            if place is not None:
                self._undo.append((place, None, place.reserved))
                place.reserved |= mask_of(worker.gpus)
                self._refresh(place)

    def unreserve(self, placement: Placement) -> None:
        """These GPUs are set aside no longer."""
        for worker in placement:
            place = self.by_name.get(worker.node)
            if place is not None:
                self._undo.append((place, None, place.reserved))
                place.reserved &= ~mask_of(worker.gpus)
                self._refresh(place)

    def vacant(self, placement: Placement) -> bool:
        """Whether no attempt holds any of these GPUs."""
        return not any(self._mask_on(worker, held=True) for worker in placement)

    def usable(self, placement: Placement) -> bool:
        """Whether all of these GPUs exist on available nodes and nothing outside the pool uses them."""
        return not any(self._mask_on(worker, held=False) for worker in placement)

    def nodes_of(self, placement: Placement) -> int:
        """The nodes that these workers sit on."""
        return mask_of(self.by_name[worker.node].rank for worker in placement if worker.node in self.by_name)

    def keepable(self, placement: Placement) -> bool:
        """Whether who sits on these GPUs may go on there: all are usable, and none is promised to another."""
        return self.usable(placement) and not any(
            mask_of(worker.gpus) & self.by_name[worker.node].reserved for worker in placement
        )

    def holders(self, placement: Placement) -> list[str]:
        """The jobs that hold some of these GPUs."""
        found: dict[str, None] = {}
        for worker in placement:
            place = self.by_name.get(worker.node)
            if place is not None:
                mask = mask_of(worker.gpus)
                found.update((job_id, None) for job_id, held in sorted(place.jobs.items()) if held & mask)
        return list(found)

    def _mask_on(self, worker: Worker, *, held: bool) -> int:
        place = self.by_name.get(worker.node)
        if place is None:
            return mask_of(worker.gpus)
        return mask_of(worker.gpus) & (place.held if held else ~place.usable)

    def _set_held(self, place: Place, job_id: str, mask: int) -> None:
        place.held = (place.held & ~place.jobs.get(job_id, 0)) | mask
        if mask:
            place.jobs[job_id] = mask
        else:
            place.jobs.pop(job_id, None)
        self._refresh(place)

    def _refresh(self, place: Place) -> None:
        free = place.usable & ~place.held & ~place.reserved
        before, after = place.free.bit_count(), free.bit_count()
        place.free = free
        if before != after:
            bit = 1 << place.rank
            self.buckets[before] ^= bit
            self.buckets[after] ^= bit


def _place(rank: int, node: Node) -> Place:
    usable = ((1 << node.gpus) - 1) & ~mask_of(node.taken) if node.available else 0
    groups = {level: tuple(map(mask_of, node.groups(level))) for level in WITHIN_NODES}
    dividing = {level: masks for level, masks in groups.items() if masks and all(usable & ~mask for mask in masks)}
    return Place(node, rank, usable, dividing)


def workers_of(parts: Iterable[tuple[Place, int]], first: int = 0) -> Placement:
    """A placement of one worker per part, ranked in the order given."""
    return tuple(Worker(rank, place.name, tuple(bits(mask))) for rank, (place, mask) in enumerate(parts, first))
