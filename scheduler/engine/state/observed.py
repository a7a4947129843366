"""Nodes and unexpected attempts as the executor last reported them. Observed, never committed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.model import Environment, Node, Placement


@dataclass(slots=True)
class ObservedNodes:
    """The nodes of the pool as last seen, and the GPUs that unexpected attempts occupy.

    ``quarantine`` maps each attempt that runs although the state does not expect it to its placement. Both fields
    follow the executor's reports at once; a commit that fails does not undo them.
    """

    all: tuple[Node, ...] = ()
    quarantine: dict[AttemptKey, Placement] = field(default_factory=dict)
    _train: tuple[tuple[Node, ...], tuple[Node, ...]] = ((), ())

    def train(self) -> tuple[Node, ...]:
        """Return the train nodes. GPUs of quarantined attempts count as taken."""
        if self._train[0] is not self.all:
            train = tuple(node for node in self.all if node.environment is Environment.TRAIN)
            self._train = self.all, train
        train = self._train[1]
        return tuple(map(self._without_quarantined, train)) if self.quarantine else train

    def build(self) -> tuple[Node, ...]:
        """Return the build nodes."""
        return tuple(node for node in self.all if node.environment is Environment.BUILD)

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
