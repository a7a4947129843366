"""Whether a node has the cores and the memory that a job asks for."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler import wording
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.resources.share import nearest
from springtide.scheduler.store.records import JobSpec


def nodes_with_share(spec: JobSpec, nodes: Sequence[Node]) -> Sequence[Node]:
    """Return the nodes whose GPUs come with the cores and the memory that the job asks for.

    Raises `Refusal` with the numbers if there is none. ``nodes`` are those of one GPU type, at least one.
    """
    asked = spec.share
    suitable = [node for node in nodes if node.share.holds(asked)]
    if suitable:
        return suitable
    most = nearest(asked, (node.share for node in nodes))
    gpus = wording.gpus(spec.gpus)
    there = wording.processing(most.cpus * spec.gpus, most.memory * spec.gpus)
    raise Refusal(
        422,
        "invalid",
        f"{wording.processing(spec.cpus, spec.memory)} were asked for with {gpus} per worker, which no train node "
        f"has for {gpus}: the nearest has {there}.",
        field="cpus" if asked.cpus > most.cpus > 0 else "memory",
        hint=f"Ask for less, or for more GPUs per worker: each comes with {wording.processing(*most)} there.",
    )
