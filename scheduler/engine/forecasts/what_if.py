"""What-if questions: the hypothetical snapshot of a question, and the view of its forecast; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UnsetType, structs

from springtide.scheduler import sentences, wire, wording
from springtide.scheduler.engine.forecasts.cache import never_code, never_of, starts_of, unknown_start
from springtide.scheduler.engine.requests import project_admin, validation
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State, policy_job
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.views import job_view
from springtide.scheduler.engine.views.diagnoses import Sees, diagnosed
from springtide.scheduler.engine.views.prospects import is_planned
from springtide.scheduler.forecast import GONE, NEVER, Outlook, Shift, Window
from springtide.scheduler.gpu_types import DeclaredTypes, total
from springtide.scheduler.model import Environment, Node, Project, Reason, Snapshot, Standing
from springtide.scheduler.refusal import Refusal, invalid_field, unknown_job
from springtide.scheduler.store.records import JobRecord, JobSpec
from springtide.scheduler.workload import Line, Workload

Members = Mapping[str, Sequence[str]]
Waits = Callable[[str], Reason | None]
"""Why the job with this id waits, if it does."""

HYPOTHETICAL_JOB = "(not submitted)"
"""Id of the hypothetical job. Ids of real jobs contain no parentheses."""
MAX_GPUS = 100_000
"""Maximum number of GPUs of a hypothetical pool."""
BY = "(what if)"
"""Author of hypothetical changes."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The changes of a question, None for no change, and the pool's GPU types in order.

    ``never`` is the code of a start that the nodes do not allow, as of `never_code`. ``notes`` say what would no
    longer be as decided.
    """

    job: JobRecord | None
    projects: tuple[Project, ...] | None
    nodes: tuple[Node, ...] | None
    gpu_types: tuple[str, ...] = ()
    never: str = NEVER
    notes: Sequence[str] = ()

    def with_usual_runtime(self, expected: Callable[[JobSpec], float | None]) -> Hypothesis:
        """Return the same with the expected run time of jobs like the hypothetical one."""
        if self.job is None:
            return self
        return replace(self, job=self.job.with_standing(usual_runtime=expected(self.job.spec)))

    @property
    def is_same_pool(self) -> bool:
        """Whether projects and nodes are those of the pool as it is."""
        return self.projects is None and self.nodes is None

    @property
    def jobs(self) -> list[str]:
        """Ids of hypothetical jobs that need GPUs."""
        return [] if self.job is None or not self.job.spec.options.gpus else [self.job.id]

    def applied_to(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the changes."""
        job = None if self.job is None else policy_job(self.job)
        return replace(
            snapshot,
            jobs=snapshot.jobs if job is None else (*snapshot.jobs, job),
            projects=snapshot.projects if self.projects is None else self.projects,
            nodes=snapshot.nodes if self.nodes is None else self.nodes,
            settings=replace(snapshot.settings, gpu_types=self.gpu_types),
        )


def hypothesis_of(
    question: wire.WhatIf,
    user: str,
    project: str | None,
    *,
    state: State,
    nodes: ObservedNodes,
    settings: EngineSettings,
    now: float,
    members: Members,
) -> Hypothesis:
    """Return what a question changes. Raises `Refusal` for a change that would be refused if it were requested."""
    if question.nodes:
        edited = _edited_nodes(question.nodes, nodes.all, state.types.declared)
        nodes = ObservedNodes(edited, nodes.quarantine, nodes.groups)
    transaction = Transaction(state, nodes, now)
    transaction.follow_types()
    before = project_admin.not_as_decided(transaction, members) if question.projects else {}
    for name, edit in _decreases_first(question.projects, state):
        _edit(transaction, name, edit, members)
    after = project_admin.not_as_decided(transaction, members) if question.projects else {}
    projects = transaction.planned_projects()
    job = None
    if question.job is not None and project is not None:
        context = validation.ValidationContext(nodes.possible(), transaction.projects, settings, transaction.types)
        spec = validation.validate_resources(
            question.job, user, project, context, job_id=HYPOTHETICAL_JOB, now=now
        )
        job = JobRecord(structs.replace(spec, seq=state.last_job + 1))
    return Hypothesis(
        job,
        tuple(projects.values()) if question.projects or question.nodes else None,
        nodes.train(state.drained) if question.nodes else None,
        transaction.types.train,
        never_code(nodes),
        project_admin.new_in(before, after),
    )


