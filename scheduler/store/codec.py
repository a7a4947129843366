"""Conversion of records to and from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from springtide.scheduler.model import Amount, Project
from springtide.scheduler.store.records import (
    AttemptRecord,
    AuditRecord,
    DecisionRecord,
    DrainRecord,
    EventRecord,
    GpuDrainRecord,
    JobRanges,
    JobRecord,
    JobSpec,
    JobStanding,
    PersonRecord,
    ProjectRecord,
    WorkspaceRecord,
)

_encode = msgspec.json.Encoder().encode
_spec = msgspec.json.Decoder(JobSpec)
_standing = msgspec.json.Decoder(JobStanding)
_attempt = msgspec.json.Decoder(AttemptRecord)
_project = msgspec.json.Decoder(Project)
_ranges = msgspec.json.Decoder(JobRanges)
_gpus = msgspec.json.Decoder(tuple[int, ...])
_uuids = msgspec.json.Decoder(tuple[str, ...])
_amount: msgspec.json.Decoder[Amount] = msgspec.json.Decoder(int | dict[str, int | None] | None)
_mapping = msgspec.json.Decoder(dict[str, Any])


def _text(value: object) -> str:
    return _encode(value).decode()


def job_row(job: JobRecord) -> dict[str, Any]:
    """Return the columns of a new job."""
    spec = job.spec
    return {
        "id": spec.id,
        "seq": spec.seq,
        "user": spec.user,
        "project": spec.project,
        "key": spec.key,
        "bundle": spec.bundle,
        "state": job.state.value,
        "ended": job.standing.ended,
        "spec": _text(spec),
        "standing": _text(job.standing),
        "name": spec.name,
        "gpus": spec.options.gpus * spec.options.workers,
        "submitted": spec.submitted,
        "tags": tags_column(spec.options.tags),
        "sweep": job.sweep,
        "trial": None if spec.trial is None else spec.trial.number,
        **_outcome_columns(job),
    }


def tags_column(tags: Sequence[str]) -> str:
    """Return tags as the column that lists are searched by: each between two spaces."""
    return f" {' '.join(tags)} " if tags else ""


def _outcome_columns(job: JobRecord) -> dict[str, Any]:
    outcome = job.standing.outcome
    return {"value": None if outcome is None else outcome.value, "pruned": outcome is not None and outcome.pruned}


def standing_row(job: JobRecord) -> dict[str, Any]:
    """Return the columns of a job that change; ``job_id`` names it."""
    return {
        "job_id": job.id,
        "state": job.state.value,
        "ended": job.standing.ended,
        "standing": _text(job.standing),
        **_outcome_columns(job),
    }


def tagged_row(job: JobRecord) -> dict[str, Any]:
    """Return the columns of a job that has other tags; ``job_id`` names it."""
    return {"job_id": job.id, "spec": _text(job.spec), "tags": tags_column(job.spec.options.tags)}


def given_row(job: JobRecord) -> dict[str, Any]:
    """Return the columns of a job that has another owner; ``job_id`` names it."""
    return {"job_id": job.id, "spec": _text(job.spec), "user": job.spec.user, "key": job.spec.key}


def shifted_row(job: JobRecord) -> dict[str, Any]:
    """Return the columns of a job whose times are shifted; ``job_id`` names it."""
    return {**standing_row(job), "spec": _text(job.spec), "submitted": job.spec.submitted}


def job_record(row: Row[Any], attempts: tuple[AttemptRecord, ...]) -> JobRecord:
    """Return a job from its columns."""
    return JobRecord(_spec.decode(row.spec), _standing.decode(row.standing), attempts)


def attempt_row(attempt: AttemptRecord, project: str) -> dict[str, Any]:
    """Return the columns of a new attempt."""
    return {
        "job": attempt.job,
        "number": attempt.number,
        "project": project,
        "gpus": attempt.gpus,
        "created": attempt.created,
        "ended": attempt.ended,
        "body": _text(attempt),
    }


def attempt_update(attempt: AttemptRecord) -> dict[str, Any]:
    """Return the columns of an attempt that change."""
    return {
        "job_id": attempt.job,
        "attempt_number": attempt.number,
        "ended": attempt.ended,
        "body": _text(attempt),
    }


def attempt_record(row: Row[Any]) -> AttemptRecord:
    """Return an attempt from its columns."""
    return _attempt.decode(row.body)


def project_row(record: ProjectRecord) -> dict[str, Any]:
    """Return the columns of a project."""
    return {
        "name": record.name,
        "age": record.project.age,
        "colour": record.colour,
        "version": record.version,
        "made_group": record.made_group,
        "body": _text(record.project),
        "ranges": _text(record.ranges),
    }


def project_record(row: Row[Any]) -> ProjectRecord:
    """Return a project from its columns."""
    ranges = _ranges.decode(row.ranges)
    return ProjectRecord(_project.decode(row.body), row.version, row.colour, row.made_group, ranges)


def person_row(record: PersonRecord) -> dict[str, Any]:
    """Return the columns of a person."""
    return {"name": record.name, "build_quota": _text(record.build_quota)}


def person_record(row: Row[Any]) -> PersonRecord:
    """Return a person from its columns."""
    return PersonRecord(row.name, _amount.decode(row.build_quota))


def workspace_row(record: WorkspaceRecord) -> dict[str, Any]:
    """Return the columns of a workspace."""
    return {
        "user": record.user,
        "server": record.server,
        "node": record.node,
        "gpus": _text(record.gpus),
        "since": record.since,
        "gpu_type": record.gpu_type,
        "uuids": _text(record.uuids),
    }


def workspace_record(row: Row[Any]) -> WorkspaceRecord:
    """Return a workspace from its columns."""
    return WorkspaceRecord(
        *(row.user, row.server, row.node, _gpus.decode(row.gpus), row.since, row.gpu_type),
        uuids=_uuids.decode(row.uuids),
    )


def drain_record(row: Row[Any]) -> DrainRecord:
    """Return a drained node from its columns."""
    return DrainRecord(row.node, row.by, row.since, row.why, row.finish)


def gpu_drain_record(row: Row[Any]) -> GpuDrainRecord:
    """Return a drained GPU from its columns."""
    return GpuDrainRecord(row.gpu, row.by, row.since, row.why, row.finish)


def event_row(record: EventRecord) -> dict[str, Any]:
    """Return the columns of an event."""
    return {"id": record.id, "at": record.at, "kind": record.kind, "data": record.data.decode()}


def event_record(row: Row[Any]) -> EventRecord:
    """Return an event from its columns."""
    return EventRecord(row.id, row.at, row.kind, row.data.encode())


def audit_row(record: AuditRecord) -> dict[str, Any]:
    """Return the columns of an audit entry."""
    return {
        "id": record.id,
        "at": record.at,
        "who": record.who,
        "what": record.what,
        "subject": record.subject,
        "before": _text(dict(record.before)),
        "after": _text(dict(record.after)),
        "undone": record.undone,
    }


def audit_record(row: Row[Any]) -> AuditRecord:
    """Return an audit entry from its columns."""
    before: Mapping[str, Any] = _mapping.decode(row.before)
    return AuditRecord(
        row.id, row.at, row.who, row.what, row.subject, before, _mapping.decode(row.after), row.undone
    )


def decision_row(record: DecisionRecord) -> dict[str, Any]:
    """Return the columns of a decision."""
    return {
        "id": record.id,
        "at": record.at,
        "epoch": record.epoch,
        "base": record.base,
        "snapshot": None if record.snapshot is None else record.snapshot.decode(),
        "changes": record.changes.decode(),
        "plan": record.plan.decode(),
        "digest": record.digest,
    }


def decision_record(row: Row[Any]) -> DecisionRecord:
    """Return a decision from its columns."""
    snapshot = None if row.snapshot is None else row.snapshot.encode()
    return DecisionRecord(
        row.id, row.at, row.epoch, row.base, snapshot, row.changes.encode(), row.plan.encode(), row.digest
    )
