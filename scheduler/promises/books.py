"""The state of a pool for the checks: GPUs held, awaited and reserved, updated change by change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from springtide.scheduler.gpu_types import accepted_types, limit_of, pool_types, quota_of
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
    RecentUse,
    SettingsChanged,
    Snapshot,
    Standing,
    UseChanged,
    UseKey,
)
from springtide.scheduler.resources.per_gpu import PerGpu
from springtide.scheduler.timetable import (
    LEAST_STAY,
    changes_itself,
    leaves_at,
    next_change,
    nodes_at,
    projects_at,
    run_time_left,
)

GpuSlot = tuple[str, int]
"""One GPU: the name of its node and its index on that node."""


class Kind(NamedTuple):
    """The properties of a waiting job that decide whether it could start now; jobs of one kind share them.

    How long it runs and whether it ``saves`` checkpoints is only looked at while nodes close.
    """

    project: str
    preemptible: bool
    gpus: int
    min_workers: int
    gpu_types: tuple[str, ...]
    require: str | None
    not_before: float
    per_gpu: PerGpu
    run_time: float = 0.0
    saves: bool = True

    @property
    def need(self) -> int:
        """Smallest number of GPUs that a job of this kind runs with."""
        return self.gpus * self.min_workers


def kind_of(job: Job, *, timed: bool) -> Kind:
    """Return the kind of a job; ``timed`` if nodes close some time."""
    return Kind(
        job.project,
        job.preemptible,
        job.gpus,
        job.min_workers,
        job.gpu_types,
        job.require,
        job.not_before,
        job.per_gpu,
        run_time_left(job) if timed else 0.0,
        not timed or (job.saved is not None and job.preemptible),
    )


def gpu_slots(placement: Placement) -> Iterator[GpuSlot]:
    """Return the GPUs of a placement."""
    return ((worker.node, gpu) for worker in placement for gpu in worker.gpus)


def size(placement: Placement) -> int:
    """Return the number of GPUs of a placement."""
    return sum(len(worker.gpus) for worker in placement)


class Account:
    """The GPUs of one type by project.

    Descendants included: ``held`` counts GPUs of live attempts, ``promised`` those of reservations, ``claimed``
    both without attempts that are stopping, and ``pinned`` the part of ``claimed`` that belongs to jobs that are
    not preemptible. ``direct`` counts the GPUs of a project's own jobs, ``pinned_directly`` their part of
    ``pinned``.
    """

    def __init__(self, books: Books, gpu_type: str) -> None:
        self.gpu_type = gpu_type
        self._books = books
        self.held: Counter[str] = Counter()
        self.direct: Counter[str] = Counter()
        self.claimed: Counter[str] = Counter()
        self.pinned: Counter[str] = Counter()
        self.pinned_directly: Counter[str] = Counter()
        self.promised: Counter[str] = Counter()

    def firm_quota(self, project: str) -> float:
        """Return the quota, infinite if it is unlimited."""
        quota = quota_of(self._books.projects[project], self.gpu_type, self._books.types)
        return math.inf if quota is None else quota

    def quota(self, project: str) -> float:
        """Return the quota, or the limit if that is smaller; infinite if both are unlimited."""
        return min(self.firm_quota(project), self.limit(project))

    def quota_left(self, project: str) -> float:
        """Return the quota left to a project's own jobs by the projects below, infinite if unlimited."""
        below = (other.name for other in self._books.projects.values() if other.parent == project)
        return max(0.0, self.quota(project) - math.fsum(map(self.quota, below)))

    def leaves_no_quota(self, kind: Kind, need: int) -> bool:
        """Return whether a job that cannot be paused would hold GPUs that quotas guarantee to projects below."""
        if kind.preemptible or kind.project not in self._books.projects:
            return False
        return self.pinned_directly[kind.project] + need > self.quota_left(kind.project)

    def limit(self, project: str) -> float:
        """Return the limit, infinite if there is none."""
        limit = limit_of(self._books.projects[project], self.gpu_type, self._books.types)
        return math.inf if limit is None else limit

    def entitled(self, project: str, standing: Mapping[str, Standing] | None) -> float:
        """Return the number of GPUs that the project may claim back; infinite without standing."""
        if standing is None:
            return math.inf
        own = standing[project]
        share = own.by_type.get(self.gpu_type, own).fair_share
        return min(self.limit(project), max(share, self.firm_quota(project)))

    def count(self, job: Job, path: tuple[str, ...], sign: int) -> None:
        """Add the GPUs of a job, or subtract them."""
        held = sign * job.held_gpus
        promised = sign * size(job.reserved)
        claimed = promised + (0 if job.phase is Phase.PAUSING else held)
        self.direct[job.project] += held
        self.pinned_directly[job.project] += 0 if job.preemptible else claimed
        for name in path:
            self.held[name] += held
            self.promised[name] += promised
            self.claimed[name] += claimed
            if not job.preemptible:
                self.pinned[name] += claimed


