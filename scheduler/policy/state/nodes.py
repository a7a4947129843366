"""The nodes and who holds or awaits which GPU, indexed by how many GPUs are free.

Sets of GPUs of a node and sets of nodes are bit masks: bit ``i`` stands for GPU ``i`` of the node, or for the
``i``-th node by name. All changes can be taken back to a mark, so that the policy may try things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from springtide.scheduler.model import WITHIN_NODES, Node, Placement, Worker
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu


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
class NodeState:
    """A node as the policy sees it.

    ``allocatable`` GPUs exist on an available node and are not used from outside the pool; ``free`` ones are
    neither held nor reserved either. ``jobs`` tells which job holds which. ``groups`` are the sets of GPUs of each
    topology level that divides the usable ones, the tightest level first.
    """

    node: Node
    index: int
    allocatable: int
    groups: dict[str, tuple[int, ...]]
    held: int = 0
    reserved: int = 0
    free: int = 0
    jobs: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name


class NodePool:
    """All train nodes. Nodes that are not available count as having no free GPU."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        ordered = sorted(nodes, key=lambda each: each.name)
        self.node_states: list[NodeState] = [_node_state(index, node) for index, node in enumerate(ordered)]
        self.by_name: dict[str, NodeState] = {node_state.name: node_state for node_state in self.node_states}
        self.types: dict[str, int] = {}
        self.levels: dict[str, dict[str, int]] = {}
        self.all = 0
        self.total = 0
        self.largest = 0
        self.buckets: list[int] = [0] * (
            max((node_state.node.gpus for node_state in self.node_states), default=0) + 1
        )
        self._undo: list[tuple[NodeState, str | None, int]] = []
        self._sizes: dict[tuple[tuple[str, ...], PerGpu], Counter[int]] = {}
        self._holding: dict[PerGpu, int] = {}
        self.reserved = 0
        members: list[list[int]] = [[] for _ in self.buckets]
        for node_state in self.node_states:
            if node_state.allocatable:
                self._index_node(node_state)
            members[node_state.free.bit_count()].append(node_state.index)
        self.buckets = [mask_of(indices) for indices in members]

    def _index_node(self, node_state: NodeState) -> None:
        bit = 1 << node_state.index
        self.total += node_state.allocatable.bit_count()
        self.largest = max(self.largest, node_state.allocatable.bit_count())
        self.all |= bit
        node = node_state.node
        self.types[node.gpu_type] = self.types.get(node.gpu_type, 0) | bit
        for level, domain in node.labels.items():
            domains = self.levels.setdefault(level, {})
            domains[domain] = domains.get(domain, 0) | bit

    def with_free(self, counts: Iterable[int], within: int) -> Iterator[NodeState]:
        """The nodes among these by the number of their free GPUs, in the order of ``counts``, then by name."""
        for count in counts:
            for index in bits(self.buckets[count] & within):
                yield self.node_states[index]

    @property
    def roomiest_first(self) -> range:
        """The numbers of free GPUs that a node can have, the highest first."""
        return range(len(self.buckets) - 1, -1, -1)

    def first(self, nodes: int) -> NodeState:
        """The first of these nodes by name."""
        return self.node_states[(nodes & -nodes).bit_length() - 1]

    @property
    def free(self) -> int:
        """How many GPUs are free."""
        return sum(count * nodes.bit_count() for count, nodes in enumerate(self.buckets))

    @property
    def max_free(self) -> int:
        """The most free GPUs that one node has."""
        return max((count for count, nodes in enumerate(self.buckets) if nodes), default=0)

    def mask_for(self, gpu_types: tuple[str, ...], per_gpu: PerGpu) -> int:
        """The nodes of these GPU types, or of all if none is named, whose GPUs come with so much."""
        mask = 0 if gpu_types else self.all
        for gpu_type in gpu_types:
            mask |= self.types.get(gpu_type, 0)
        return mask if per_gpu == UNSPECIFIED else mask & self.holding(per_gpu)

    def holding(self, per_gpu: PerGpu) -> int:
        """The nodes with so many cores and so much memory for each GPU."""
        known = self._holding.get(per_gpu)
        if known is None:
            nodes = (self.node_states[index] for index in bits(self.all))
            known = self._holding[per_gpu] = mask_of(
                node.index for node in nodes if node.node.per_gpu.holds(per_gpu)
            )
        return known

    def slots(self, gpus: int, within: int) -> int:
        """How many workers with ``gpus`` each fit on the free GPUs of these nodes."""
        return sum(
            (count // gpus) * (self.buckets[count] & within).bit_count()
            for count in range(gpus, len(self.buckets))
            if self.buckets[count]
        )

    def sizes(self, gpu_types: tuple[str, ...], per_gpu: PerGpu) -> Counter[int]:
        """The nodes of these types whose GPUs come with so much, counted by their allocatable GPUs."""
        known = self._sizes.get((gpu_types, per_gpu))
        if known is None:
            nodes = (self.node_states[index] for index in bits(self.mask_for(gpu_types, per_gpu)))
            known = self._sizes[gpu_types, per_gpu] = Counter(node.allocatable.bit_count() for node in nodes)
        return known

    def capacity(self, gpus: int, gpu_types: tuple[str, ...], per_gpu: PerGpu) -> int:
        """How many workers with ``gpus`` each would fit on empty nodes whose GPUs come with so much."""
        return sum(size // gpus * nodes for size, nodes in self.sizes(gpu_types, per_gpu).items())

    def mark(self) -> int:
        """A point that `roll_back` returns to."""
        return len(self._undo)

    def roll_back(self, mark: int) -> None:
        """Take back all that changed since the mark."""
        while len(self._undo) > mark:
            node, job_id, mask = self._undo.pop()
            if job_id is None:
                self._set_reserved(node, mask)
            else:
                self._set_held(node, job_id, mask)

    def commit(self) -> None:
        """What was done so far will not be taken back."""
        self._undo.clear()

    def occupy(self, job_id: str, placement: Placement) -> None:
        """The job's attempt holds these GPUs now, on top of what it held."""
        for node, mask in self.known(placement):
            before = node.jobs.get(job_id, 0)
            self._undo.append((node, job_id, before))
            self._set_held(node, job_id, before | mask)

    def vacate(self, job_id: str, placement: Placement) -> None:
        """The job's attempt holds these GPUs no longer."""
        for node, mask in self.known(placement):
            before = node.jobs.get(job_id, 0)
            self._undo.append((node, job_id, before))
            self._set_held(node, job_id, before & ~mask)

    def reserve(self, placement: Placement) -> None:
        """Set these GPUs aside."""
        for node, mask in self.known(placement):
            self._undo.append((node, None, node.reserved))
            self._set_reserved(node, node.reserved | mask)

    def unreserve(self, placement: Placement) -> None:
        """These GPUs are set aside no longer."""
        for node, mask in self.known(placement):
            self._undo.append((node, None, node.reserved))
            self._set_reserved(node, node.reserved & ~mask)

    def known(self, placement: Placement) -> Iterator[tuple[NodeState, int]]:
        """The nodes of a placement that the pool has, each with the mask of the GPUs."""
        for worker in placement:
            node = self.by_name.get(worker.node)
            if node is not None:
                yield node, mask_of(worker.gpus)

    def is_vacant(self, placement: Placement) -> bool:
        """Whether no attempt holds any of these GPUs."""
        return not any(self._mask_on(worker, held=True) for worker in placement)

    def are_allocatable(self, placement: Placement) -> bool:
        """Whether all of these GPUs exist on available nodes and nothing outside the pool uses them."""
        return not any(self._mask_on(worker, held=False) for worker in placement)

    def nodes_of(self, placement: Iterable[Worker]) -> int:
        """The nodes that these workers sit on."""
        return mask_of(self.by_name[worker.node].index for worker in placement if worker.node in self.by_name)

    def can_stay(self, placement: Placement) -> bool:
        """Whether who sits on these GPUs may go on there: all are usable, and none is promised to another."""
        return self.are_allocatable(placement) and not any(
            mask_of(worker.gpus) & self.by_name[worker.node].reserved for worker in placement
        )

    def holders(self, placement: Placement) -> list[str]:
        """The jobs that hold some of these GPUs."""
        found: dict[str, None] = {}
        for node, mask in self.known(placement):
            found.update((job_id, None) for job_id, held in sorted(node.jobs.items()) if held & mask)
        return list(found)

    def _mask_on(self, worker: Worker, *, held: bool) -> int:
        node = self.by_name.get(worker.node)
        if node is None:
            return mask_of(worker.gpus)
        return mask_of(worker.gpus) & (node.held if held else ~node.allocatable)

    def _set_held(self, node: NodeState, job_id: str, mask: int) -> None:
        node.held = (node.held & ~node.jobs.get(job_id, 0)) | mask
        if mask:
            node.jobs[job_id] = mask
        else:
            node.jobs.pop(job_id, None)
        self._refresh(node)

    def _set_reserved(self, node: NodeState, mask: int) -> None:
        self.reserved += mask.bit_count() - node.reserved.bit_count()
        node.reserved = mask
        self._refresh(node)

    def _refresh(self, node: NodeState) -> None:
        free = node.allocatable & ~node.held & ~node.reserved
        before, after = node.free.bit_count(), free.bit_count()
        node.free = free
        if before != after:
            bit = 1 << node.index
            self.buckets[before] ^= bit
            self.buckets[after] ^= bit


def _node_state(index: int, node: Node) -> NodeState:
    allocatable = ((1 << node.gpus) - 1) & ~mask_of(node.taken) if node.available else 0
    groups = {level: tuple(map(mask_of, node.groups(level))) for level in WITHIN_NODES}
    dividing = {
        level: masks for level, masks in groups.items() if masks and all(allocatable & ~mask for mask in masks)
    }
    return NodeState(node, index, allocatable, dividing, free=allocatable)


def gpus_of(placement: Iterable[Worker]) -> set[tuple[str, int]]:
    """Return the GPUs of workers, each by its node's name and its number there."""
    return {(worker.node, gpu) for worker in placement for gpu in worker.gpus}


def workers_of(parts: Iterable[tuple[NodeState, int]], first: int = 0) -> Placement:
    """A placement of one worker per part, ranked in the order given."""
    return tuple(Worker(index, node.name, tuple(bits(mask))) for index, (node, mask) in enumerate(parts, first))
