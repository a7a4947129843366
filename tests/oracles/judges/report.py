"""A public report of another scheduler as a scenario, and what our promises make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judges.command import Document


@dataclass(frozen=True)
class Report:
    """A scenario after a report, and how it has to come to rest."""

    source: str
    """Address of the report."""
    says: str
    """What was seen there, in one sentence."""
    scenario: Document
    runs: Mapping[str, int] = field(default_factory=dict)
    """Workers of jobs."""
    waits: Sequence[str] = ()
    held: Mapping[str, int] = field(default_factory=dict)
    """GPUs of projects."""
    some: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """How many of these jobs run."""
    on: Mapping[str, str] = field(default_factory=dict)
    """The only GPU type of jobs."""
    impossible: Sequence[str] = ()
    """The jobs that the pool can never run."""
    starts_if: Mapping[str, Document] = field(default_factory=dict)
    """A change that is offered for a job."""


@dataclass(frozen=True)
class ReportOverTime:
    """A scenario after a report in virtual time, and what has to become of its jobs."""

    source: str
    says: str
    scenario: Document
    options: Sequence[str] = ()
    """Options of `springtide simulate`."""
    starts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """When jobs start, from and to, in seconds."""
    pauses: Mapping[str, int] = field(default_factory=dict)
    """How often jobs are paused."""
    first: Sequence[tuple[str, str]] = ()
    """Pairs of jobs of which the first one ends before the other."""


def pool(
    nodes: Sequence[int] | Mapping[str, Sequence[int]],
    projects: Mapping[str, int | Document],
    *jobs: Document,
) -> Document:
    """Return a scenario: GPUs of nodes (by GPU type), quotas or more of projects, oldest first, and jobs."""
    by_type = nodes if isinstance(nodes, Mapping) else {"": nodes}
    made = [
        {"name": f"{kind or 'n'}{at}", "gpus": gpus} | ({"gpu_type": kind} if kind else {})
        for kind, sizes in by_type.items()
        for at, gpus in enumerate(sizes)
    ]
    return {
        "nodes": made,
        "projects": [{"name": name, **_project(more, by_type)} for name, more in projects.items()],
        "jobs": list(jobs),
    }


def _project(more: int | Document, types: Mapping[str, Any]) -> Document:
    """Return the keys of a project, given as such or as its quota: a number, or a table by GPU type."""
    if isinstance(more, dict) and not (more and more.keys() <= types.keys()):
        return more
    return {"quota": more}


def job(name: str, project: str, gpus: int = 1, at: float = 0, **more: Any) -> Document:
    """Return a job that was submitted ``at`` a time."""
    return {"name": name, "project": project, "gpus": gpus, "submitted": at, **more}


def on(name: str, project: str, gpus: int, *nodes: str, **more: Any) -> Document:
    """Return a job that runs already, with a worker on each of these nodes."""
    return {"name": name, "project": project, "gpus": gpus, "workers": len(nodes), "placed": list(nodes), **more}


def several(count: int, name: str, project: str, gpus: int = 1, at: float = 0, **more: Any) -> list[Document]:
    """Return equal jobs that wait, submitted one second after the other."""
    return [job(f"{name}{number}", project, gpus, at + number, **more) for number in range(count)]


def several_on(node: str, count: int, name: str, project: str, gpus: int = 1, **more: Any) -> list[Document]:
    """Return equal jobs that run on a node."""
    return [on(f"{name}{number}", project, gpus, node, **more) for number in range(count)]
