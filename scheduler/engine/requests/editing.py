"""Changes of what an accepted job asks for, and of its project, while it does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from springtide.scheduler import wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.requests.control import check_bytes, check_unfinished, with_parts
from springtide.scheduler.engine.requests.validation import ValidationContext, validate_edit
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Reason
from springtide.scheduler.refusal import Refusal, checked_reason, invalid_field
from springtide.scheduler.store.records import Edited, JobRecord, JobSpec
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wording import exactly, given
from springtide.scheduler.workload import Workload

OF_TEST_RUNS = ("priority",)
"""The changed options that a job's test run follows."""


def edit_job(
    transaction: Transaction,
    job: JobRecord,
    edit: wire.JobEdit,
    by: str,
    settings: EngineSettings,
    *,
    beyond_ranges: bool = False,
) -> None:
    """Change what a job asks for, with its trials or its test run; age, checkpoints and outputs stay.

    ``beyond_ranges`` allows a priority and a time limit outside the ranges of its project. A moved job is
    accounted to its new project from its next attempt on. Raises `Refusal` for a job that runs, has ended or is
    part of another, and for changes with which it would not be accepted.
    """
    check_unfinished(job, "edit")
    _check_whole(job)
    reason = checked_reason(edit.reason, "reason")
    if not edit.options and edit.project is UNSET:
        message = "Nothing is to be changed."
        raise Refusal(
            422, "invalid", message, hint="Give a priority, a project, a time limit or numbers of workers."
        )
    parts = with_parts(transaction, job)
    if any(each.live is not None for each in parts):
        message = f"The job {given(job.id)} runs; only a job that waits or is paused can be edited."
        raise Refusal(409, "runs", message, hint="Pause it or put it on hold first.")
    project = job.spec.project if edit.project is UNSET else edit.project
    nodes = transaction.nodes
    context = ValidationContext(
        nodes.possible(), dict(transaction.projects.items()), settings, transaction.types, nodes.by_type
    )
    after = _edited(job, project, edit.options, context, beyond_ranges=beyond_ranges)
    if after == job.spec:
        return
    if project != job.spec.project and after.stored:
        check_bytes(transaction, after, settings)
    specs = [_edited(part, project, _changes(part, edit), context, beyond_ranges=beyond_ranges) for part in parts]
    did = _did(job.spec, after, reason, by)
    for part, spec in zip(parts, specs, strict=True):
        free = part.with_standing(reserved=(), turn=False).with_act(transaction.now, did)
        transaction.respecify(free, spec)
    _record(transaction, job.spec, after, reason, by)
    if by != job.spec.user:
        _tell(transaction, job.spec, after, reason, by)
    else:
        _leave_to_owner(transaction, job.spec, after)


def _changes(part: JobRecord, edit: wire.JobEdit) -> dict[str, Any]:
    """Return the changed options of a job, or of its trial or test run."""
    follows = part.workload is Workload.TEST_RUN
    return {name: value for name, value in edit.options.items() if not follows or name in OF_TEST_RUNS}


def _check_whole(job: JobRecord) -> None:
    whole = job.sweep or job.spec.tests
    if whole is not None:
        what = "a trial of the sweep" if job.sweep is not None else "the test run of the job"
        message = f"The job {given(job.id)} is {what} {given(whole)}, and asks for what that asks for."
        raise Refusal(409, "part", message, hint=f"Edit {given(whole)}.")


def _edited(
    job: JobRecord,
    project: str,
    changes: Mapping[str, Any],
    context: ValidationContext,
    *,
    beyond_ranges: bool,
) -> JobSpec:
    spec = validate_edit(job.spec, project, changes, context, beyond_ranges=beyond_ranges)
    limit, ran = spec.options.time_limit, job.standing.ran
    if limit is not None and ran >= limit and limit != job.spec.options.time_limit:
        message = f"The time limit is {exactly(limit)}, and the job has run for {exactly(ran)} already."
        raise invalid_field("time_limit", message, "Choose a longer time, or cancel the job.")
    return spec


def _did(before: JobSpec, after: JobSpec, reason: str, by: str) -> Reason:
    """Return who changed which options of a job, and from which project to which it was moved."""
    values = _values(before, after, wire.OPTIONS_EDITED)
    moved = before.project if before.project != after.project else ""
    to = after.project if moved else ""
    return messages.did("edit", by, **values, before=moved, project=to, detail=reason)


def _values(before: JobSpec, after: JobSpec, options: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return which of the options differ, and their values before and after in words."""
    was, now = shown(before), shown(after)
    differ = tuple(name for name in options if was[name] != now[name])
    return {
        "options": differ,
        "was": tuple(_in_words(name, was[name]) for name in differ),
        "now": tuple(_in_words(name, now[name]) for name in differ),
    }


def _in_words(name: str, value: Any) -> str:
    """Return the value of an option as sentences have it."""
    option = wire.OPTIONS[name]
    return exactly(value) if option.kind is Kind.DURATION and value is not None else option.shown(value)


def _record(transaction: Transaction, before: JobSpec, after: JobSpec, reason: str, by: str) -> None:
    """Add the changes to the audit trail; the entry of a move is in those of both projects."""
    was, now = shown(before), shown(after)
    differ = [name for name in was if was[name] != now[name]]
    about = {"user": before.user, "name": before.name, **{name: was[name] for name in differ}}
    why = {"reason": reason} if reason else {}
    changed = {**{name: now[name] for name in differ}, **why}
    left = before.project if before.project != after.project else ""
    transaction.add_audit_entry(
        by, "job.edit", before.id, about, changed, project=after.project, other_project=left
    )


def _tell(transaction: Transaction, before: JobSpec, after: JobSpec, reason: str, by: str) -> None:
    """Note for the owner who changed what of her job, and why."""
    job = transaction.job(after.id)
    assert job is not None
    values = _values(before, after, wire.OPTIONS_EDITED)
    moved = before.project if before.project != after.project else ""
    edit = Edited(by, moved=moved, reason=reason, at=transaction.now, **values)
    transaction.put_job(job.with_standing(edited=edit))


def _leave_to_owner(transaction: Transaction, before: JobSpec, after: JobSpec) -> None:
    """Take what the owner has changed out of the note of what another person changed before."""
    job = transaction.job(after.id)
    assert job is not None
    edit = job.standing.edited
    if edit is None:
        return
    was, now = shown(before), shown(after)
    kept = [place for place, name in enumerate(edit.options) if was[name] == now[name]]
    options, earlier, present = (
        tuple(values[place] for place in kept if values) for values in (edit.options, edit.was, edit.now)
    )
    moved = edit.moved if before.project == after.project else ""
    left = edit._replace(options=options, was=earlier, now=present, moved=moved) if options or moved else None
    transaction.put_job(job.with_standing(edited=left))


def shown(spec: JobSpec) -> dict[str, Any]:
    """Return what an edit changes of a job, as the audit trail has it."""
    return {"project": spec.project, **{name: getattr(spec.options, name) for name in wire.OPTIONS_EDITED}}