class Books:
    """The state of a pool, with the sums that the checks need.

    ``accounts`` are the GPUs by project for each type of the pool. ``owners`` lists every holder of a GPU, so that
    a collision is visible. ``rooms`` counts nodes by GPU type and number of free, unreserved GPUs. ``recent_use``
    has the latest records. ``nodes`` and ``projects`` are as they are ``now``, ``all_nodes`` and ``all_projects``
    with what changes at known times. ``timed``: nodes close some time.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.settings = snapshot.settings
        self.types: tuple[str, ...] = ("",)
        self.accounts: dict[str, Account] = {}
        self._account_of: dict[str, Account] = {}
        self.nodes: dict[str, Node] = {}
        self.projects: dict[str, Project] = {}
        self.paths: dict[str, tuple[str, ...]] = {}
        self.jobs: dict[str, Job] = {}
        self.owners: dict[GpuSlot, list[str]] = {}
        self.reservations: dict[GpuSlot, list[str]] = {}
        self.waiting: dict[Kind, dict[str, None]] = {}
        self.reserved: dict[str, None] = {}
        self.free: dict[str, int] = {}
        self.rooms: Counter[tuple[str, int]] = Counter()
        self.recent_use: dict[UseKey, RecentUse] = {use.key: use for use in snapshot.recent_use}
        self.now = snapshot.now
        self.timed = False
        self._timetabled = False
        self.all_nodes = snapshot.nodes
        self.all_projects = snapshot.projects
        self._set_projects(snapshot.projects)
        self._set_nodes(snapshot.nodes)
        self._open_accounts()
        for job in snapshot.jobs:
            self._add(job)

    def apply(self, change: Change) -> None:
        """Record a change; the cost grows with the size of the change, new nodes or projects cost a recount."""
        match change:
            case JobChanged(job):
                before = self.jobs.get(job.id)
                if before is not None and before.is_renewed(job) and not self.timed:
                    self.jobs[job.id] = job
                else:
                    self._drop(job.id)
                    self._add(job)
            case JobRemoved(job_id):
                self._drop(job_id)
            case SettingsChanged(settings):
                self.settings = settings
                self._recount()
            case NodesChanged(nodes):
                self._set_nodes(nodes)
                self._recount()
            case ProjectsChanged(projects):
                self._set_projects(projects)
                self._recount()
            case UseChanged(use):
                self.recent_use[use.key] = use

    def pass_time(self, now: float) -> None:
        """Take in changes by time alone until ``now``, whichever way the clock went."""
        before, self.now = self.now, now
        if not self._timetabled:
            return
        changes_at = next_change(self.all_nodes, self.all_projects, min(before, now))
        if changes_at <= max(before, now):
            self._set_projects(self.all_projects)
            self._set_nodes(self.all_nodes)
            self._recount()

    def kind_of(self, job: Job) -> Kind:
        """Return the kind of a job."""
        return kind_of(job, timed=self.timed)

    def bars(self, node: Node, kind: Kind) -> bool:
        """Return whether a job of this kind must not start on the node now, because it closes soon."""
        leaves = leaves_at(node, self.now, self.settings) if node.closed else math.inf
        stays = max(LEAST_STAY, self.settings.min_runtime) if kind.saves else math.inf
        return self.is_cleared(node) or self.now > leaves - min(kind.run_time, stays)

    def has_to_leave(self, job: Job) -> bool:
        """Return whether a job runs on a node that closes so soon that it has to be paused."""
        nodes = (self.nodes[worker.node] for worker in job.placement if worker.node in self.nodes)
        return any(map(self.is_cleared, nodes))

    def is_cleared(self, node: Node) -> bool:
        """Return whether the node closes so soon that nothing starts there and all that runs there is paused."""
        return bool(node.closed) and leaves_at(node, self.now, self.settings) <= self.now

    def account_of(self, job: Job) -> Account:
        """Return the account of the type of the job's GPUs, or of the first type that it accepts."""
        there = self.account_at(job.placement or job.reserved)
        return self.accounts[(*self.accepted(job), *self.types)[0]] if there is None else there

    def account_at(self, placement: Placement) -> Account | None:
        """Return the account of the type of these GPUs; None if none of their nodes is known."""
        types = (self.nodes[worker.node].gpu_type for worker in placement if worker.node in self.nodes)
        return next((self.accounts[gpu_type] for gpu_type in types if gpu_type in self.accounts), None)

    def accepted(self, job: Job | Kind) -> tuple[str, ...]:
        """Return the pool's GPU types accepted by a job, in its order."""
        return accepted_types(job.gpu_types, self.types)

    def usable(self, slot: GpuSlot) -> bool:
        """Return whether an attempt could run on this GPU: it exists, is a train GPU and belongs to the pool."""
        node = self.nodes.get(slot[0])
        return (
            node is not None
            and 0 <= slot[1] < node.gpus
            and slot[1] not in node.taken
            and node.environment is Environment.TRAIN
        )

    def split(self, one: str, other: str) -> tuple[str, str]:
        """Return the ancestors of two projects (or the projects) just below their lowest common ancestor."""
        mine, others = self.paths[one], self.paths[other]
        shared = 0
        while shared < min(len(mine), len(others)) and mine[-1 - shared] == others[-1 - shared]:
            shared += 1
        return mine[max(0, len(mine) - 1 - shared)], others[max(0, len(others) - 1 - shared)]

    def _set_projects(self, projects: tuple[Project, ...]) -> None:
        self.all_projects = projects
        self.projects = {project.name: project for project in projects_at(projects, self.now)}
        self.recent_use = {key: use for key, use in self.recent_use.items() if key.project in self.projects}
        self.paths = {name: tuple(self._climb(name)) for name in self.projects}
        self._timetabled = changes_itself(self.all_nodes, self.all_projects)

    def _climb(self, name: str | None) -> Iterator[str]:
        seen = set()
        while name is not None and name in self.projects and name not in seen:
            seen.add(name)
            yield name
            name = self.projects[name].parent

    def _open_accounts(self) -> None:
        train = (node for node in self.nodes.values() if node.environment is Environment.TRAIN)
        self.types = pool_types(train, self.settings.gpu_types)
        self.accounts = {gpu_type: Account(self, gpu_type) for gpu_type in self.types}
        self._account_of.clear()

    def _recount(self) -> None:
        """Count the GPUs of all jobs by project again."""
        self._open_accounts()
        for job in self.jobs.values():
            self._count(job)

    def _set_nodes(self, nodes: tuple[Node, ...]) -> None:
        self.all_nodes = nodes
        self._timetabled = changes_itself(self.all_nodes, self.all_projects)
        self.nodes = {node.name: node for node in nodes_at(nodes, self.now)}
        if self.timed != any(node.closed for node in nodes):
            self.timed = not self.timed
            waiting = [job_id for jobs in self.waiting.values() for job_id in jobs]
            self.waiting = {}
            for job_id in waiting:
                self.waiting.setdefault(self.kind_of(self.jobs[job_id]), {})[job_id] = None
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
            self._claim(self.owners, gpu_slots(job.placement), job.id)
        if job.reserved:
            self.reserved[job.id] = None
            self._claim(self.reservations, gpu_slots(job.reserved), job.id)
        elif job.phase is Phase.WAITING:
            self.waiting.setdefault(self.kind_of(job), {})[job.id] = None
        self._count(job)

    def _drop(self, job_id: str) -> None:
        job = self.jobs.pop(job_id, None)
        if job is None:
            return
        if job.placement:
            self._release(self.owners, gpu_slots(job.placement), job.id)
        if job.reserved:
            del self.reserved[job.id]
            self._release(self.reservations, gpu_slots(job.reserved), job.id)
        elif job.phase is Phase.WAITING:
            kind = self.kind_of(job)
            alike = self.waiting[kind]
            del alike[job.id]
            if not alike:
                del self.waiting[kind]
        account = self._account_of.pop(job_id, None)
        if account is not None:
            account.count(job, self.paths.get(job.project, ()), -1)

    def _count(self, job: Job) -> None:
        if job.placement or job.reserved:
            account = self._account_of[job.id] = self.account_of(job)
            account.count(job, self.paths.get(job.project, ()), 1)

    def _claim(self, claims: dict[GpuSlot, list[str]], wanted: Iterator[GpuSlot], job: str) -> None:
        for slot in wanted:
            self._shift_room(slot, -1)
            claims.setdefault(slot, []).append(job)

    def _release(self, claims: dict[GpuSlot, list[str]], wanted: Iterator[GpuSlot], job: str) -> None:
        for slot in wanted:
            claims[slot].remove(job)
            if not claims[slot]:
                del claims[slot]
            self._shift_room(slot, 1)

    def _shift_room(self, slot: GpuSlot, by: int) -> None:
        """Count a GPU in or out of the free GPUs of its node; call this while nothing else claims the GPU."""
        if slot in self.owners or slot in self.reservations or not self.usable(slot):
            return
        node = self.nodes[slot[0]]
        if node.available:
            self.rooms[node.gpu_type, self.free[node.name]] -= 1
            self.free[node.name] += by
            self.rooms[node.gpu_type, self.free[node.name]] += 1
