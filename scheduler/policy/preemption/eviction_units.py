"""What running jobs can give up, and what it costs (DESIGN §4, victims)."""

from __future__ import annotations

from typing import NamedTuple

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy.state.nodes import NodeState, mask_of
from springtide.scheduler.policy.state.projects import ProjectNode

NOTHING_LOST = 1.0
"""Service in GPU-seconds below which the pause of an attempt costs nothing."""


class EvictionUnit(NamedTuple):
    """The smallest eviction of a job: one of the workers that it can spare, or else all that it has."""

    key: tuple[object, ...]
    job: Job
    taken: Placement
    left: Placement
    lost: float
    at_work: bool

    @property
    def gpus(self) -> int:
        """GPUs that it frees on all nodes."""
        return len(self.taken) * self.job.gpus


class NodeOption(NamedTuple):
    """Units that free enough GPUs of one node for one more worker; the smaller the score the better."""

    score: tuple[object, ...]
    node_index: int
    units: list[EvictionUnit]


def is_at_work(job: Job, now: float) -> bool:
    """Tell whether the attempt has run for long enough that its pause costs anything."""
    return job.held_gpus * (now - (job.started or 0.0)) > NOTHING_LOST


def gpus_freed_on(unit: EvictionUnit, node: NodeState) -> int:
    """Return how many GPUs of the node become free by the unit, without those reserved for other jobs."""
    mask = 0
    for worker in unit.taken:
        if worker.node == node.name:
            mask |= mask_of(worker.gpus)
    return (mask & node.allocatable & ~node.reserved).bit_count()


def closeness(unit: EvictionUnit, node: NodeState, missing: int) -> tuple[object, ...]:
    """Return how well the unit fits a number of missing GPUs; the smallest fits best."""
    here = gpus_freed_on(unit, node)
    return (here < missing, abs(here - missing), unit.key)


def score(units: list[EvictionUnit], short: int) -> tuple[object, ...]:
    """Return the cost of units: GPUs at work paused beyond the need, work lost, then the victims' order."""
    stopped = sum(unit.gpus for unit in units if unit.at_work)
    return (max(0, stopped - short), float(sum(unit.lost for unit in units)), [unit.key for unit in units])


def without_surplus(chosen: list[EvictionUnit], node: NodeState, surplus: int) -> list[EvictionUnit]:
    """Leave out units that are not needed, the most expensive first; of a job only its last unit."""
    bound: set[str] = set()
    kept: list[EvictionUnit] = []
    for unit in reversed(chosen):
        here = gpus_freed_on(unit, node)
        if here <= surplus and unit.job.id not in bound:
            surplus -= here
        else:
            bound.add(unit.job.id)
            kept.append(unit)
    return kept[::-1]


def order_among_siblings(project: ProjectNode) -> tuple[object, ...]:
    """Return the position of a project among its siblings as victims: the fair order, reversed."""
    entitled = project.entitled
    return (
        project.priority,
        entitled > 0,
        -project.claimed / max(entitled, 1),
        -entitled,
        -project.age,
        project.name,
    )
