"""Rows of jobs, attempts and journals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Row

from springtide.scheduler.store import schema
from springtide.scheduler.store.ledger import EndedFact, LedgerEntry
from springtide.scheduler.store.records import (
    AttemptRecord,
    AuditRecord,
    DecisionRecord,
    EventRecord,
    JobRecord,
    JobSpec,
    JobStanding,
)
from springtide.scheduler.store.rows import Rows, as_json

_spec = msgspec.json.Decoder(JobSpec)
_standing = msgspec.json.Decoder(JobStanding)
_attempt = msgspec.json.Decoder(AttemptRecord)


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
        "tree": None if spec.tree is None else spec.tree.digest,
        "state": job.state.value,
        "ended": job.standing.ended,
        "spec": as_json(spec),
        "standing": as_json(job.standing),
        "name": spec.name,
        "gpus": spec.options.gpus * spec.options.workers,
        "submitted": spec.submitted,
        "tags": tags_column(spec.options.tags),
        "sweep": job.sweep,
        "trial": None if spec.trial is None else spec.trial.number,
        "pinned": spec.marks.pinned,
        "archived": spec.marks.archived,
        **_outcome_columns(job),
    }


def tags_column(tags: Sequence[str]) -> str:
    """Return tags as the column that lists are searched by: each between two spaces."""
    return f" {' '.join(tags)} " if tags else ""


def _outcome_columns(job: JobRecord) -> dict[str, Any]:
    outcome = job.standing.outcome
    return {"value": None if outcome is None else outcome.value, "pruned": outcome is not None and outcome.pruned}


def standing_row(job: JobRecord) -> dict[str, Any]:
    """Return a job's columns that change; ``job_id`` names it."""
    return {
        "job_id": job.id,
        "state": job.state.value,
        "ended": job.standing.ended,
        "standing": as_json(job.standing),
        **_outcome_columns(job),
    }


def marked_row(job: JobRecord) -> dict[str, Any]:
    """Return a job's columns that depend on its tags, its marks and its key; ``job_id`` names it."""
    spec = job.spec
    return {
        "job_id": job.id,
        "spec": as_json(spec),
        "key": spec.key,
        "tags": tags_column(spec.options.tags),
        "pinned": spec.marks.pinned,
        "archived": spec.marks.archived,
    }


def respecified_row(job: JobRecord) -> dict[str, Any]:
    """Return a job's columns that depend on its owner, project and options; ``job_id`` names it."""
    spec = job.spec
    return {
        "job_id": job.id,
        "spec": as_json(spec),
        "user": spec.user,
        "project": spec.project,
        "key": spec.key,
        "gpus": spec.options.gpus * spec.options.workers,
    }


def shifted_row(job: JobRecord) -> dict[str, Any]:
    """Return the columns of a job whose times are shifted; ``job_id`` names it."""
    return {**standing_row(job), "spec": as_json(job.spec), "submitted": job.spec.submitted}


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
        "body": as_json(attempt),
    }


def attempt_update(attempt: AttemptRecord) -> dict[str, Any]:
    """Return an attempt's columns that change; a step of the system clock shifts also when it began."""
    return {
        "job_id": attempt.job,
        "attempt_number": attempt.number,
        "created": attempt.created,
        "ended": attempt.ended,
        "body": as_json(attempt),
    }


def attempt_record(row: Row[Any]) -> AttemptRecord:
    """Return an attempt from its columns."""
    return _attempt.decode(row.body)


events = Rows(schema.events, EventRecord)
audit = Rows(schema.audit, AuditRecord)
decisions = Rows(schema.decisions, DecisionRecord)
ledger = Rows(schema.ledger, LedgerEntry)
ledger_facts = Rows(schema.ledger_facts, EndedFact)
