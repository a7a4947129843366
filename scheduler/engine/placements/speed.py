"""The speed of an attempt, by its reported steps or by its run time; pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from springtide.scheduler.history.run_times import name_without_digits
from springtide.scheduler.model import WITHIN_NODES, Node, Placement, Spread
from springtide.scheduler.policy.gang_placement import by_tightness
from springtide.scheduler.policy.state.nodes import NODE
from springtide.scheduler.store.records import AttemptRecord, AttemptState, JobRecord, JobSpec


class Topology:
    """The nodes by name, and the levels above them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        domains: dict[str, set[str]] = {}
        for node in self._nodes.values():
            for level, domain in node.labels.items():
                domains.setdefault(level, set()).add(domain)
        self._levels = by_tightness(domains)

    def spread(self, placement: Placement) -> Spread | None:
        """How these workers sit; None if a node is not known."""
        names = {worker.node for worker in placement}
        if not names or not names <= self._nodes.keys():
            return None
        if len(names) == 1:
            gpus = {gpu for worker in placement for gpu in worker.gpus}
            node = self._nodes[names.pop()]
            levels = (level for level in WITHIN_NODES if any(gpus.issubset(group) for group in node.groups(level)))
            return Spread(next(levels, NODE), 1)
        for level in self._levels:
            domains = {self._nodes[name].labels.get(level) for name in names}
            if len(domains) == 1 and None not in domains:
                return Spread(level, len(names))
        return Spread("", len(names))


MIN_TIME = 60.0
"""Minimum time that is measured, in seconds: less says more of single steps than of the placement."""

STEPS, RUNS = "steps", "runs"
"""The unit of a speed: reported steps per second, or whole runs of jobs that report none."""
MEASURES = (STEPS, RUNS)
"""The units of speeds, the more exact first."""


class Work(NamedTuple):
    """Jobs that do the same: those of one user and project with the same name, whatever their size.

    Digits of names are ignored: ``sweep-7`` and ``sweep-8`` are the same name.
    """

    project: str
    user: str
    name: str


class Placed(NamedTuple):
    """The placement of an attempt: ``workers`` workers with ``gpus`` GPUs each, of one type."""

    gpu_type: str
    workers: int
    gpus: int
    spread: Spread


class Speed(NamedTuple):
    """Steps or runs per second. ``of`` is the number of steps of the whole job, if the job reports it."""

    measure: str
    per_second: float
    of: float | None


def work_of(spec: JobSpec) -> Work:
    """Return which work a job does."""
    return Work(spec.project, spec.user, name_without_digits(spec.name))


def speed_of(job: JobRecord, attempt: AttemptRecord) -> Speed | None:
    """Return the speed of an attempt, None if it is unknown.

    Steps are counted from the second report of the attempt on, so that neither what precedes the first step nor
    the compilation in it counts, and up to the last report. Attempts end at each pause, so that pauses do not
    count. If a job reports no steps, a complete run in one attempt counts.
    """
    counted = attempt.counted
    if counted is not None and counted.since is not None and counted.first is not None:
        passed = counted.at - counted.since
        if passed >= MIN_TIME:
            return Speed(STEPS, (counted.step - counted.first) / passed, job.standing.of)
        return None
    if job.standing.best_step is not None or attempt.started is None or attempt.ended is None:
        return None
    passed = attempt.ended - attempt.started
    whole = attempt.number == 1 and attempt.state is AttemptState.SUCCEEDED
    return Speed(RUNS, 1.0 / passed, None) if whole and passed >= MIN_TIME else None
