"""The cores, memory and RDMA devices of the cluster's nodes, as an equal part for each GPU; pure.

The parts are of what the pods without GPUs other than jobs, such as those of DaemonSets, leave of the node. Parts
of cores and memory are whole steps, so that a small pod changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from kubernetes.utils.quantity import parse_quantity

from springtide.scheduler.executors.kubernetes.objects.api_types import Pod
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

Requests: TypeAlias = Mapping[str, str | int | float]

CPU, MEMORY = "cpu", "memory"
CORES_STEP = 100
"""Step of the cores of one GPU, in thousandths."""
MEMORY_STEP = 256 << 20
"""Step of the memory of one GPU, in bytes."""


class HostCapacity:
    """The resources of the cluster's nodes, and the requests of pods other than jobs there.

    ``rdma`` are the resources that give RDMA to one worker, each with the number of its devices. ``beside`` are
    the requests of the sidecars of a job's pod in each project; the largest are kept free with each GPU.
    """

    def __init__(self, rdma: Mapping[str, int], beside: Iterable[Sequence[Requests]] = ()) -> None:
        self._rdma = rdma
        self._beside = Counter[str]()
        for requests in beside:
            self._beside |= sum(map(self._amounts, requests), Counter())
        self._whole: dict[str, Counter[str]] = {}
        self._others: dict[str, Counter[str]] = {}
        self._per_gpu: dict[tuple[str, int], PerGpu] = {}

    def update_node(self, host: str, allocatable: Requests) -> None:
        """Record the allocatable resources of a node; empty if it has left the cluster."""
        self._whole[host] = self._amounts(allocatable)
        self._per_gpu.clear()

    def update_pod(self, before: Pod | None, after: Pod | None) -> None:
        """Record the present state of a pod without GPUs other than a job's."""
        for pod, change in ((before, Counter[str].subtract), (after, Counter[str].update)):
            if pod is not None and not pod.ended:
                others = self._others.setdefault(pod.spec.node_name, Counter())
                for container in pod.spec.containers:
                    change(others, self._amounts(container.resources.requests))
                self._per_gpu.clear()

    def per_gpu(self, host: str, gpus: int) -> PerGpu:
        """Return the part for each of the ``gpus`` GPUs of a node, at least one step of each known resource."""
        known = self._per_gpu.get((host, gpus))
        if known is None:
            known = self._per_gpu[host, gpus] = self._compute(host, gpus)
        return known

    def _compute(self, host: str, gpus: int) -> PerGpu:
        whole, others = self._whole.get(host), self._others.get(host, Counter[str]())
        if not gpus or whole is None:
            return UNSPECIFIED
        left = whole.copy()
        left.subtract(others)
        each = {name: (left[name] // gpus - self._beside[name]) for name in (CPU, MEMORY)}
        cpus = max(1, each[CPU] // CORES_STEP) * CORES_STEP / 1000 if whole[CPU] else 0.0
        memory = max(1, each[MEMORY] // MEMORY_STEP) * MEMORY_STEP if whole[MEMORY] else 0
        workers = min((left[name] // each for name, each in self._rdma.items()), default=0)
        return PerGpu(cpus, memory, max(0, min(workers, gpus)) / gpus)

    def _amounts(self, given: Requests) -> Counter[str]:
        """Return thousandths of cores, bytes of memory, and numbers of devices for RDMA."""
        devices = {name: int(parse_quantity(given.get(name, 0))) for name in self._rdma}
        cpus, memory = (parse_quantity(given.get(name, 0)) for name in (CPU, MEMORY))
        return Counter({CPU: round(1000 * cpus), MEMORY: int(memory), **devices})
