"""What the engine can tell at any time: views of the committed world, kept until something changes."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeVar

from springtide.scheduler import model, wire
from springtide.scheduler.engine import gpus, pool_view, views
from springtide.scheduler.engine.borrowing import Borrowing
from springtide.scheduler.engine.memory import Memory
from springtide.scheduler.engine.planning import PlannerLike, Planning
from springtide.scheduler.engine.world import World
from springtide.scheduler.model import Standing
from springtide.scheduler.store import Store
from springtide.scheduler.store.records import JobRecord

logger = logging.getLogger(__name__)
T = TypeVar("T")

RECENT = 512
"""Ended jobs kept at hand."""


class Knowledge:
    """The committed world and the planner, seen through views."""

    def __init__(self, world: World, planning: Planning, store: Store, clock: Callable[[], float]) -> None:
        self.world = world
        self.planning = planning
        self._store = store
        self._clock = clock
        self._recent: OrderedDict[str, JobRecord] = OrderedDict()
        self._lens: views.Lens | None = None
        self._labels: gpus.Labels | None = None
        self._standing: Mapping[str, Standing] | None = None
        self._pool: wire.PoolView | None = None
        self.seq = 0
        self.starts: dict[str, wire.Starts] = {}
        """When jobs that were looked at are expected to start."""
        self.memory = Memory(lambda: self.world.nodes)

    def changed(self) -> None:
        """Views have to be built again."""
        self._lens = None
        self._standing = None
        self._pool = None
        self.seq += 1

    def ended(self, job: JobRecord) -> None:
        """Keep an ended job at hand for a while, and learn from it."""
        if job.id not in self._recent:
            self.memory.learn(job)
        self._recent[job.id] = job
        self._recent.move_to_end(job.id)
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def at_hand(self, job_id: str) -> JobRecord | None:
        """A job that is unfinished or ended lately."""
        return self.world.jobs.get(job_id) or self._recent.get(job_id)

    def find(self, job_id: str) -> JobRecord | None:
        """A job, from memory if it is at hand, else from the store, which blocks."""
        return self.at_hand(job_id) or self._store.job(job_id)

    def lens(self) -> views.Lens:
        """What views of jobs need."""
        if self._lens is None:
            self._lens = self.lens_of(self.world.borrowing())
        return self._lens

    def lens_of(self, borrowing: Borrowing) -> views.Lens:
        """What views of jobs need while so much is borrowed."""
        if self._labels is None or self._labels.of is not self.world.nodes:
            self._labels = gpus.Labels(self.world.nodes)
        return views.Lens(self._labels, borrowing, self._waits, self._place, self.starts.get)

    def _waits(self, job_id: str) -> model.Reason | None:
        if self.planning.known(job_id) is None:
            return None
        return self._told(lambda planner: planner.reason(job_id, self._clock()), None)

    def _place(self, job_id: str) -> int | None:
        return self._told(lambda planner: planner.place(job_id), None)

    def _told(self, ask: Callable[[PlannerLike], T], otherwise: T) -> T:
        """What the planner says; a planner's mistake must not keep anybody from looking."""
        try:
            return ask(self.planning.planner)
        except Exception:
            logger.exception("The planner could not answer.")
            return otherwise

    def job(self, job: JobRecord, *, full: bool = True) -> wire.Job:
        """The view of a job."""
        return views.job(job, self.lens(), self._clock(), full=full)

    def standing(self) -> Mapping[str, Standing]:
        """How projects stand."""
        if self._standing is None:
            nobody: Mapping[str, Standing] = {}
            self._standing = self._told(lambda planner: planner.standing(), nobody)
        return self._standing

    def pool(self) -> wire.PoolView:
        """The pool at a glance."""
        if self._pool is None:
            self._pool = pool_view.pool(self.world, self.standing(), self.lens().borrowing, self.seq)
        return self._pool
