"""What changes by itself at known times: nodes that close, and quotas and limits that differ for a time.

A node is cleared before it closes: whatever still runs there pauses early enough to have ended when it closes. A
job starts there only if it ends before that by its time limit or, if it is preemptible, its expected run time, or
if it saves checkpoints and has time to get somewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf, nextafter

from msgspec import structs

from springtide.scheduler.model import Job, Node, Project, Settings

ENDING = 30.0
"""Time for the end of processes after the grace period, before a node closes, in seconds."""

LEAST_STAY = 60.0
"""Least time for which a job that saves checkpoints starts on a node that closes, in seconds."""

UNKNOWN_RUN_TIME = 3600.0
"""Run time of a job of which nothing is known, as far as nodes that close are concerned, in seconds."""


def closes_at(node: Node, now: float) -> float:
    """Return when the node closes next, in seconds; infinity if it does not."""
    return min((span.start for span in node.closed if span.start > now), default=inf)


def leaves_at(node: Node, now: float, settings: Settings) -> float:
    """Return when the jobs on the node are asked to pause because it closes, in seconds; infinity for never."""
    return closes_at(node, now) - settings.grace - ENDING


def is_closed(node: Node, now: float) -> bool:
    """Return whether the node is closed now."""
    return any(span.start <= now < span.end for span in node.closed)


def run_time_left(job: Job) -> float:
    """Return for how many seconds the job runs from its next start, as far as that is known.

    If it cannot be paused, only its time limit is known: it would lose all work if it ran longer than
    jobs usually do. Infinity without one.
    """
    return min(_left(job), default=UNKNOWN_RUN_TIME if job.preemptible else inf)


def is_known(job: Job) -> bool:
    """Return whether a time limit, or the expected run time of a preemptible job, says how long it still runs."""
    return bool(_left(job))


def _left(job: Job) -> list[float]:
    ran = job.served / (job.workers * job.gpus)
    expected = job.usual_runtime if job.expected is None else job.expected
    estimate = expected if job.preemptible else None
    return [total - ran for total in (job.time_limit, estimate) if total is not None and total > ran]


def latest_start(job: Job, leaves: float, settings: Settings) -> float:
    """Return the latest time at which the job may start on a node that jobs leave at ``leaves``, in seconds.

    It is before ``leaves``, however little run time is left.
    """
    by_end = min(leaves - run_time_left(job), nextafter(leaves, -inf))
    if job.saved is None or not job.preemptible:
        return by_end
    return max(by_end, leaves - max(LEAST_STAY, settings.min_runtime))


def changes_itself(nodes: Iterable[Node], projects: Iterable[Project]) -> bool:
    """Return whether a node closes, or a quota or limit changes by itself, at any time."""
    return any(node.closed for node in nodes) or any(project.at_times for project in projects)


def next_change(nodes: Iterable[Node], projects: Iterable[Project], now: float) -> float:
    """Return when a node closes or opens, or a quota or limit changes by itself, after ``now``; or infinity."""
    return min((at for at in _changes(nodes, projects) if at > now), default=inf)


def _changes(nodes: Iterable[Node], projects: Iterable[Project]) -> Iterator[float]:
    for node in nodes:
        for span in node.closed:
            yield from span
    for project in projects:
        for each in project.at_times:
            yield from each.span


def nodes_at(nodes: tuple[Node, ...], now: float) -> tuple[Node, ...]:
    """Return the nodes as they are at a time: closed ones are not available."""
    if not any(node.closed for node in nodes):
        return nodes
    return tuple(
        structs.replace(node, available=False) if node.available and is_closed(node, now) else node
        for node in nodes
    )


def projects_at(projects: tuple[Project, ...], now: float) -> tuple[Project, ...]:
    """Return the projects as they are at a time, with the quotas and limits of that time."""
    if not any(project.at_times for project in projects):
        return projects
    return tuple(_project_at(project, now) for project in projects)


def _project_at(project: Project, now: float) -> Project:
    for each in project.at_times:
        if each.span.start <= now < each.span.end:
            return replace(project, quota=each.quota, limit=each.limit)
    return project
