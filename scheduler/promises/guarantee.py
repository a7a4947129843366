"""The guarantee over time: how long a project was kept from its quota."""

from __future__ import annotations

import math
from collections.abc import Iterator

from springtide.scheduler.model import Phase
from springtide.scheduler.promises.books import Books, Kind, gpu_slots, kind_of
from springtide.scheduler.promises.breach import Breach, Promise


class GuaranteeMeter:
    """Measures for each project how long it was below its quota while a waiting job of it fitted into the quota.

    Time counts only beyond one minimum run time plus grace period, and from the project's last start on. Only
    guarantees that can be kept count: the quotas of the project, of its siblings and of its ancestors add up, and
    the job fits on the nodes beside the jobs that are not to be paused. Jobs that require a GPU type or a topology
    domain are left out.
    """

    def __init__(self, books: Books) -> None:
        self.violations: dict[str, float] = dict.fromkeys(books.projects, 0.0)
        """Time of broken guarantee by project, in seconds."""
        self._books = books
        self._since: dict[str, tuple[float, str]] = {}

    def started(self, project: str) -> None:
        """Restart the measurement of a project, because one of its jobs was started."""
        self._close(project, self._since.pop(project, None), None)

    def settled(self, now: float) -> Iterator[Breach]:
        """Measure at an instant at which no more decisions are due; return each violation found."""
        short = self._short(now)
        for project in [project for project in self._since if project not in short]:
            self._close(project, self._since.pop(project), now)
        for project, job in short.items():
            since, waiting = self._since.setdefault(project, (now, job))
            if waiting != job and not self._waits(waiting):
                since, _ = self._since[project] = (now, job)
            if now - since > self.allowance:
                message = (
                    f"{project} holds {self._books.held[project]} GPUs of its quota of "
                    f"{self._books.quota(project):g}, and its job {job} fits but has waited {now - since:g} s"
                )
                yield Breach(Promise.GUARANTEE, message, job, project)

    def finish(self, now: float) -> None:
        """Add the open intervals at the end of a history."""
        for project, entry in self._since.items():
            self._close(project, entry, now)
        self._since.clear()

    @property
    def allowance(self) -> float:
        """Time within which a project gets GPUs of its quota, in seconds: minimum run time plus grace period."""
        return self._books.settings.min_runtime + self._books.settings.grace

    def _close(self, project: str, entry: tuple[float, str] | None, now: float | None) -> None:
        if entry is not None and now is not None:
            late = max(0.0, now - entry[0] - self.allowance)
            self.violations[project] = self.violations.get(project, 0.0) + late

    def _waits(self, job_id: str) -> bool:
        job = self._books.jobs.get(job_id)
        return job is not None and job.phase is Phase.WAITING

    def _short(self, now: float) -> dict[str, str]:
        """Return the projects that are kept from their quota now, each with a job that waits for it."""
        books = self._books
        short: dict[str, str] = {}
        for kind, jobs in books.waiting.items():
            if self._owed(kind, now):
                short.setdefault(kind.project, next(iter(jobs)))
        for job_id in books.reserved:
            job = books.jobs[job_id]
            if job.phase is Phase.WAITING and self._owed(kind_of(job), now):
                short.setdefault(job.project, job_id)
        return short

    def _owed(self, kind: Kind, now: float) -> bool:
        books = self._books
        return (
            kind.project in books.projects
            and books.held[kind.project] + kind.need <= books.quota(kind.project)
            and kind.not_before <= now
            and kind.require is None
            and not kind.gpu_types
            and sound(books, kind.project)
            and placeable(books, kind)
        )


def sound(books: Books, project: str) -> bool:
    """Return whether the quotas add up on every level from the project to the root."""
    pool = sum(node.gpus - len(node.taken) for node in books.nodes.values() if node.available)
    path = books.paths[project]
    for at, name in enumerate(path):
        above = path[at + 1] if at + 1 < len(path) else None
        if above is not None and books.direct[above]:
            return False
        room = pool if above is None else books.quota(above)
        level = [other for other in books.projects.values() if other.parent == books.projects[name].parent]
        if math.fsum(max(books.quota(other.name), books.pinned[other.name]) for other in level) > room:
            return False
    return True


def placeable(books: Books, kind: Kind) -> bool:
    """Return whether the job fits for certain beside all jobs that may stay.

    These are the jobs that are not preemptible, on their GPUs; and the running jobs of its own project and of
    projects within their quotas, on any GPUs that fit, or on their own GPUs if they require a topology domain.
    """
    room = {node.name: node.gpus - len(node.taken) for node in books.nodes.values() if node.available}
    movable: list[int] = []
    for job in books.jobs.values():
        stays = job.project == kind.project or _protected(books, job.project, kind.project)
        if not job.preemptible or (stays and job.require is not None):
            for node, _ in gpu_slots(job.placement):
                if node in room:
                    room[node] -= 1
        elif stays:
            movable += [job.gpus] * len(job.placement)
    types = {node.gpu_type for node in books.nodes.values()}
    return any(_packs(books, dict(room), kind, gpu_type, movable) for gpu_type in types)


def _protected(books: Books, project: str, other: str) -> bool:
    """Return whether ``project``, or an ancestor of it and not of ``other``, is protected by its quota."""
    above_both = set(books.paths.get(other, ()))
    own = (name for name in books.paths.get(project, ()) if name not in above_both)
    return any(books.claimed[name] <= books.quota(name) for name in own)


def _packs(books: Books, room: dict[str, int], kind: Kind, gpu_type: str, movable: list[int]) -> bool:
    """Return whether the job on one GPU type and then the movable workers fit, each on the fullest node."""
    wanted = [(kind.gpus, True)] * kind.min_workers + [(gpus, False) for gpus in sorted(movable, reverse=True)]
    for gpus, own in wanted:
        fitting = [
            (free, name)
            for name, free in room.items()
            if free >= gpus and (not own or books.nodes[name].gpu_type == gpu_type)
        ]
        if not fitting:
            return False
        room[min(fitting)[1]] -= gpus
    return True
