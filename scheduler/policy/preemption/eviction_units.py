"""What running jobs can give up, and what it costs (DESIGN §4, victims)."""

from __future__ import annotations

from typing import NamedTuple

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy.state.nodes import NodeState, mask_of
from springtide.scheduler.policy.state.projects import ProjectNode

Score = tuple[int, float, list[tuple[object, ...]], int]
"""GPUs at work paused beyond the need, work lost in GPU-seconds, the victims' order, and the node's index."""


class EvictionUnit(NamedTuple):
    """The smallest eviction of a job: one of the workers that it can spare, or else all that it has.

    ``lost`` is the work that it loses, in GPU-seconds, ``gpus_at_work`` the GPUs that are in use and not just
    started. ``key`` is its place in the victims' order.
    """

    key: tuple[object, ...]
    job: Job
    taken: Placement
    left: Placement
    lost: float
    gpus_at_work: int


class NodeOption(NamedTuple):
    """Units that free enough GPUs of one node for one more worker; the smaller the score the better."""

    score: Score
    node_index: int
    units: list[EvictionUnit]


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


def option_of(node: NodeState, short: int, units: list[EvictionUnit]) -> NodeOption:
    """Return the option of units that free ``short`` GPUs of the node."""
    beyond = max(0, sum(unit.gpus_at_work for unit in units) - short)
    score = (beyond, float(sum(unit.lost for unit in units)), [unit.key for unit in units], node.index)
    return NodeOption(score, node.index, units)


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
