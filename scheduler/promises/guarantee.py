"""The guarantee over time: how long a project was kept from its quota."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from springtide.scheduler.model import Environment, Job, Node, Phase
from springtide.scheduler.promises.books import Account, Books, Kind, gpu_slots, size
from springtide.scheduler.promises.breach import Breach, Promise
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

Owed: TypeAlias = tuple[str, Kind]
"""A GPU type, and a kind of jobs owed GPUs of it."""


@dataclass(slots=True)
class _Wait:
    """A time during which jobs of one kind are owed GPUs: ``job`` waits longest, ``since`` then, in seconds.

    ``opened`` is when the first of them was owed its GPUs, ``held`` the project's usage of its ``quota``
    meanwhile; ``reported``: the wait of ``job`` is already a breach.
    """

    opened: float
    job: str
    since: float
    held: int = 0
    quota: float = 0.0
    reported: bool = False


class GuaranteeMeter:
    """Measures how long projects were below their quotas while a waiting job of them fitted into the quota.

    The pool's state holds from one instant to the next, so that time counts whether or not anything happens in it,
    and whatever ends it. A job's wait counts only beyond one minimum run time plus grace period, each GPU type is
    looked at by itself, and a project's time counts once, however many of its jobs wait. Only guarantees that can
    be kept count: the quotas of the project, of its siblings and of its ancestors add up, and the job fits on the
    nodes beside the jobs that are not to be paused. Jobs that require a topology domain are left out, and those
    that ask for more cores or memory than some nodes of the type have for each GPU.

    ``waits_since`` has the time since which each waiting job waits.
    """

    def __init__(self, books: Books, waits_since: Mapping[str, float], now: float) -> None:
        self.violations: dict[str, float] = dict.fromkeys(books.projects, 0.0)
        """Time of broken guarantee by project, in seconds."""
        self._books = books
        self._waits_since = waits_since
        self._waits: dict[Owed, _Wait] = {}
        self._measured = now
        self._allowed = self.allowance

    @property
    def allowance(self) -> float:
        """Time within which a project gets GPUs of its quota, in seconds: minimum run time plus grace period."""
        return self._books.settings.min_runtime + self._books.settings.grace

    def _pass(self, now: float) -> Iterator[Breach]:
        """Measure the time up to ``now``, during which nothing happened; yield the violations."""
        late: dict[str, float] = {}
        for (gpu_type, kind), wait in self._waits.items():
            due = wait.since + self._allowed
            late[kind.project] = min(due, late.get(kind.project, due))
            if now > due and not wait.reported:
                wait.reported = True
                yield _breach(gpu_type, kind, wait, f"has waited {now - wait.since:g} s")
        for project, due in late.items():
            broken = max(0.0, now - max(due, self._measured))
            self.violations[project] = self.violations.get(project, 0.0) + broken
        self._measured = now

    def settled(self, now: float) -> Iterator[Breach]:
        """Measure until an instant at which no more decisions are due; yield the violations."""
        yield from self._pass(now)
        owed = self._owed()
        self._waits = {key: wait for key, wait in self._waits.items() if key in owed}
        for key, jobs in owed.items():
            (gpu_type, kind), wait = key, self._waits.get(key)
            if wait is None or wait.job not in jobs:
                opened = max(now, kind.not_before) if wait is None else wait.opened
                job = min(jobs, key=lambda job_id: self._waits_since.get(job_id, now))
                wait = self._waits[key] = _Wait(opened, job, max(opened, self._waits_since.get(job, now)))
            account = self._books.accounts[gpu_type]
            wait.held, wait.quota = account.held[kind.project], account.quota(kind.project)
        self._allowed = self.allowance

    def finish(self, now: float, *, over: bool) -> Iterator[Breach]:
        """Measure until the end of a history; yield the violations.

        ``over``: nothing happens after it, so that waiting jobs wait for ever.
        """
        yield from self._pass(now)
        for (gpu_type, kind), wait in self._waits.items():
            if over and not wait.reported:
                yield _breach(gpu_type, kind, wait, "never starts")
        self._waits.clear()

    def _owed(self) -> dict[Owed, Collection[str]]:
        """Return the jobs owed GPUs of their projects' quotas, now or at the end of a back-off."""
        books = self._books
        owed: dict[Owed, Collection[str]] = {
            (gpu_type, kind): jobs
            for kind, jobs in books.waiting.items()
            for gpu_type in books.accepted(kind)
            if self._is_owed(kind, gpu_type)
        }
        for job_id in books.reserved:
            job = books.jobs[job_id]
            if job.phase is not Phase.WAITING:
                continue
            kind, gpu_type = books.kind_of(job), books.account_of(job).gpu_type
            if (gpu_type, kind) in owed or self._is_owed(kind, gpu_type):
                owed[gpu_type, kind] = {*owed.get((gpu_type, kind), ()), job_id}
        return owed

    def _is_owed(self, kind: Kind, gpu_type: str) -> bool:
        books, account = self._books, self._books.accounts[gpu_type]
        return (
            kind.project in books.projects
            and account.held[kind.project] + kind.need <= account.quota(kind.project)
            and account.held[kind.project] + self._reserved_beside(kind) + kind.need <= account.quota(kind.project)
            and kind.require is None
            and not account.leaves_no_quota(kind, kind.need)
            and sound(books, account, kind.project)
            and placeable(books, account, kind)
        )

    def _reserved_beside(self, kind: Kind) -> int:
        """Return how many GPUs are reserved for the project's jobs of other kinds, which come next."""
        books = self._books
        reserved = (books.jobs[job_id] for job_id in books.reserved)
        mine = (job for job in reserved if job.project == kind.project)
        return sum(size(job.reserved) for job in mine if books.kind_of(job) != kind)


