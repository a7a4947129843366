"""Nodes and unexpected attempts as the executor last reported them. Observed, never committed."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from springtide.scheduler.engine.state.booked import closed_times
from springtide.scheduler.engine.state.places import GpuPlaces, identities_of
from springtide.scheduler.executors.base import AttemptKey, NodeGroup
from springtide.scheduler.gpu_types import NodesByType
from springtide.scheduler.model import Environment, Node, Placement, Span, Worker
from springtide.scheduler.store.tables import BookingRecord, DrainRecord, WorkspaceRecord


@dataclass(frozen=True, slots=True)
class Drained:
    """Nodes and GPUs where nothing new starts, by the committed state.

    These are the names of the drained ``nodes``, the UUIDs of the ``gpus`` that are drained one by one, and the
    identities of GPUs that are ``held`` without a place in the present inventory. ``closed`` has the times
    for which nodes are booked for maintenance, ``booked`` the nodes that are drained for that.
    """

    nodes: Collection[str] = ()
    gpus: Collection[str] = ()
    held: frozenset[str] = frozenset()
    closed: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    booked: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.gpus or self.held or self.closed)


NOTHING_DRAINED = Drained()


def drained_by(
    drains: Mapping[str, DrainRecord],
    gpus: Collection[str],
    bookings: Mapping[int, BookingRecord],
    held: frozenset[str],
) -> Drained:
    """Return what these drains and bookings close."""
    if not bookings:
        return Drained(drains, gpus, held)
    booked = frozenset(name for name, record in drains.items() if record.booking is not None)
    return Drained(drains, gpus, held, closed_times(bookings.values()), booked)


@dataclass(frozen=True, slots=True)
class Unexpected:
    """An attempt that runs although the state does not expect it: ``why`` not, and ``since`` when it runs."""

    placement: Placement
    why: str
    since: float


@dataclass(slots=True)
class ObservedNodes:
    """The nodes of the pool as last seen, and the GPUs that unexpected attempts occupy.

    ``quarantine`` has each attempt that runs although the state does not expect it. Both fields follow the
    executor's reports at once; a commit that fails does not undo them. ``groups`` are those of which the cluster
    adds nodes; ``by_type`` remembers the nodes of `possible` by GPU type. `places` has the place of each GPU.
    """

    all: tuple[Node, ...] = ()
    quarantine: dict[AttemptKey, Unexpected] = field(default_factory=dict)
    groups: tuple[NodeGroup, ...] = ()
    by_type: NodesByType = field(default_factory=NodesByType)
    _train: tuple[tuple[Node, ...], tuple[Node, ...]] = ((), ())
    _places: tuple[tuple[Node, ...], GpuPlaces] | None = None

    @property
    def places(self) -> GpuPlaces:
        """The places of the GPUs of all nodes."""
        if self._places is None or self._places[0] is not self.all:
            self._places = self.all, GpuPlaces(self.all)
        return self._places[1]

    def train(self, drained: Drained = NOTHING_DRAINED) -> tuple[Node, ...]:
        """Return the train nodes as `closed` has them, with the GPUs of quarantined attempts among the taken."""
        if self._train[0] is not self.all:
            train = tuple(node for node in self.all if node.environment is Environment.TRAIN)
            self._train = self.all, train
        return closed(self._without_quarantined(self._train[1]), drained)

    def build(
        self, drained: Drained = NOTHING_DRAINED, beside: Iterable[WorkspaceRecord] = ()
    ) -> tuple[Node, ...]:
        """Return the build nodes as `closed` has them, with the GPUs of quarantined attempts among the taken.

        On a cluster the taken slots of a node are others than those of the workspaces ``beside``.
        """
        build = tuple(node for node in self.all if node.environment is Environment.BUILD)
        held = [(record.node, record.gpus) for record in beside if record.gpus]
        if held:
            build = tuple(
                taken_beside(node, {index for name, gpus in held if name == node.name for index in gpus})
                for node in build
            )
        at_present = dataclasses.replace(drained, closed={}, booked=())
        return closed(self._without_quarantined(build), at_present)

    def possible(self) -> tuple[Node, ...]:
        """Return the train nodes, and those that may come."""
        train, addable = self.train(), self.addable()
        return (*train, *addable) if addable else train

    def addable(self, drained: Drained = NOTHING_DRAINED) -> tuple[Node, ...]:
        """Return a node for each that the cluster may add to its groups.

        Nodes that have joined but are not available yet do not count: the request includes them until then.
        """
        return tuple(
            replace(group.node, name=f"{group.node.name}-{number:04}")
            for group in self.groups
            for number in range(group.most - group.closed - self.present(group, drained))
        )

    def present(self, group: NodeGroup, drained: Drained = NOTHING_DRAINED) -> int:
        """Return how many nodes of a group are available, or drained."""
        return sum(
            node.group == group.name and (node.available or node.name in drained.nodes) for node in self.all
        )

    def type_of(self, placement: Placement) -> str:
        """Return the GPU type of a placement, empty if its nodes are not there."""
        names = {worker.node for worker in placement}
        return next((node.gpu_type for node in self.all if node.name in names), "")

    def workspace_matched(self, record: WorkspaceRecord, held: Collection[str] = ()) -> WorkspaceRecord:
        """Return a workspace where its GPUs are now; ``held`` are GPUs of others."""
        if not record.gpus:
            return record
        known = self.places.identified((Worker(0, record.node, record.gpus, record.uuids),))
        owner = f"{record.user}/{record.server}"
        (worker,) = self.places.fitted(known, Environment.BUILD, owner, held)
        gpu_type = self.type_of((worker,)) or record.gpu_type
        return dataclasses.replace(
            record, node=worker.node, gpus=worker.gpus, uuids=worker.uuids, gpu_type=gpu_type
        )

    def _without_quarantined(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        if not self.quarantine:
            return nodes
        gpus = [gpu for each in self.quarantine.values() for gpu in identities_of(each.placement)]
        occupied = frozenset(place for gpu in gpus if (place := self.places.of(gpu)) is not None)
        return tuple(_with_taken(node, {index for name, index in occupied if name == node.name}) for node in nodes)


def taken_beside(node: Node, held: Collection[int]) -> Node:
    """Return a node of a cluster with its taken slots apart from those ``held``.

    The slots of such a node are numbers, of which what runs outside the pool knows nothing: it takes as many as
    before, as far as there are others.
    """
    clash = sorted(node.taken.intersection(held))
    if not clash or not node.resource:
        return node
    free = (index for index in reversed(range(node.gpus)) if index not in held and index not in node.taken)
    moved = dict(zip(clash, free, strict=False))
    taken = node.taken.difference(clash).union(moved.values())
    takers = {moved.get(index, index): who for index, who in node.takers.items()}
    return replace(node, taken=taken, takers={index: who for index, who in takers.items() if index in taken})


def closed(nodes: tuple[Node, ...], drained: Drained) -> tuple[Node, ...]:
    """Return the nodes: those that are drained are not available, and GPUs that are drained are taken.

    Nodes that are drained for a booking stay available, and have the times in which they are closed.
    """
    return tuple(_closed(node, drained) for node in nodes) if drained else nodes


def _closed(node: Node, drained: Drained) -> Node:
    aside = {gpu.index for gpu in node.devices if gpu.uuid in drained.gpus} if drained.gpus else set()
    if drained.held:
        chosen = {gpu.index: gpu.uuid for gpu in node.devices} if not node.resource else {}
        aside |= {index for index in range(node.gpus) if chosen.get(index, f"{node.name}/{index}") in drained.held}
    times = drained.closed.get(node.name, ())
    is_drained = node.name in drained.nodes and not (times and node.name in drained.booked)
    available = node.available and not is_drained
    unchanged = available == node.available and not times
    closed = node if unchanged else replace(node, available=available, closed=times)
    return _with_taken(closed, aside)


def _with_taken(node: Node, gpus: Collection[int]) -> Node:
    """Return a node with more of its GPUs taken."""
    return node if node.taken.issuperset(gpus) else replace(node, taken=node.taken.union(gpus))
