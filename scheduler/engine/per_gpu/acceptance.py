"""Whether a node has the cores, the memory and the RDMA that a job asks for."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from springtide.scheduler import wording
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import invalid_field
from springtide.scheduler.resources.per_gpu import ROUNDING, UNSPECIFIED, PerGpu, nearest
from springtide.scheduler.store.records import JobSpec


def nodes_with_enough(spec: JobSpec, nodes: Sequence[Node], of_type: str) -> Sequence[Node]:
    """Return the nodes whose GPUs come with what the job asks for.

    Raises `Refusal` with the numbers if there is none. ``nodes`` are those of one GPU type, at least one, and
    ``of_type`` are these GPUs in words, such as " h100 GPUs", or empty where the pool has one type.
    """
    asked = spec.per_gpu
    if asked == UNSPECIFIED:
        return nodes
    nodes = _nodes_with_rdma(spec, nodes, of_type)
    suitable = [node for node in nodes if node.per_gpu.holds(asked)]
    if suitable:
        return suitable
    most = nearest(asked, (node.per_gpu for node in nodes))
    gpus = wording.gpus(spec.gpus)
    wanted = wording.cores_and_memory(spec.cpus, spec.memory)
    there = wording.cores_and_memory(most.cpus * spec.gpus, most.memory * spec.gpus)
    each = wording.cores_and_memory(most.cpus, most.memory)
    node = f"train node{' with RDMA' if spec.rdma else ''}"
    raise invalid_field(
        "cpus" if asked.cpus > most.cpus > 0 else "memory",
        f"{wanted} were asked for with {gpus} per worker, which no {node} has for {gpus}: the nearest "
        f"has {there}.",
        f"Ask for less, or for more GPUs per worker: each comes with {each} there.",
    )


def _nodes_with_rdma(spec: JobSpec, nodes: Sequence[Node], of_type: str) -> Sequence[Node]:
    """Return the nodes that have RDMA for workers of this size; all if the job asks for none."""
    asked = PerGpu(rdma=spec.per_gpu.rdma)
    suitable = [node for node in nodes if node.per_gpu.holds(asked)]
    if suitable:
        return suitable
    most = max(nodes, key=lambda node: node.per_gpu.rdma)
    if not most.per_gpu.rdma:
        raise invalid_field(
            "rdma",
            f"RDMA was asked for, and no train node{of_type and f' with{of_type}'} has it.",
            "Leave out rdma, or ask an admin of this hub which nodes have network cards for it.",
        )
    least = ceil(1 / (most.per_gpu.rdma * ROUNDING))
    workers = wording.count(most.per_gpu.rdma_workers(most.gpus), "worker")
    raise invalid_field(
        "gpus",
        f"RDMA was asked for with {wording.gpus(spec.gpus)} per worker; the train node with the most has it for "
        f"{workers} on its {wording.gpus(most.gpus)}.",
        f"Ask for at least {wording.gpus(least)} per worker, or leave out rdma.",
    )
