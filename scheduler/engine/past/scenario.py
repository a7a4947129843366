"""The past of a pool as a scenario; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from math import floor
from statistics import median

from msgspec import structs

from springtide.scheduler.budgets import month_of
from springtide.scheduler.engine.past.jobs import BUDGETS, job_parts
from springtide.scheduler.engine.past.period import Period
from springtide.scheduler.engine.past.pool import drain_changes, past_nodes, past_projects, seen_nodes, stops_of
from springtide.scheduler.gpu_types import pool_types
from springtide.scheduler.model import Node, Project, Settings
from springtide.scheduler.scenario.shape import ChangePart, Document, JobPart, NodePart, SettingsPart
from springtide.scheduler.store.ledger import FactKind
from springtide.scheduler.store.queries.past import Past
from springtide.scheduler.wording import listed

ALWAYS = (
    "The order of jobs, the minimum run time and the prices are those of now.",
    "Jobs are submitted when they were, whatever the pool would have been.",
)


@dataclass(frozen=True, slots=True)
class Present:
    """The pool as it is: train nodes, projects, settings, and prices of a GPU-hour by GPU type."""

    nodes: Sequence[Node]
    projects: Sequence[Project]
    settings: Settings
    prices: dict[str, float]


def period_of(past: Past, start: float, end: float) -> Period:
    """Return the time from ``start`` to ``end``, with the first submission of its jobs as the origin."""
    first = min([start, *(job.spec.submitted for job in past.jobs)])
    first = min([first, *(each.start - (each.wait or 0.0) for each in past.forgotten)])
    return Period(start, end, float(floor(first)))


def scenario_of(past: Past, present: Present, start: float, end: float) -> Document:
    """Return the scenario of the time from ``start`` to ``end``."""
    period = period_of(past, start, end)
    nodes = past_nodes(present.nodes, seen_nodes(past.jobs, period), past.facts, period)
    order = present.settings.gpu_types
    types = pool_types((Node(part.name, part.gpus, part.gpu_type) for part in nodes.parts), order)
    named = [job.spec.project for job in past.jobs] + [each.project for each in past.forgotten]
    projects, quotas = past_projects(present.projects, past.facts, types, named, period)
    stops = stops_of(past.audit, projects, past.jobs, period)
    jobs = job_parts(past.jobs, past.forgotten, period, stops, types)
    changes: list[ChangePart] = [*nodes.changes, *quotas, *drain_changes(past.audit, nodes.parts, period)]
    restarts = [each for each in jobs.restarts if each >= 0]
    return Document(
        nodes=nodes.parts,
        projects=projects,
        jobs=seated(jobs.parts, nodes.parts),
        gpu_types=list(types),
        surplus=present.settings.surplus,
        span=(period.time(start), period.time(end)),
        changes=sorted(changes, key=lambda change: change.at),
        settings=SettingsPart(
            order=present.settings.order,
            min_runtime=present.settings.min_runtime,
            use_half_life=present.settings.use_half_life,
            restart_cost=round(median(restarts), 3) if restarts else 0.0,
        ),
        origin=period.origin,
        prices=present.prices,
        notes=list(dict.fromkeys([*ALWAYS, *jobs.notes, *_notes(past, period)])),
    )


def seated(jobs: Iterable[JobPart], nodes: Iterable[NodePart]) -> list[JobPart]:
    """Return the jobs; those for which the nodes have no room when the scenario begins wait instead."""
    free = {part.name: part.gpus for part in nodes}
    types = {part.name: part.gpu_type for part in nodes}
    found = []
    for job in jobs:
        names = [name for name in job.placed if name is not None]
        left = {name: free.get(name, 0) - names.count(name) * job.gpus for name in names}
        alike = len({types.get(name) for name in names}) <= 1
        if names and alike and len(names) >= job.least_workers and min(left.values()) >= 0:
            free.update(left)
            found.append(job)
        else:
            found.append(structs.replace(job, placed=()))
    return found


def _notes(past: Past, period: Period) -> list[str]:
    notes = []
    changed = {
        field
        for entry in past.audit
        if entry.what == "project.change" and entry.at > period.start
        for field in ("weight", "priority", "parent")
        if field in entry.before
    }
    if changed:
        notes.append(f"Of projects the {listed(sorted(changed))} of now counts for the whole time.")
    begins = month_of(period.start, UTC).name
    spent = (entry.after.get("month", begins) for entry in past.audit if entry.what == "budget.spent")
    if any(month >= begins for month in spent):
        notes.append(BUDGETS)
    known = min((fact.start for fact in past.facts if fact.kind is FactKind.GPUS), default=period.end)
    if known > period.start + 1.0:
        notes.append("The numbers of GPUs and the quotas before they were first recorded are those of then.")
    return notes
