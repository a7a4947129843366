"""The nodes, with the holders and reservations of their GPUs, indexed by the number of free GPUs.

Sets of GPUs of a node and sets of nodes are bit masks: bit ``i`` is GPU ``i`` of the node, or the ``i``-th node by
size and name. So of equally full nodes the smallest is used first, and large gaps remain where they can grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from springtide.scheduler.model import WITHIN_NODES, Job, Node, Placement, Worker
from springtide.scheduler.policy.state.undo import UndoLog
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

NOBODY = ""
"""Job id of free GPUs."""

NOWHERE: frozenset[str] = frozenset()
"""No node to avoid."""

NOTHING: Mapping[str, float] = MappingProxyType({})
"""No node that closes."""

NODE = "node"
"""The level of a whole node, in requirements and wishes."""


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(indices: Iterable[int]) -> int:
    """Return the mask with these bits set."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


@dataclass(slots=True, eq=False)
class NodeState:
    """A node as the policy sees it.

    ``allocatable`` GPUs exist on an available node and are not used from outside the pool; ``free`` ones are
    also neither held nor reserved. ``jobs`` maps job ids to the GPUs they hold. ``groups`` are the sets of GPUs of
    each topology level that divides the usable ones, the tightest level first.
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
    """The nodes with GPUs of one type. Nodes that are not available count as having no free GPU.

    ``all`` are the available ones, ``buckets`` the nodes by their number of free GPUs, ``free`` is the number of
    all free GPUs, ``reserved`` that of all reserved ones, ``idle_reserved`` of the usable ones among them that are
    not held. ``levels`` has the nodes of each topology domain by level and domain. ``closing`` has the nodes
    that close, with the time at which jobs leave them. All changes are recorded in ``undo``.
    """

    def __init__(self, nodes: Iterable[Node], undo: UndoLog, closing: Mapping[str, float] = NOTHING) -> None:
        self.undo = undo
        self.closing = closing
        ordered = sorted(nodes, key=lambda node: (_allocatable(node).bit_count(), node.name))
        self.gpu_type = ordered[0].gpu_type if ordered else ""
        self.node_states = [_node_state(index, node) for index, node in enumerate(ordered)]
        self.by_name = {node_state.name: node_state for node_state in self.node_states}
        self.levels: dict[str, dict[str, int]] = {}
        self.reserved = 0
        self.idle_reserved = 0
        self.free = sum(node_state.free.bit_count() for node_state in self.node_states)
        available = [node_state for node_state in self.node_states if node_state.allocatable]
        self.all = mask_of(node_state.index for node_state in available)
        self.total = sum(node_state.allocatable.bit_count() for node_state in available)
        self._suitable = {(UNSPECIFIED, NOWHERE): self.all}
        self._sizes: dict[tuple[PerGpu, frozenset[str]], Counter[int]] = {}
        self._capacities: dict[tuple[int, PerGpu, str | None, frozenset[str]], int] = {}
        for node_state in available:
            for level, domain in node_state.node.labels.items():
                domains = self.levels.setdefault(level, {})
                domains[domain] = domains.get(domain, 0) | 1 << node_state.index
        self.buckets = [0] * (1 + max((node.gpus for node in ordered), default=0))
        for node_state in self.node_states:
            self.buckets[node_state.free.bit_count()] |= 1 << node_state.index

    def with_free(self, counts: Iterable[int], within: int) -> Iterator[NodeState]:
        """Yield these nodes by their number of free GPUs, in the order of ``counts``, then by size, then name."""
        for count in counts:
            for index in bits(self.buckets[count] & within):
                yield self.node_states[index]

    def roomiest_first(self, within: int) -> Iterator[NodeState]:
        """Yield these nodes, those with the most free GPUs first."""
        return self.with_free(reversed(range(len(self.buckets))), within)

    @property
    def max_free(self) -> int:
        """The largest number of free GPUs on a node."""
        for count in range(len(self.buckets) - 1, 0, -1):
            if self.buckets[count]:
                return count
        return 0

    def suitable(self, gpu_types: tuple[str, ...], per_gpu: PerGpu, avoid: frozenset[str] = NOWHERE) -> int:
        """Return the nodes of these GPU types, or of all for (), that offer ``per_gpu`` with each GPU.

        Those to ``avoid`` are left out.
        """
        if gpu_types and self.gpu_type not in gpu_types:
            return 0
        key = (per_gpu, avoid)
        if key not in self._suitable:
            nodes = (self.node_states[index] for index in bits(self.all))
            self._suitable[key] = mask_of(
                node.index for node in nodes if node.name not in avoid and node.node.per_gpu.holds(per_gpu)
            )
        return self._suitable[key]

    def slots(self, gpus: int, within: int) -> int:
        """Return how many workers with ``gpus`` each fit on the free GPUs of these nodes."""
        slots = 0
        for count in range(gpus, len(self.buckets)):
            if nodes := self.buckets[count] & within:
                slots += count // gpus * nodes.bit_count()
        return slots

    def sizes(self, per_gpu: PerGpu, avoid: frozenset[str] = NOWHERE) -> Counter[int]:
        """Count the nodes that offer ``per_gpu`` by the number of their allocatable GPUs."""
        key = (per_gpu, avoid)
        if key not in self._sizes:
            nodes = (self.node_states[index] for index in bits(self.suitable((), per_gpu, avoid)))
            self._sizes[key] = Counter(node.allocatable.bit_count() for node in nodes)
        return self._sizes[key]

    def capacity(
        self, gpus: int, per_gpu: PerGpu, level: str | None = None, avoid: frozenset[str] = NOWHERE
    ) -> int:
        """Return how many workers with ``gpus`` each would fit on the empty nodes that offer ``per_gpu``.

        All in one domain of the topology level, if one is given, and none on the nodes to ``avoid``.
        """
        key = (gpus, per_gpu, level, avoid)
        if key not in self._capacities:
            self._capacities[key] = self._count_capacity(gpus, per_gpu, level, avoid)
        return self._capacities[key]

    def _count_capacity(self, gpus: int, per_gpu: PerGpu, level: str | None, avoid: frozenset[str]) -> int:
        if level is None:
            return sum(size // gpus * nodes for size, nodes in self.sizes(per_gpu, avoid).items())
        suitable = self.suitable((), per_gpu, avoid)
        if level == NODE:
            return max(self.sizes(per_gpu, avoid), default=0) // gpus
        if level in WITHIN_NODES:
            return max(
                (
                    (group & node.allocatable).bit_count() // gpus
                    for node in map(self.node_states.__getitem__, bits(suitable))
                    for group in node.groups.get(level, (node.allocatable,))
                ),
                default=0,
            )
        return max(
            (
                sum(self.node_states[at].allocatable.bit_count() // gpus for at in bits(domain & suitable))
                for domain in self.levels.get(level, {}).values()
            ),
            default=0,
        )

    def has_level(self, level: str, per_gpu: PerGpu) -> bool:
        """Return whether a node that offers ``per_gpu`` has a label of this topology level."""
        suitable = self.suitable((), per_gpu)
        return any(domain & suitable for domain in self.levels.get(level, {}).values())

    def occupy(self, job_id: str, placement: Iterable[Worker]) -> None:
        """Add these GPUs to those that the job's attempt holds."""
        for node, mask in self.known(placement):
            self._set(node, job_id, node.jobs.get(job_id, 0) | mask, node.reserved)

    def vacate(self, job_id: str, placement: Iterable[Worker]) -> None:
        """Remove these GPUs from those that the job's attempt holds."""
        for node, mask in self.known(placement):
            self._set(node, job_id, node.jobs.get(job_id, 0) & ~mask, node.reserved)

    def reserve(self, placement: Iterable[Worker]) -> None:
        """Set these GPUs aside."""
        for node, mask in self.known(placement):
            self._set(node, NOBODY, 0, node.reserved | mask)

    def unreserve(self, placement: Iterable[Worker]) -> None:
        """End the reservation of these GPUs."""
        for node, mask in self.known(placement):
            self._set(node, NOBODY, 0, node.reserved & ~mask)

    def known(self, placement: Iterable[Worker]) -> Iterator[tuple[NodeState, int]]:
        """Yield the existing nodes of a placement, each with the mask of the GPUs."""
        for worker in placement:
            node = self.by_name.get(worker.node)
            if node is not None:
                yield node, mask_of(worker.gpus)

    def are_allocatable(self, placement: Placement) -> bool:
        """Return whether all of these GPUs exist on available nodes and nothing outside the pool uses them."""
        parts = list(self.known(placement))
        return len(parts) == len(placement) and not any(mask & ~node.allocatable for node, mask in parts)

    def can_stay(self, job: Job, placement: Placement) -> bool:
        """Return whether the job may restart on these GPUs of its own: all are usable, and none is reserved."""
        unreserved = not any(mask & node.reserved for node, mask in self.known(placement))
        return unreserved and self.are_allocatable(placement) and not avoids(job, placement)

    def nodes_of(self, placement: Iterable[Worker]) -> int:
        """Return the nodes of these workers."""
        return mask_of(self.by_name[worker.node].index for worker in placement if worker.node in self.by_name)

    def holders(self, placement: Placement) -> list[str]:
        """Return the jobs that hold some of these GPUs."""
        found: dict[str, None] = {}
        for node, mask in self.known(placement):
            found.update((job_id, None) for job_id, held in sorted(node.jobs.items()) if held & mask)
        return list(found)

    def _set(self, node: NodeState, job_id: str, mask: int, reserved: int) -> None:
        """Set which GPUs of the node the job holds, and which are reserved."""
        before = node.jobs.get(job_id, 0)
        self.undo.record(self._set, node, job_id, before, node.reserved)
        held = (node.held & ~before) | mask
        self.reserved += reserved.bit_count() - node.reserved.bit_count()
        was_idle, is_idle = node.reserved & ~node.held, reserved & ~held
        self.idle_reserved += (is_idle & node.allocatable).bit_count() - (was_idle & node.allocatable).bit_count()
        node.reserved = reserved
        node.held = held
        if mask:
            node.jobs[job_id] = mask
        else:
            node.jobs.pop(job_id, None)
        free = node.allocatable & ~node.held & ~reserved
        if free == node.free:
            return
        count_before, count = node.free.bit_count(), free.bit_count()
        self.buckets[count_before] ^= 1 << node.index
        self.buckets[count] ^= 1 << node.index
        self.free += count - count_before
        node.free = free


def _allocatable(node: Node) -> int:
    return ((1 << node.gpus) - 1) & ~mask_of(node.taken) if node.available else 0


def _node_state(index: int, node: Node) -> NodeState:
    allocatable = _allocatable(node)
    groups = {level: tuple(map(mask_of, node.groups(level))) for level in WITHIN_NODES}
    dividing = {
        level: masks for level, masks in groups.items() if masks and all(allocatable & ~mask for mask in masks)
    }
    return NodeState(node, index, allocatable, dividing, free=allocatable)


def avoids(job: Job, placement: Placement) -> bool:
    """Return whether some of these workers are on nodes on which the job must not start now."""
    return bool(job.avoid) and any(worker.node in job.avoid for worker in placement)


def gpus_of(placement: Iterable[Worker]) -> set[tuple[str, int]]:
    """Return the GPUs of workers, each by its node's name and its number there."""
    return {(worker.node, gpu) for worker in placement for gpu in worker.gpus}


def workers_of(parts: Iterable[tuple[NodeState, int]], first: int = 0) -> Placement:
    """Return a placement of one worker per part, ranked in the order given."""
    return tuple(Worker(index, node.name, tuple(bits(mask))) for index, (node, mask) in enumerate(parts, first))
