"""The waiting jobs of each project, in order, grouped by what they ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sortedcontainers import SortedList

from springtide.scheduler.model import Job

SERVICE_STEP = 4 * 3600.0
"""GPU-seconds of the first step of service; every further step is twice as long.

Four hours on one GPU, by measurement (docs/policy.md): most jobs end within it, and to stop one shortly before
its end for another like it helps nobody. With doubling steps a job is rotated at most once per step, so the pauses
of its life grow with the logarithm of it.
"""

AGEING = 4 * 86_400.0
"""Seconds of waiting that make up for one step of service, so that no job waits for ever behind newer ones.

Who was started for having waited is not rotated at once: it counts as long as the job runs. So it must be rare.
"""


class Where(NamedTuple):
    """All that decides whether the free GPUs hold a job."""

    gpus: int
    min_workers: int
    gpu_types: tuple[str, ...]
    require: str | None
    prefer: str | None


class Shape(NamedTuple):
    """All that decides whether a job of a project can start, where, and who gives way to it.

    Jobs of one shape stand in one line. ``step`` is that of the service they had, however long they have waited.
    """

    where: Where
    preemptible: bool
    step: int

    @property
    def need(self) -> int:
        """GPUs it takes to start."""
        return self.where.gpus * self.where.min_workers


Turn = tuple[int, int, float, str]
"""A job's place among those of its project: priority, service, age, id. The smallest goes first."""


def shape_of(job: Job) -> Shape:
    """What the job asks for."""
    where = Where(job.gpus, job.min_workers, job.gpu_types, job.require, job.prefer)
    return Shape(where, job.preemptible, step_of(job.served))


def step_of(service: float) -> int:
    """The coarse step of an amount of service: 0 below `SERVICE_STEP`, then one more with each doubling."""
    return int(service / SERVICE_STEP).bit_length()


def service_until(step: int) -> float:
    """The least service that is in a later step than ``step``."""
    return SERVICE_STEP * (1 << step)


def waiting_since(job: Job) -> float:
    """Since when the job would have waited, had it waited all the time that it has not run at once."""
    return job.submitted + job.served / (job.gpus * job.min_workers)


def aged(job: Job, at: float) -> int:
    """How many steps of service the job's waiting makes up for, had it waited until then."""
    return max(0, int((at - waiting_since(job)) // AGEING))


class Lines:
    """The lines of one project."""

    def __init__(self, wheres: Counter[Where]) -> None:
        """``wheres`` counts the lines of all projects by where their jobs fit; it is kept up to date."""
        self.by_shape: dict[Shape, SortedList] = {}
        self.version = 0
        self._wheres = wheres
        self.smallest = 0
        self._heads: list[tuple[Turn, Shape]] | None = None

    def fill(self, waiting: dict[Shape, list[Turn]]) -> None:
        """Line up many at once."""
        self.by_shape = {shape: SortedList(turns) for shape, turns in waiting.items()}
        self._wheres.update(shape.where for shape in waiting)
        self._changed()

    def add(self, shape: Shape, turn: Turn) -> None:
        """A job joins its line."""
        line = self.by_shape.get(shape)
        if line is None:
            line = self.by_shape[shape] = SortedList()
            self._wheres[shape.where] += 1
        line.add(turn)
        self._changed()

    def remove(self, shape: Shape, turn: Turn) -> None:
        """A job leaves its line."""
        line = self.by_shape[shape]
        line.remove(turn)
        if not line:
            del self.by_shape[shape]
            self._wheres[shape.where] -= 1
            if not self._wheres[shape.where]:
                del self._wheres[shape.where]
        self._changed()

    def heads(self) -> Sequence[tuple[Turn, Shape]]:
        """The first of every line, in order."""
        if self._heads is None:
            self._heads = sorted((line[0], shape) for shape, line in self.by_shape.items())
        return self._heads

    def before(self, turn: Turn) -> int:
        """How many jobs stand before this place."""
        return sum(line.bisect_left(turn) for line in self.by_shape.values())

    def _changed(self) -> None:
        self._heads = None
        self.version += 1
        self.smallest = min((shape.need for shape in self.by_shape), default=0)
