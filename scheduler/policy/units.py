"""What running jobs can give, and how dear it is."""

from __future__ import annotations

from typing import NamedTuple

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy.pool import Place, mask_of
from springtide.scheduler.policy.tree import Seat

NOTHING_LOST = 1.0
"""GPU-seconds of work that do not count: a job that has run for less has nothing to lose."""


class Unit(NamedTuple):
    """What can be taken from a job at once: one of the workers it can spare, or all that it has left."""

    key: tuple[object, ...]
    job: Job
    taken: Placement
    left: Placement
    lost: float
    at_work: bool

    @property
    def gpus(self) -> int:
        """GPUs it frees, wherever they are."""
        return len(self.taken) * self.job.gpus


class Option(NamedTuple):
    """Units that together free enough GPUs of one node for one more worker; the smaller the score the better."""

    score: tuple[object, ...]
    rank: int
    units: list[Unit]


def at_work(job: Job, now: float) -> bool:
    """Whether the attempt has run for long enough that its pause costs anything."""
    return job.held_gpus * (now - (job.started or 0.0)) > NOTHING_LOST


def on(unit: Unit, place: Place) -> int:
    """How many GPUs of the node the unit makes free: not those that are promised to another job."""
    mask = 0
    for worker in unit.taken:
        if worker.node == place.name:
            mask |= mask_of(worker.gpus)
    return (mask & place.usable & ~place.reserved).bit_count()


def fit(unit: Unit, place: Place, missing: int) -> tuple[object, ...]:
    here = on(unit, place)
    return (here < missing, abs(here - missing), unit.key)


def score(units: list[Unit], short: int) -> tuple[object, ...]:
    """How dear units are: GPUs at work that are paused beyond the need, work lost, then the victims' order."""
    stopped = sum(unit.gpus for unit in units if unit.at_work)
    return (max(0, stopped - short), float(sum(unit.lost for unit in units)), [unit.key for unit in units])


def without_surplus(chosen: list[Unit], place: Place, surplus: int) -> list[Unit]:
    """Leave out, the dearest first, what is not needed after all; of a job only the unit that was chosen last."""
    bound: set[str] = set()
    kept: list[Unit] = []
    for unit in reversed(chosen):
        here = on(unit, place)
        if here <= surplus and unit.job.id not in bound:
            surplus -= here
        else:
            bound.add(unit.job.id)
            kept.append(unit)
    return kept[::-1]


def order_among_siblings(seat: Seat) -> tuple[object, ...]:
    """Where a project stands among its siblings as victims: the order of turns, backwards."""
    entitled = seat.entitled
    return (
        seat.priority,
        entitled > 0,
        -seat.claimed / max(entitled, 1),
        -entitled,
        -seat.age,
        seat.name,
    )
