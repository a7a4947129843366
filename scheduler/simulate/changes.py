"""What changes while a simulation runs: the pool as it was, and what befalls single jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import structs

from springtide.scheduler.model import Node, NodesChanged, Phase, Project, ProjectsChanged
from springtide.scheduler.scenario.shape import ChangePart
from springtide.scheduler.simulate.load import Load
from springtide.scheduler.simulate.virtual import VirtualPool


def schedule_changes(pool: VirtualPool, load: Load) -> None:
    """Schedule the changes of a load: those of the pool, and the times at which its jobs are kept or end."""
    nodes, projects = load.nodes, load.projects
    for change in load.changes:
        after = changed_nodes(nodes, change)
        if after != nodes:
            pool.act(change.at, partial(_change_nodes, pool, after, _emptied(nodes, after, change)))
            nodes = after
        edited = changed_projects(projects, change)
        if edited != projects:
            pool.change(change.at, ProjectsChanged(edited))
            projects = edited
    for job, _ in load.jobs:
        own = load.circumstances.get(job.id)
        if own is None:
            continue
        for start, end in own.away:
            if end > load.begins:
                pool.act(start, partial(pool.hold, job.id))
                pool.act(end, partial(pool.release, job.id))
        if own.cancelled is not None:
            pool.act(own.cancelled, partial(pool.cancel, job.id))


def presence(load: Load, start: float, end: float) -> Mapping[str, float]:
    """Return the GPU-seconds of the pool between two times by GPU type; drained GPUs count."""
    found = {node.gpu_type: 0.0 for node in load.nodes}
    for (since, nodes), (until, _) in _pairs(load, start, end):
        for node in nodes:
            found[node.gpu_type] += node.gpus * (until - since)
    return found


def _pairs(
    load: Load, start: float, end: float
) -> Iterator[tuple[tuple[float, Sequence[Node]], tuple[float, Sequence[Node]]]]:
    """Yield the nodes from each time at which they changed until the next, within a span."""
    nodes, since = load.nodes, start
    for change in load.changes:
        if change.gpus and change.at < end:
            if change.at > since:
                yield (since, nodes), (change.at, nodes)
                since = change.at
            nodes = changed_nodes(nodes, change)
    if end > since:
        yield (since, nodes), (end, nodes)


def changed_nodes(nodes: tuple[Node, ...], change: ChangePart) -> tuple[Node, ...]:
    """Return the nodes after a change."""
    if not (change.gpus or change.available or change.taken):
        return nodes
    return tuple(
        structs.replace(
            node,
            gpus=change.gpus.get(node.name, node.gpus),
            available=change.available.get(node.name, node.available),
            taken=frozenset(change.taken[node.name]) if node.name in change.taken else node.taken,
        )
        for node in nodes
    )


def changed_projects(projects: tuple[Project, ...], change: ChangePart) -> tuple[Project, ...]:
    """Return the projects after a change."""
    if not (change.quota or change.limit):
        return projects
    return tuple(
        replace(
            project,
            quota=change.quota.get(project.name, project.quota),
            limit=change.limit.get(project.name, project.limit),
        )
        for project in projects
    )


def _emptied(before: Sequence[Node], after: Sequence[Node], change: ChangePart) -> frozenset[str]:
    """Return the nodes of which jobs have to go: the emptied ones, and those with fewer GPUs than before."""
    fewer = {old.name for old, new in zip(before, after, strict=True) if new.gpus < old.gpus}
    return frozenset(fewer.union(change.empties))


def _change_nodes(pool: VirtualPool, nodes: tuple[Node, ...], emptied: frozenset[str]) -> None:
    for course in list(pool.courses.values()):
        if course.job.phase is Phase.RUNNING and any(worker.node in emptied for worker in course.job.placement):
            pool.pause(course.job.id)
        elif any(worker.node in emptied for worker in course.job.reserved):
            pool.drop(course.job.id)
    pool.change_now(NodesChanged(nodes))
