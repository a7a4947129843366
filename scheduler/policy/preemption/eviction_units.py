"""What running jobs can give up, and what it costs (DESIGN §4, victims)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy.plan_builder import Eviction, PlanBuilder
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


class TentativeEvictions:
    """Evictions, and dropped reservations, that are tried out on top of a plan.

    Pool and usage are changed until `undo`.
    """

    def __init__(self, builder: PlanBuilder) -> None:
        self.units: list[EvictionUnit] = []
        self.dropped: list[Job] = []
        self._builder = builder
        self._state = builder.state
        self._left: dict[str, Placement] = {}
        self._mark = self._state.undo.mark()

    def workers_left(self, job: Job) -> Placement:
        """Return the workers that a running job keeps."""
        left = self._left.get(job.id)
        return self._builder.workers_left(job) if left is None else left

    def take(self, unit: EvictionUnit) -> None:
        """Evict a unit."""
        self.count(unit, -1)
        self._state.pool.vacate(unit.job.id, unit.taken)
        self._left[unit.job.id] = unit.left
        self.units.append(unit)

    def give_back(self, unit: EvictionUnit) -> None:
        """Undo the eviction of a unit, the last one of its job, whose usage the caller has counted again."""
        self.units.remove(unit)
        self._state.pool.occupy(unit.job.id, unit.taken)
        self._left[unit.job.id] = unit.left + unit.taken

    def drop(self, job: Job) -> None:
        """Drop the reservation of a waiting job."""
        self._state.release(job)
        self.dropped.append(job)

    def count(self, unit: EvictionUnit, sign: int) -> None:
        """Add a unit's GPUs to the usage of its project, or subtract them."""
        self._state.tree.add_usage(
            self._state.leaf_of(unit.job), sign * unit.gpus, preemptible=unit.job.preemptible
        )

    def undo(self) -> None:
        """Give everything back."""
        self._state.undo.roll_back(self._mark)
        self.units = []
        self.dropped = []
        self._left = {}

    def victims(self) -> list[Job]:
        """Return the jobs that give up anything, in the order of their first eviction."""
        return list({unit.job.id: unit.job for unit in self.units}.values())

    def evictions(self, code: Callable[[Job], str]) -> tuple[Eviction, ...]:
        """Return all evictions by job; ``code`` returns the code of a victim's reason."""
        taken: dict[str, Placement] = {}
        for unit in self.units:
            taken[unit.job.id] = taken.get(unit.job.id, ()) + unit.taken
        return tuple(Eviction(job, taken[job.id], self.workers_left(job), code(job)) for job in self.victims())


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
