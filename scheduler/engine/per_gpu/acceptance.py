"""Whether a node has the cores and the memory that a job asks for."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler import wording
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, nearest
from springtide.scheduler.store.records import JobSpec


def nodes_with_enough(spec: JobSpec, nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the nodes whose GPUs come with the cores and the memory that the job asks for.

    Raises `Refusal` with the numbers if there is none. ``nodes`` are those of one GPU type, at least one.
    """
    asked = spec.per_gpu
    if asked == UNSPECIFIED:
        return nodes
    suitable = [node for node in nodes if node.per_gpu.holds(asked)]
    if suitable:
        return suitable
    most = nearest(asked, (node.per_gpu for node in nodes))
    gpus = wording.gpus(spec.gpus)
    wanted = wording.cores_and_memory(spec.cpus, spec.memory)
    there = wording.cores_and_memory(most.cpus * spec.gpus, most.memory * spec.gpus)
    each = wording.cores_and_memory(*most)
    raise Refusal(
        422,
        "invalid",
        f"{wanted} were asked for with {gpus} per worker, which no train node has for {gpus}: the nearest has "
        f"{there}.",
        field="cpus" if asked.cpus > most.cpus > 0 else "memory",
        hint=f"Ask for less, or for more GPUs per worker: each comes with {each} there.",
    )
