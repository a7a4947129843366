"""How long jobs ran before they ended: what forecasts learn from."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterator

from springtide.scheduler import model
from springtide.scheduler.store.records import JobRecord

KEPT = 50
"""Run times kept of one kind of job, the latest."""
KINDS = 10_000
"""Kinds remembered, the latest."""
ENOUGH = 3
"""Run times that tell something of jobs that are alike in some respects only."""

Kind = tuple[str | int, ...]


class RunTimes:
    """Run times by kind of job. Jobs of one user with the same name and size are alike; where there are none,
    those that are alike in less stand in. Numbers in names do not count: ``sweep-7`` is a ``sweep-8``.
    """

    def __init__(self) -> None:
        self._times: OrderedDict[Kind, deque[float]] = OrderedDict()
        self._sorted: dict[Kind, tuple[float, ...]] = {}

    def learn(self, job: JobRecord) -> None:
        """Take note of a job that has ended, however it did."""
        spec, served = job.spec, job.standing.served
        if served <= 0:
            return
        seconds = served / (spec.workers * spec.gpus)
        for kind in _kinds(spec.user, spec.project, spec.name, spec.workers * spec.gpus):
            self._times.setdefault(kind, deque(maxlen=KEPT)).append(seconds)
            self._times.move_to_end(kind)
            self._sorted.pop(kind, None)
        while len(self._times) > KINDS:
            self._sorted.pop(self._times.popitem(last=False)[0], None)

    def like(self, job: model.Job) -> tuple[float, ...]:
        """The run times of ended jobs like this one, in seconds with all workers, shortest first."""
        least = 1
        for kind in _kinds(job.user, job.project, job.name, job.workers * job.gpus):
            times = self._times.get(kind)
            if times is not None and len(times) >= least:
                if kind not in self._sorted:
                    self._sorted[kind] = tuple(sorted(times))
                return self._sorted[kind]
            least = ENOUGH
        return ()


def stem(name: str) -> str:
    """A job's name without its numbers."""
    return re.sub(r"\d+", "#", name.lower())


def _kinds(user: str, project: str, name: str, gpus: int) -> Iterator[Kind]:
    """What the job is an example of, the most telling first."""
    yield ("name and size", user, project, stem(name), gpus)
    yield ("name", user, stem(name))
    yield ("size", user, project, gpus)
    yield ("project", project)
    yield ("any",)
