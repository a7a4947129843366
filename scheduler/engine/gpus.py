"""How GPUs are called."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler import wire
from springtide.scheduler.model import Environment, Node, Placement


class Labels:
    """Names of the GPUs ``of`` nodes: ``train 3`` on the only train machine, ``dgx-1 3`` among several."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.of = nodes
        self.nodes = {node.name: node for node in nodes}
        alone = {
            environment: sum(1 for node in nodes if node.environment is environment) == 1
            for environment in Environment
        }
        self._prefix = {
            node.name: node.environment.value if alone[node.environment] else node.name for node in nodes
        }

    def label(self, node: str, index: int) -> str:
        """How a person finds the GPU."""
        return f"{self._prefix.get(node, node)} {index}"

    def uuid(self, node: str, index: int) -> str:
        """Its UUID; a made-up one where the node does not tell."""
        known = self.nodes.get(node)
        for gpu in known.devices if known is not None else ():
            if gpu.index == index:
                return gpu.uuid
        return f"{node}/{index}"

    def simulated(self, node: str) -> bool:
        """Whether the node's GPUs are simulated."""
        known = self.nodes.get(node)
        return known is not None and any(gpu.simulated for gpu in known.devices)

    def refs(self, placement: Placement, borrowed: int = 0) -> list[wire.GpuRef]:
        """The GPUs of a placement, the last ``borrowed`` of them marked."""
        flat = [(worker.node, index) for worker in placement for index in worker.gpus]
        first_borrowed = len(flat) - borrowed
        return [
            wire.GpuRef(
                node=node,
                index=index,
                uuid=self.uuid(node, index),
                label=self.label(node, index),
                borrowed=position >= first_borrowed,
            )
            for position, (node, index) in enumerate(flat)
        ]
