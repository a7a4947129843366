"""A scenario with what a plan made of it: who holds what, in the words and defaults of the scenario format.

All its GPUs are of one type: a scenario of several is judged in parts, one for each type. The own jobs of a
project with others below it are those of one more project below it, as docs/policy.md has it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from judges.command import Document

Held = Mapping[str, tuple[str, ...]]
"""The nodes of the running workers of each job that runs."""


@dataclass(frozen=True)
class Project:
    name: str
    parent: str | None
    quota: float
    limit: float
    weight: float
    priority: int
    age: int


@dataclass(frozen=True)
class Job:
    name: str
    project: str
    priority: int
    preemptible: bool
    workers: int
    gpus: int
    min_workers: int
    submitted: float

    @property
    def least(self) -> int:
        """GPUs without which it does not run."""
        return self.min_workers * self.gpus


@dataclass(frozen=True)
class Pool:
    """The scenario. ``gpus`` are those of each available node."""

    gpus: Mapping[str, int]
    projects: Mapping[str, Project]
    jobs: Mapping[str, Job]
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(self.gpus.values())

    def path(self, project: str) -> tuple[str, ...]:
        """Return the project and all above it, up to its root."""
        if project not in self._paths:
            parent = self.projects[project].parent
            self._paths[project] = (project, *(self.path(parent) if parent else ()))
        return self._paths[project]

    def children(self, project: str | None) -> list[Project]:
        return [each for each in self.projects.values() if each.parent == project]

    def held(self, running: Held) -> Counter[str]:
        """Return the GPUs that each project holds, with all below it."""
        return self._sums(running, firm=False)

    def held_firmly(self, running: Held) -> Counter[str]:
        """Return the GPUs that each project, with all below it, holds with jobs that are not preemptible."""
        return self._sums(running, firm=True)

    def _sums(self, running: Held, *, firm: bool) -> Counter[str]:
        sums: Counter[str] = Counter()
        for name, nodes in running.items():
            job = self.jobs[name]
            if not (firm and job.preemptible):
                for project in self.path(job.project):
                    sums[project] += len(nodes) * job.gpus
        return sums

    def free(self, running: Held) -> dict[str, int]:
        """Return the GPUs of each node on which nothing runs."""
        left = dict(self.gpus)
        for name, nodes in running.items():
            for node in nodes:
                left[node] = left.get(node, 0) - self.jobs[name].gpus
        return left

    def fits(self, job: Job, free: Mapping[str, int], workers: int | None = None) -> bool:
        """Return whether ``workers`` workers (the least it needs) have room on free GPUs."""
        need = job.min_workers if workers is None else workers
        return sum(max(0, gpus) // job.gpus for gpus in free.values()) >= need

    def could_run(self, job: Job) -> bool:
        """Tell whether it runs on the empty pool, within limits and, if it is not preemptible, within quotas."""
        return self.fits(job, self.gpus) and self.permitted(job, {})

    def permitted(self, job: Job, running: Held, gpus: int | None = None) -> bool:
        """Return whether limits, and quotas of jobs that are not preemptible, permit ``gpus`` more GPUs."""
        more = job.least if gpus is None else gpus
        held, firm = self.held(running), self.held_firmly(running)
        return all(
            held[each] + more <= self.projects[each].limit
            and (job.preemptible or firm[each] + more <= self.projects[each].quota)
            for each in self.path(job.project)
        )

    def most_gpus(self, job: Job) -> int:
        """Return the GPUs of as many workers as the job can have on this pool; 0 if it can never run."""
        counts = range(job.workers, job.min_workers - 1, -1)
        ample = (n for n in counts if self.fits(job, self.gpus, n) and self.permitted(job, {}, n * job.gpus))
        return next(ample, 0) * job.gpus


def pool_of(scenario: Document) -> Pool:
    """Return a scenario with all defaults filled in."""
    nodes = [node for node in scenario["nodes"] if node.get("available", True)]
    projects = {
        each["name"]: Project(
            each["name"],
            each.get("parent"),
            _or_endless(each.get("quota", 0)),
            _or_endless(each.get("limit")),
            each.get("weight", 1),
            each.get("priority", 100),
            age,
        )
        for age, each in enumerate(scenario["projects"])
    }
    parents = {each.parent for each in projects.values() if each.parent}
    own = {name: _for_own_jobs(projects[name], projects.values()) for name in parents}
    jobs = {each["name"]: _job(each) for each in scenario["jobs"]}
    return Pool(
        gpus={node["name"]: node["gpus"] for node in nodes},
        projects=projects | {each.name: each for each in own.values()},
        jobs={
            name: replace(job, project=own[job.project].name) if job.project in own else job
            for name, job in jobs.items()
        },
    )


def _for_own_jobs(parent: Project, projects: Iterable[Project]) -> Project:
    """Return the project of a parent's own jobs, the oldest below it, with the quota that the others leave."""
    below = sum(each.quota for each in projects if each.parent == parent.name)
    rest = parent.quota if math.isinf(parent.quota) else max(0, parent.quota - below)
    return Project(f"own jobs of {parent.name}", parent.name, rest, math.inf, 1, parent.priority, -1)


def _or_endless(amount: int | None) -> float:
    return math.inf if amount is None else amount


def _job(part: Document) -> Job:
    priority, workers = part.get("priority", 50), part.get("workers", 1)
    return Job(
        part["name"],
        part["project"],
        priority,
        part.get("preemptible", priority < 100),
        workers,
        part.get("gpus", 1),
        part.get("min_workers", workers),
        part.get("submitted", 0),
    )


def running_in(shown: Document) -> dict[str, tuple[str, ...]]:
    """Return the nodes of the running workers of each job that runs in a plan."""
    return {name: tuple(job["nodes"]) for name, job in shown["jobs"].items() if job["nodes"]}


def fewer_workers(running: Held, job: Job) -> Iterator[dict[str, tuple[str, ...]]]:
    """Yield who runs after one more step of taking GPUs back from a job: one worker less, or all of it."""
    nodes = running[job.name]
    rest = {name: each for name, each in running.items() if name != job.name}
    if len(nodes) > job.min_workers:
        for kept in sorted(set(combinations(sorted(nodes), len(nodes) - 1))):
            yield {**rest, job.name: kept}
    else:
        yield rest
