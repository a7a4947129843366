"""The pool as it might be: what may be imagined, and how what follows from it is told; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import UnsetType

from springtide.scheduler import wire
from springtide.scheduler.engine import admin, requests, submit, views
from springtide.scheduler.engine.foresight import starts_of, unknown
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.world import Draft, World, policy_job
from springtide.scheduler.forecast import GONE, Outlook, Shift
from springtide.scheduler.model import Environment, Node, Project, Snapshot
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobRecord

Members = Mapping[str, Sequence[str]]
Sees = Callable[[str, str], bool]
"""Whether the caller may see jobs of a user in a project."""

IMAGINED = "(not submitted)"
"""The id of the job that is not submitted: no id that is given out has brackets."""
MOST_GPUS = 100_000
"""GPUs that a pool may be imagined to have."""
BY = "(what if)"


@dataclass(frozen=True, slots=True)
class Idea:
    """What is different: None is as it is."""

    job: JobRecord | None
    projects: tuple[Project, ...] | None
    nodes: tuple[Node, ...] | None

    @property
    def jobs(self) -> list[str]:
        """Ids of imagined jobs."""
        return [] if self.job is None else [self.job.id]

    def on(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as it would be."""
        job = None if self.job is None else policy_job(self.job)
        return replace(
            snapshot,
            jobs=snapshot.jobs if job is None else (*snapshot.jobs, job),
            projects=snapshot.projects if self.projects is None else self.projects,
            nodes=snapshot.nodes if self.nodes is None else self.nodes,
        )


def imagine(
    question: wire.WhatIf,
    user: str,
    project: str | None,
    world: World,
    settings: EngineSettings,
    *,
    now: float,
    members: Members,
) -> Idea:
    """What the question changes. Raises `Refusal` for what could not be, as if it were asked for in earnest."""
    nodes = _nodes(question.nodes, world.nodes) if question.nodes else None
    other = world if nodes is None else replace(world, nodes=nodes)
    draft = Draft(other, now)
    for name, edit in _givers_first(question.projects, world):
        _edit(draft, name, edit, members)
    projects = {name: record.project for name, record in draft.all_projects().items()}
    job = None
    if question.job is not None and project is not None:
        pool = submit.Pool(other.train_nodes(), projects, settings)
        spec = submit.check_wish(question.job, user, project, pool, job_id=IMAGINED, now=now)
        job = JobRecord(replace(spec, seq=world.last_job + 1))
    return Idea(
        job,
        tuple(projects.values()) if question.projects else None,
        None if nodes is None else other.train_nodes(),
    )


def _givers_first(edits: Mapping[str, wire.ProjectEdit], world: World) -> list[tuple[str, wire.ProjectEdit]]:
    """The edits in an order in which the sums of quotas always add up, if they do in the end."""

    def gain(item: tuple[str, wire.ProjectEdit]) -> float:
        name, edit = item
        known = world.projects.get(name)
        before = 0 if known is None else known.project.quota
        after = before if isinstance(edit.quota, UnsetType) else edit.quota
        return 0.0 if after == before else _number(after) - _number(before)

    return sorted(edits.items(), key=lambda item: (gain(item), item[0]))


def _number(quota: int | None) -> float:
    return math.inf if quota is None else float(quota)


def _edit(draft: Draft, name: str, edit: wire.ProjectEdit, members: Members) -> None:
    try:
        if draft.project(name) is None:
            admin.create_project(draft, name, edit, BY, members)
        else:
            admin.edit_project(draft, name, edit, BY, members)
    except Refusal as refusal:
        raise Refusal(
            refusal.status, refusal.code, refusal.message, field="projects", hint=refusal.hint
        ) from refusal


def _nodes(edits: Mapping[str, wire.NodeEdit], known: Sequence[Node]) -> tuple[Node, ...]:
    found = {node.name: node for node in known}
    for name, edit in edits.items():
        if not submit.plain(name):
            raise submit.bad("nodes", f"{name!r} cannot be a node's name.")
        before = found.get(name)
        if before is not None and before.environment is not Environment.TRAIN:
            raise submit.bad("nodes", f"The node {name!r} serves build notebooks.", "Name train nodes.")
        if not edit.gpus:
            if before is None:
                names = ", ".join(sorted(node.name for node in known if node.environment is Environment.TRAIN))
                raise submit.bad("nodes", f"There is no node {name!r} to take away.", f"Train nodes: {names}.")
            del found[name]
        elif before is None:
            found[name] = Node(name, edit.gpus, gpu_type=edit.gpu_type, labels=dict(edit.labels))
        else:
            found[name] = _resized(before, edit)
    total = sum(node.gpus for node in found.values())
    if total > MOST_GPUS:
        raise submit.bad("nodes", f"These nodes have {total} GPUs together; at most {MOST_GPUS} can be imagined.")
    return tuple(found.values())


def _resized(node: Node, edit: wire.NodeEdit) -> Node:
    """The node with another number of GPUs; its islands and sockets are no longer known if that changes."""
    return replace(
        node,
        gpus=edit.gpus,
        gpu_type=edit.gpu_type or node.gpu_type,
        labels=dict(edit.labels) or node.labels,
        islands=node.islands if edit.gpus == node.gpus else (),
        sockets=node.sockets if edit.gpus == node.gpus else (),
        devices=node.devices[: edit.gpus] if edit.gpus <= node.gpus else (),
        taken=frozenset(index for index in node.taken if index < edit.gpus),
        available=True,
    )


def asked_for(question: wire.WhatIf, world: World, sees: Sees) -> list[str]:
    """Ids of the waiting jobs whose start is to be told. Raises `Refusal` (404) for one the caller may not see."""
    if question.starts is None:
        waiting = (
            job
            for job in world.jobs.values()
            if job.live is None and not job.standing.held and sees(job.spec.user, job.spec.project)
        )
        return [job.id for job, _ in zip(waiting, range(wire.MOST_STARTS), strict=False)]
    for job_id in question.starts:
        job = world.jobs.get(job_id)
        if job is None or not sees(job.spec.user, job.spec.project):
            raise requests.no_job(job_id)
    return list(dict.fromkeys(question.starts))


def told(outlook: Outlook, idea: Idea, world: World, sees: Sees, now: float) -> wire.Forecast:
    """The outlook as the caller may see it."""
    starts = {job_id: starts_of(window, now, outlook.until) for job_id, window in outlook.starts.items()}
    imagined = None if idea.job is None else starts.pop(idea.job.id, unknown(GONE, now))
    return wire.Forecast(
        at=now,
        until=outlook.until,
        job=imagined,
        starts=starts,
        projects={
            name: wire.ProjectOutlook(
                quota=standing.quota,
                limit=standing.limit,
                fair_share=standing.fair_share,
                held=standing.held,
                borrowed=standing.borrowed,
                waiting=standing.waiting,
            )
            for name, standing in outlook.standing.items()
        },
        shifts=[shift for item in outlook.shifts if (shift := _shift(item, idea, world, sees)) is not None],
    )


def _shift(shift: Shift, idea: Idea, world: World, sees: Sees) -> wire.Shift | None:
    job = idea.job if idea.job is not None and shift.job == idea.job.id else world.jobs.get(shift.job)
    if job is None:
        return None
    told_whole = sees(job.spec.user, job.spec.project)
    return wire.Shift(
        kind=shift.kind,
        user=job.spec.user,
        project=job.spec.project,
        gpus=job.spec.gpus * job.spec.workers,
        job=shift.job if told_whole and job is not idea.job else "",
        name=job.spec.name if told_whole else "",
        reason=views.reason(shift.reason) if told_whole else None,
    )