def _decreases_first(edits: Mapping[str, wire.ProjectEdit], state: State) -> list[tuple[str, wire.ProjectEdit]]:
    """Return the edits with decreases of quotas first, so that no quota exceeds what holds it in between."""

    def increase(item: tuple[str, wire.ProjectEdit]) -> float:
        name, edit = item
        known = state.projects.get(name)
        before = 0 if known is None else total(known.project.quota)
        after = before if isinstance(edit.quota, UnsetType) else total(edit.quota)
        return 0.0 if after == before else _number(after) - _number(before)

    return sorted(edits.items(), key=lambda item: (increase(item), item[0]))


def _number(quota: int | None) -> float:
    return math.inf if quota is None else float(quota)


def _edit(transaction: Transaction, name: str, edit: wire.ProjectEdit, members: Members) -> None:
    try:
        if name not in transaction.projects:
            project_admin.create_project(transaction, name, edit, BY, members)
        else:
            project_admin.edit_project(transaction, name, edit, BY, members)
    except Refusal as refusal:
        raise Refusal(
            refusal.status, refusal.code, refusal.message, field="projects", hint=refusal.hint
        ) from refusal


def _edited_nodes(
    edits: Mapping[str, wire.NodeEdit], known: Sequence[Node], declared: DeclaredTypes
) -> tuple[Node, ...]:
    found = {node.name: node for node in known}
    for name, edit in edits.items():
        if not wording.is_printable(name):
            raise invalid_field("nodes", f"{wording.given(name)} cannot be a node's name.")
        before = found.get(name)
        if before is not None and before.environment is not Environment.TRAIN:
            raise invalid_field(
                "nodes", f"The node {wording.given(name)} serves build notebooks.", "Name train nodes."
            )
        if not edit.gpus:
            if before is None:
                names = ", ".join(sorted(node.name for node in known if node.environment is Environment.TRAIN))
                raise invalid_field(
                    "nodes", f"There is no node {wording.given(name)} to take away.", f"Train nodes: {names}."
                )
            del found[name]
        elif before is None:
            found[name] = Node(
                name, edit.gpus, gpu_type=_type_of_new(edit, known, declared), labels=dict(edit.labels)
            )
        else:
            found[name] = _resized(before, edit, declared)
    total = sum(node.gpus for node in found.values())
    if total > MAX_GPUS:
        raise invalid_field(
            "nodes", f"These nodes have {total} GPUs together; at most {MAX_GPUS} can be imagined."
        )
    return tuple(found.values())


def _type_of_new(edit: wire.NodeEdit, known: Sequence[Node], declared: DeclaredTypes) -> str:
    """Return the type of a new node: the one named, else that of all train nodes, if they have one only."""
    types = {node.gpu_type for node in known if node.environment is Environment.TRAIN and node.gpus}
    if edit.gpu_type:
        return declared.of(edit.gpu_type)
    if len(types) > 1:
        raise invalid_field(
            "nodes",
            "A new node has no gpu_type, and the pool has several.",
            f"Types here: {', '.join(sorted(types))}.",
        )
    return next(iter(types), "")


def _resized(node: Node, edit: wire.NodeEdit, declared: DeclaredTypes) -> Node:
    """Return the node with another number of GPUs; if that changes, its islands and sockets are unknown."""
    return structs.replace(
        node,
        gpus=edit.gpus,
        gpu_type=declared.of(edit.gpu_type) if edit.gpu_type else node.gpu_type,
        labels=dict(edit.labels) or node.labels,
        islands=node.islands if edit.gpus == node.gpus else (),
        sockets=node.sockets if edit.gpus == node.gpus else (),
        devices=node.devices[: edit.gpus] if edit.gpus <= node.gpus else (),
        taken=frozenset(index for index in node.taken if index < edit.gpus),
        available=True,
    )


