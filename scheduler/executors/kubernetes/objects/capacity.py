"""The cores and the memory of the cluster's nodes that come with their GPUs; pure.

Each GPU comes with an equal part of what pods that hold no GPUs and are not jobs, such as those of DaemonSets,
leave of its node. Parts are whole steps, so that a small pod changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubernetes.utils.quantity import parse_quantity

from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

CORES_STEP = 100
"""Step of the cores of one GPU, in thousandths."""
MEMORY_STEP = 256 << 20
"""Step of the memory of one GPU, in bytes."""

Amounts = tuple[int, int]
"""Thousandths of cores, and bytes."""
NOTHING: Amounts = (0, 0)


class HostCapacity:
    """What the nodes of the cluster have, and what pods other than jobs request there."""

    def __init__(self) -> None:
        self._whole: dict[str, Amounts] = {}
        self._others: dict[str, Amounts] = {}

    def update_node(self, host: str, allocatable: Mapping[str, str | float]) -> None:
        """Record what a node offers to pods; nothing where it has left the cluster."""
        self._whole[host] = _amounts(allocatable)

    def update_pod(self, before: Pod | None, after: Pod | None) -> None:
        """Record the present state of a pod that is neither a job's nor holds GPUs."""
        for sign, pod in ((-1, before), (1, after)):
            if pod is not None and not pod.ended:
                cpus, memory = self._others.get(pod.spec.node_name, NOTHING)
                more = _requests(pod)
                self._others[pod.spec.node_name] = (cpus + sign * more[0], memory + sign * more[1])

    def per_gpu(self, host: str, gpus: int) -> PerGpu:
        """Return what each of the ``gpus`` GPUs of a node comes with, at least one step of what is known."""
        whole, others = self._whole.get(host, NOTHING), self._others.get(host, NOTHING)
        if not gpus or whole == NOTHING:
            return UNSPECIFIED
        cpus = max(1, (whole[0] - others[0]) // gpus // CORES_STEP) * CORES_STEP / 1000 if whole[0] else 0.0
        memory = max(1, (whole[1] - others[1]) // gpus // MEMORY_STEP) * MEMORY_STEP if whole[1] else 0
        return PerGpu(cpus, memory)


def _requests(pod: Pod) -> Amounts:
    parts = [_amounts(container.resources.requests) for container in pod.spec.containers]
    return sum(cpus for cpus, _ in parts), sum(memory for _, memory in parts)


def _amounts(given: Mapping[str, str | float]) -> Amounts:
    return round(1000 * parse_quantity(given.get("cpu", 0))), int(parse_quantity(given.get("memory", 0)))