def _breach(gpu_type: str, kind: Kind, wait: _Wait, what: str) -> Breach:
    message = (
        f"{kind.project} holds {wait.held} {gpu_type} GPUs of its quota of {wait.quota:g}, "
        f"and its job {wait.job} fits but {what}"
    )
    return Breach(Promise.GUARANTEE, " ".join(message.split()), wait.job, kind.project)


def sound(books: Books, account: Account, project: str) -> bool:
    """Return whether the quotas of a GPU type add up on every level from the project to the root."""
    pool = sum(node.gpus - len(node.taken) for node in _nodes(books, account.gpu_type))
    path = books.paths[project]
    for at, name in enumerate(path):
        above = path[at + 1] if at + 1 < len(path) else None
        room = pool if above is None else account.quota(above)
        level = [other for other in books.projects.values() if other.parent == books.projects[name].parent]
        if math.fsum(max(account.quota(other.name), account.pinned[other.name]) for other in level) > room:
            return False
    return True


def placeable(books: Books, account: Account, kind: Kind) -> bool:
    """Return whether the job fits on GPUs of a type for certain beside all jobs that may stay.

    These are the jobs that are not preemptible, on their GPUs; and the running jobs of its own project and of
    projects within their quotas, and of the others as many as their quotas protect, on any GPUs that fit, or on
    their own GPUs if they require a topology domain or cannot run on every node. A job that cannot run on every
    node of the type fits for certain on none.
    """
    if not _runs_anywhere(books, account.gpu_type, kind.per_gpu):
        return False
    there = [node for node in _nodes(books, account.gpu_type) if not books.bars(node, kind)]
    room = {node.name: node.gpus - len(node.taken) for node in there}
    movable: list[int] = []
    borrowers: dict[str, list[Job]] = {}
    for job in books.jobs.values():
        if books.account_of(job) is not account:
            continue
        stays = job.project == kind.project or _protected(books, account, job.project, kind.project)
        bound = job.require is not None or not _runs_anywhere(books, account.gpu_type, job.per_gpu)
        if not job.preemptible or (stays and bound):
            for node, _ in gpu_slots(job.placement):
                if node in room:
                    room[node] -= 1
        elif stays:
            movable += [job.gpus] * len(job.placement)
        elif job.phase is Phase.RUNNING:
            borrowers.setdefault(job.project, []).append(job)
    for project, jobs in borrowers.items():
        movable += _kept(jobs, account.quota(project))
    return _packs(room, kind, movable)


def _kept(jobs: list[Job], quota: float) -> list[int]:
    """Return the GPUs of each worker that a project beyond its quota may keep within it: the largest workers."""
    kept: list[int] = []
    for gpus in sorted((job.gpus for job in jobs for _ in job.placement), reverse=True):
        if gpus <= quota:
            quota -= gpus
            kept.append(gpus)
    return kept


def _runs_anywhere(books: Books, gpu_type: str, per_gpu: PerGpu) -> bool:
    """Return whether all nodes of a type offer ``per_gpu`` with each GPU."""
    return per_gpu == UNSPECIFIED or all(node.per_gpu.holds(per_gpu) for node in _nodes(books, gpu_type))


def _nodes(books: Books, gpu_type: str) -> list[Node]:
    """Return the available train nodes of a type."""
    return [
        node
        for node in books.nodes.values()
        if node.available
        and node.gpu_type == gpu_type
        and node.environment is Environment.TRAIN
        and not books.is_cleared(node)
    ]


def _protected(books: Books, account: Account, project: str, other: str) -> bool:
    """Return whether ``project``, or an ancestor of it and not of ``other``, is protected by its quota."""
    above_both = set(books.paths.get(other, ()))
    own = (name for name in books.paths.get(project, ()) if name not in above_both)
    return any(account.claimed[name] <= account.quota(name) for name in own)


def _packs(room: dict[str, int], kind: Kind, movable: list[int]) -> bool:
    """Return whether the job and then the movable workers fit, each on the fullest node. ``room`` is used up."""
    for gpus in [kind.gpus] * kind.min_workers + sorted(movable, reverse=True):
        fitting = [(free, name) for name, free in room.items() if free >= gpus]
        if not fitting:
            return False
        room[min(fitting)[1]] -= gpus
    return True
