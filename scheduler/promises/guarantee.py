"""The guarantee over time: how long a project was kept from its quota."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from springtide.scheduler.model import Environment, Job, Node, Phase
from springtide.scheduler.promises.books import Account, Books, Kind, gpu_slots, kind_of
from springtide.scheduler.promises.breach import Breach, Promise
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu

Owed: TypeAlias = tuple[str, str]
"""A GPU type, and a project that is owed GPUs of it."""


class GuaranteeMeter:
    """Measures how long projects were below their quotas while waiting jobs of them fitted into the quotas.

    Each GPU type is measured by itself. Time counts only beyond one minimum run time plus grace period, and from
    the project's last start on. Only guarantees that can be kept count: the quotas of the project, of its siblings
    and of its ancestors add up, and the job fits on the nodes beside the jobs that are not to be paused. Jobs that
    require a topology domain are left out, and those that ask for more cores or memory than some nodes of the
    type have for each GPU.
    """

    def __init__(self, books: Books) -> None:
        self.violations: dict[str, float] = dict.fromkeys(books.projects, 0.0)
        """Time of broken guarantee by project, in seconds."""
        self._books = books
        self._since: dict[Owed, tuple[float, str]] = {}

    def started(self, gpu_type: str, project: str) -> None:
        """Restart the measurement of a project, because one of its jobs was started on GPUs of this type."""
        self._since.pop((gpu_type, project), None)

    def settled(self, now: float) -> Iterator[Breach]:
        """Measure at an instant at which no more decisions are due; return each violation found."""
        short = self._short(now)
        for owed in [owed for owed in self._since if owed not in short]:
            self._close(owed, self._since.pop(owed), now)
        for owed, job in short.items():
            since, waiting = self._since.setdefault(owed, (now, job))
            if waiting != job and not self._waits(waiting):
                since, _ = self._since[owed] = (now, job)
            if now - since > self.allowance:
                (gpu_type, project), account = owed, self._books.accounts[owed[0]]
                message = (
                    f"{project} holds {account.held[project]} {gpu_type} GPUs of its quota of "
                    f"{account.quota(project):g}, and its job {job} fits but has waited {now - since:g} s"
                )
                yield Breach(Promise.GUARANTEE, " ".join(message.split()), job, project)

    def finish(self, now: float) -> None:
        """Add the open intervals at the end of a history."""
        for owed, entry in self._since.items():
            self._close(owed, entry, now)
        self._since.clear()

    @property
    def allowance(self) -> float:
        """Time within which a project gets GPUs of its quota, in seconds: minimum run time plus grace period."""
        return self._books.settings.min_runtime + self._books.settings.grace

    def _close(self, owed: Owed, entry: tuple[float, str], now: float) -> None:
        late = max(0.0, now - entry[0] - self.allowance)
        self.violations[owed[1]] = self.violations.get(owed[1], 0.0) + late

    def _waits(self, job_id: str) -> bool:
        job = self._books.jobs.get(job_id)
        return job is not None and job.phase is Phase.WAITING

    def _short(self, now: float) -> dict[Owed, str]:
        """Return the projects that are kept from their quota now, each with a job that waits for it."""
        books = self._books
        short: dict[Owed, str] = {}
        for kind, jobs in books.waiting.items():
            for gpu_type in books.accepted(kind):
                if self._owed(kind, gpu_type, now):
                    short.setdefault((gpu_type, kind.project), next(iter(jobs)))
        for job_id in books.reserved:
            job = books.jobs[job_id]
            gpu_type = books.account_of(job).gpu_type
            if job.phase is Phase.WAITING and self._owed(kind_of(job), gpu_type, now):
                short.setdefault((gpu_type, job.project), job_id)
        return short

    def _owed(self, kind: Kind, gpu_type: str, now: float) -> bool:
        books, account = self._books, self._books.accounts[gpu_type]
        return (
            kind.project in books.projects
            and account.held[kind.project] + kind.need <= account.quota(kind.project)
            and kind.not_before <= now
            and kind.require is None
            and sound(books, account, kind.project)
            and placeable(books, account, kind)
        )


def sound(books: Books, account: Account, project: str) -> bool:
    """Return whether the quotas of a GPU type add up on every level from the project to the root."""
    pool = sum(node.gpus - len(node.taken) for node in _nodes(books, account.gpu_type))
    path = books.paths[project]
    for at, name in enumerate(path):
        above = path[at + 1] if at + 1 < len(path) else None
        if above is not None and account.direct[above]:
            return False
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
    room = {node.name: node.gpus - len(node.taken) for node in _nodes(books, account.gpu_type)}
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
    """Return whether all nodes of a type have what is asked for with each GPU."""
    return per_gpu == UNSPECIFIED or all(node.per_gpu.holds(per_gpu) for node in _nodes(books, gpu_type))


def _nodes(books: Books, gpu_type: str) -> list[Node]:
    """Return the available train nodes of a type."""
    return [
        node
        for node in books.nodes.values()
        if node.available and node.gpu_type == gpu_type and node.environment is Environment.TRAIN
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
