"""Display labels and identifiers of GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from springtide.scheduler import wire
from springtide.scheduler.engine.state.places import GpuPlaces
from springtide.scheduler.model import Environment, Node, Placement


class GpuLabels:
    """Labels of the GPUs of ``nodes``: ``train 3`` on the only train node, ``dgx-1 3`` if there are several.

    ``places`` tells where each GPU is; one that is not there is labelled by its UUID.
    """

    def __init__(self, nodes: Sequence[Node], places: GpuPlaces) -> None:
        self.nodes = nodes
        self._places = places
        self._by_name = {node.name: node for node in nodes}
        train = (node for node in nodes if node.environment is Environment.TRAIN and node.gpus)
        self._train_types = {node.gpu_type for node in train}
        counts = {
            environment: sum(1 for node in nodes if node.environment is environment) for environment in Environment
        }
        self._prefix = {
            node.name: node.environment.value if counts[node.environment] == 1 else node.name for node in nodes
        }

    def shown_type(self, gpu_type: str) -> str:
        """Return a GPU type; empty if the train nodes have no other."""
        return gpu_type if len(self._train_types) > 1 else ""

    def node(self, name: str) -> Node | None:
        """Return a node, None if it is not there any more."""
        return self._by_name.get(name)

    def label(self, node: str, index: int) -> str:
        """Return the display label of a GPU."""
        return f"{self._prefix.get(node, node)} {index}"

    def label_of(self, gpu: str) -> str:
        """Return the display label of the GPU with this identity."""
        place = self._places.of(gpu)
        return gpu if place is None else self.label(*place)

    def uuid(self, node: str, index: int) -> str:
        """Return the UUID of a GPU; ``node/index`` if the node does not report one."""
        known = self._by_name.get(node)
        for gpu in known.devices if known is not None else ():
            if gpu.index == index:
                return gpu.uuid
        return f"{node}/{index}"

    def simulated(self, node: str) -> bool:
        """Return whether the node's GPUs are simulated."""
        known = self._by_name.get(node)
        return known is not None and any(gpu.simulated for gpu in known.devices)

    def refs(self, placement: Placement, borrowed: int = 0) -> list[wire.GpuRef]:
        """Return the GPUs of a placement; the last ``borrowed`` of them are marked as borrowed."""
        flat = [ref for each in placement for ref in self.of_worker(each.node, each.gpus, each.uuids)]
        first_borrowed = len(flat) - borrowed
        return [
            replace(ref, borrowed=True) if position >= first_borrowed else ref for position, ref in enumerate(flat)
        ]

    def of_worker(self, node: str, gpus: Sequence[int], uuids: Sequence[str]) -> list[wire.GpuRef]:
        """Return GPUs of one holder: where they are now, or under their UUIDs where they were."""
        if not uuids:
            return [
                wire.GpuRef(node=node, index=index, uuid=self.uuid(node, index), label=self.label(node, index))
                for index in gpus
            ]
        found = []
        for gpu, index in zip(uuids, gpus, strict=True):
            place = self._places.of(gpu)
            name, at = place or (node, index)
            uuid = gpu if place is None else self.uuid(name, at)
            found.append(wire.GpuRef(node=name, index=at, uuid=uuid, label=self.label_of(gpu)))
        return found