def asked_jobs(question: wire.WhatIf, state: State, sees: Sees) -> list[str]:
    """Return the ids of the waiting jobs whose start was asked for and is planned, without those without GPUs.

    For a sweep it is that of its first trial in line.
    Raises `Refusal` (404) for a job that the caller may not see; ``sees`` returns whether she may.
    """
    if question.starts is None:
        waiting = (
            job
            for job in state.jobs.values()
            if job.live is None
            and is_planned(job)
            and job.line is Line.GPUS
            and sees(job.spec.user, job.spec.project)
        )
        return [job.id for job, _ in zip(waiting, range(wire.MOST_STARTS), strict=False)]
    for job_id in question.starts:
        job = state.jobs.get(job_id)
        if job is None or not sees(job.spec.user, job.spec.project):
            raise unknown_job(job_id)
    asked = (state.jobs[job_id] for job_id in dict.fromkeys(question.starts))
    parts = [_waiting_part(job, state) for job in asked]
    return [job.id for job in parts if job is not None and job.spec.options.gpus and is_planned(job)]


def _waiting_part(job: JobRecord, state: State) -> JobRecord | None:
    """Return the first trial in line of a sweep, None if none waits; any other job itself."""
    return job_view.waiting_trial(state.trials_of(job.id)) if job.workload is Workload.SWEEP else job


def starts_there(outlook: Outlook, hypothesis: Hypothesis, now: float, *, waits: Waits) -> dict[str, wire.Starts]:
    """Return the starts of jobs in a hypothetical pool; ``waits`` returns why a job waits in the pool as it is."""

    def never(job_id: str, window: Window) -> Reason:
        return never_of(hypothesis.never, waits(job_id) if window.why and hypothesis.is_same_pool else None)

    return {
        job_id: starts_of(window, now, outlook.until, never(job_id, window))
        for job_id, window in outlook.starts.items()
    }


def forecast_view(
    outlook: Outlook,
    starts: Mapping[str, wire.Starts],
    hypothesis: Hypothesis,
    state: State,
    *,
    sees: Sees,
    now: float,
    waits: Waits,
) -> wire.Forecast:
    """Return the view of a forecast with these starts for a caller; ``sees`` returns whether she may see a job.

    ``waits`` returns why a job waits in the pool as it is.
    """

    def why(job_id: str) -> Reason | None:
        return waits(job_id) if hypothesis.is_same_pool else None

    of_waiting = {
        job_id: found
        for job_id, found in starts.items()
        if job_view.agreed(job_view.reason(why(job_id)) if found.likely is None else None, found)[1] is not None
    }
    hypothetical = None
    if hypothesis.job is not None:
        hypothetical = of_waiting.pop(hypothesis.job.id, unknown_start(GONE, now))
    return wire.Forecast(
        at=now,
        until=outlook.until,
        job=hypothetical,
        starts=of_waiting,
        notes=list(hypothesis.notes),
        starts_if={
            job_id: diagnosed(each, state, why(job_id), sees).alternatives
            for job_id, each in outlook.starts_if.items()
        },
        projects={
            name: wire.ProjectOutlook(
                **_numbers(standing),
                by_type={t: wire.TypeNumbers(**_numbers(s)) for t, s in standing.by_type.items()},
            )
            for name, standing in outlook.standing.items()
        },
        shifts=[
            shift
            for item in outlook.shifts
            if (shift := shift_view(item, hypothesis.job, state, sees)) is not None
        ],
    )


def _numbers(standing: Standing) -> dict[str, Any]:
    """Return the fields of `wire.TypeNumbers`."""
    return {
        "quota": standing.quota,
        "limit": standing.limit,
        "fair_share": standing.fair_share,
        "held": standing.held,
        "borrowed": standing.borrowed,
        "waiting": standing.waiting,
    }


def _as_seen(why: Reason, sees: Sees) -> Reason:
    """Return a reason with the names of the jobs that the caller may see."""
    user = str(why.params.get("for_user") or "")
    return sentences.without_names(why, lambda project: sees(user, project))


def shift_view(shift: Shift, imagined: JobRecord | None, state: State, sees: Sees) -> wire.Shift | None:
    """Return the view of a decision about the ``imagined`` job or one of the pool; None for one of neither."""
    is_imagined = imagined is not None and shift.job == imagined.id
    job = imagined if is_imagined else state.jobs.get(shift.job)
    if job is None:
        return None
    visible = sees(job.spec.user, job.spec.project)
    return wire.Shift(
        kind=shift.kind,
        user=job.spec.user,
        project=job.spec.project,
        gpus=sum(len(worker.gpus) for worker in (shift.before or shift.after)),
        job=shift.job if visible and not is_imagined else "",
        name=job.spec.name if visible else "",
        reason=job_view.reason(_as_seen(shift.reason, sees)) if visible else None,
    )
