"""Who holds, awaits and was promised what: kept up to date change by change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from springtide.scheduler.model import (
    Change,
    Environment,
    Job,
    JobChanged,
    JobRemoved,
    Node,
    NodesChanged,
    Phase,
    Placement,
    Project,
    ProjectsChanged,
    SettingsChanged,
    Snapshot,
)

Seat = tuple[str, int]
"""One GPU: its node, and its index there."""


@dataclass(frozen=True, slots=True)
class Kind:
    """All that decides whether a waiting job could start now: jobs of a kind are alike in it."""

    project: str
    preemptible: bool
    gpus: int
    min_workers: int
    gpu_types: tuple[str, ...]
    require: str | None
    not_before: float

    @property
    def need(self) -> int:
        """The fewest GPUs that a job of this kind runs with."""
        return self.gpus * self.min_workers


def kind_of(job: Job) -> Kind:
    """The kind of a job."""
    return Kind(
        job.project, job.preemptible, job.gpus, job.min_workers, job.gpu_types, job.require, job.not_before
    )


def seats(placement: Placement) -> Iterator[Seat]:
    """The GPUs of a placement."""
    return ((worker.node, gpu) for worker in placement for gpu in worker.gpus)


def size(placement: Placement) -> int:
    """How many GPUs a placement has."""
    return sum(len(worker.gpus) for worker in placement)


class Books:
    """The state of a pool, with the sums that checks need.

    Per project, descendants included: ``held`` counts GPUs of live attempts, ``promised`` those of reservations,
    ``claimed`` both without attempts that are stopping, and ``pinned`` the part of that which cannot be paused.
    ``owners`` has everyone that holds a GPU, so that a collision shows.
    ``rooms`` counts nodes by GPU type and GPUs that are free and promised to nobody.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.settings = snapshot.settings
        self.nodes: dict[str, Node] = {}
        self.projects: dict[str, Project] = {}
        self.paths: dict[str, tuple[str, ...]] = {}
        self.jobs: dict[str, Job] = {}
        self.owners: dict[Seat, list[str]] = {}
        self.reservations: dict[Seat, list[str]] = {}
        self.held: Counter[str] = Counter()
        self.direct: Counter[str] = Counter()
        self.claimed: Counter[str] = Counter()
        self.pinned: Counter[str] = Counter()
        self.promised: Counter[str] = Counter()
        self.waiting: dict[Kind, dict[str, None]] = {}
        self.reserved: dict[str, None] = {}
        self.free: dict[str, int] = {}
        self.rooms: Counter[tuple[str, int]] = Counter()
        self._set_projects(snapshot.projects)
        self._set_nodes(snapshot.nodes)
        for job in snapshot.jobs:
            self._add(job)

    def apply(self, change: Change) -> None:
        """Take note of a change. Costs as much as the change is large; new nodes or projects cost a recount."""
        match change:
            case JobChanged(job):
                self._drop(job.id)
                self._add(job)
            case JobRemoved(job_id):
                self._drop(job_id)
            case SettingsChanged(settings):
                self.settings = settings
            case NodesChanged(nodes):
                self._set_nodes(nodes)
            case ProjectsChanged(projects):
                jobs = list(self.jobs.values())
                for job in jobs:
                    self._drop(job.id)
                self._set_projects(projects)
                for job in jobs:
                    self._add(job)

    def quota(self, project: str) -> float:
        """The quota as far as the limit lets it be used; infinite if unlimited."""
        own = self.projects[project]
        return min(math.inf if own.quota is None else own.quota, self.limit(project))

    def limit(self, project: str) -> float:
        """The limit, infinite if there is none."""
        limit = self.projects[project].limit
        return math.inf if limit is None else limit

    def usable(self, seat: Seat) -> bool:
        """Whether an attempt could ever run on this GPU: it exists, is no build GPU and nobody else's."""
        node = self.nodes.get(seat[0])
        return (
            node is not None
            and 0 <= seat[1] < node.gpus
            and seat[1] not in node.taken
            and node.environment is Environment.TRAIN
        )

    def split(self, one: str, other: str) -> tuple[str, str]:
        """The ancestors of two projects (or they themselves) just below what they have in common."""
        mine, others = self.paths[one], self.paths[other]
        shared = 0
        while shared < min(len(mine), len(others)) and mine[-1 - shared] == others[-1 - shared]:
            shared += 1
        return mine[max(0, len(mine) - 1 - shared)], others[max(0, len(others) - 1 - shared)]

    def _set_projects(self, projects: tuple[Project, ...]) -> None:
        self.projects = {project.name: project for project in projects}
        self.paths = {name: tuple(self._climb(name)) for name in self.projects}

    def _climb(self, name: str | None) -> Iterator[str]:
        seen = set()
        while name is not None and name in self.projects and name not in seen:
            seen.add(name)
            yield name
            name = self.projects[name].parent

    def _set_nodes(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.rooms.clear()
        self.free.clear()
        for name, node in self.nodes.items():
            self.free[name] = self._count_free(node)
            self.rooms[node.gpu_type, self.free[name]] += 1

    def _count_free(self, node: Node) -> int:
        if not node.available or node.environment is not Environment.TRAIN:
            return 0
        return sum(
            1
            for gpu in range(node.gpus)
            if gpu not in node.taken
            and (node.name, gpu) not in self.owners
            and (node.name, gpu) not in self.reservations
        )

    def _add(self, job: Job) -> None:
        self.jobs[job.id] = job
        if job.placement:
            self._claim(self.owners, seats(job.placement), job.id)
        if job.reserved:
            self.reserved[job.id] = None
            self._claim(self.reservations, seats(job.reserved), job.id)
        elif job.phase is Phase.WAITING:
            self.waiting.setdefault(kind_of(job), {})[job.id] = None
        self._count(job, 1)

    def _drop(self, job_id: str) -> None:
        job = self.jobs.pop(job_id, None)
        if job is None:
            return
        if job.placement:
            self._release(self.owners, seats(job.placement), job.id)
        if job.reserved:
            del self.reserved[job.id]
            self._release(self.reservations, seats(job.reserved), job.id)
        elif job.phase is Phase.WAITING:
            alike = self.waiting[kind_of(job)]
            del alike[job.id]
            if not alike:
                del self.waiting[kind_of(job)]
        self._count(job, -1)

    def _count(self, job: Job, sign: int) -> None:
        held = sign * job.held_gpus
        promised = sign * size(job.reserved)
        if not held and not promised:
            return
        claimed = promised + (0 if job.phase is Phase.PAUSING else held)
        self.direct[job.project] += held
        for name in self.paths.get(job.project, ()):
            self.held[name] += held
            self.promised[name] += promised
            self.claimed[name] += claimed
            if not job.preemptible:
                self.pinned[name] += claimed

    def _claim(self, claims: dict[Seat, list[str]], wanted: Iterator[Seat], job: str) -> None:
        for seat in wanted:
            self._shift_room(seat, -1)
            claims.setdefault(seat, []).append(job)

    def _release(self, claims: dict[Seat, list[str]], wanted: Iterator[Seat], job: str) -> None:
        for seat in wanted:
            claims[seat].remove(job)
            if not claims[seat]:
                del claims[seat]
            self._shift_room(seat, 1)

    def _shift_room(self, seat: Seat, by: int) -> None:
        """Count a GPU in or out of its node's room, called while nothing else claims it."""
        if seat in self.owners or seat in self.reservations or not self.usable(seat):
            return
        node = self.nodes[seat[0]]
        if node.available:
            self.rooms[node.gpu_type, self.free[node.name]] -= 1
            self.free[node.name] += by
            self.rooms[node.gpu_type, self.free[node.name]] += 1
