"""Nodes and unexpected attempts as the executor last reported them. Observed, never committed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from springtide.scheduler.executors.base import AttemptKey, NodeGroup
from springtide.scheduler.gpu_types import NodesByType
from springtide.scheduler.model import Environment, Node, Placement


@dataclass(frozen=True, slots=True)
class Drained:
    """The names of the drained ``nodes``, and the UUIDs of the ``gpus`` that are drained one by one."""

    nodes: Collection[str] = ()
    gpus: Collection[str] = ()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.gpus)


NOTHING_DRAINED = Drained()


@dataclass(slots=True)
class ObservedNodes:
    """The nodes of the pool as last seen, and the GPUs that unexpected attempts occupy.

    ``quarantine`` maps each attempt that runs although the state does not expect it to its placement. Both fields
    follow the executor's reports at once; a commit that fails does not undo them. ``groups`` are those of which
    the cluster adds nodes; ``by_type`` remembers the nodes of `possible` by GPU type.
    """

    all: tuple[Node, ...] = ()
    quarantine: dict[AttemptKey, Placement] = field(default_factory=dict)
    groups: tuple[NodeGroup, ...] = ()
    by_type: NodesByType = field(default_factory=NodesByType)
    _train: tuple[tuple[Node, ...], tuple[Node, ...]] = ((), ())

    def train(self, drained: Drained = NOTHING_DRAINED) -> tuple[Node, ...]:
        """Return the train nodes as `closed` has them, with the GPUs of quarantined attempts among the taken."""
        if self._train[0] is not self.all:
            train = tuple(node for node in self.all if node.environment is Environment.TRAIN)
            self._train = self.all, train
        train = self._train[1]
        return closed(tuple(map(self._without_quarantined, train)) if self.quarantine else train, drained)

    def build(self, drained: Drained = NOTHING_DRAINED) -> tuple[Node, ...]:
        """Return the build nodes as `closed` has them."""
        return closed(tuple(node for node in self.all if node.environment is Environment.BUILD), drained)

    def possible(self) -> tuple[Node, ...]:
        """Return the train nodes, and those that may come."""
        train, addable = self.train(), self.addable()
        return (*train, *addable) if addable else train

    def addable(self, drained: Drained = NOTHING_DRAINED) -> tuple[Node, ...]:
        """Return a node for each that the cluster may add to its groups.

        Nodes that have come and are not available yet do not count: what is asked for stands for them until then.
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

    def _without_quarantined(self, node: Node) -> Node:
        occupied = {
            index
            for placement in self.quarantine.values()
            for worker in placement
            if worker.node == node.name
            for index in worker.gpus
        }
        return replace(node, taken=node.taken | occupied) if occupied else node


def closed(nodes: tuple[Node, ...], drained: Drained) -> tuple[Node, ...]:
    """Return the nodes: those that are drained are not available, and GPUs that are drained are taken."""
    return tuple(_closed(node, drained) for node in nodes) if drained else nodes


def _closed(node: Node, drained: Drained) -> Node:
    taken = (
        node.taken.union(gpu.index for gpu in node.devices if gpu.uuid in drained.gpus)
        if drained.gpus
        else node.taken
    )
    available = node.available and node.name not in drained.nodes
    return (
        node
        if (available, taken) == (node.available, node.taken)
        else replace(node, available=available, taken=taken)
    )
