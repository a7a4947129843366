"""Records of the store to test with: a job that has text of all kinds, and attempts of it."""

from __future__ import annotations

from typing import Any

from jobs.job_options import with_options

from springtide.scheduler.model import JobState, Reason, Worker
from springtide.scheduler.store.records import (
    AttemptRecord,
    JobRecord,
    JobSpec,
)


def job(number: int = 1, **spec: Any) -> JobRecord:
    """Return the record of susan's job with a number."""
    fields: dict[str, Any] = {
        "id": f"job{number}",
        "seq": number,
        "user": "susan",
        "project": "vision",
        "submitted": 100.0 + number,
        "name": "täst 🌊",
        "kind": "command",
        "argv": ("python", "-c", "print('\N{SNOWMAN}')"),
        "env": {"A": "1\n2"},
        "gpu_types": ("v100",),
        "time_limit": 3600.5,
    }
    return JobRecord(with_options(JobSpec, **{**fields, **spec}))


def attempt(of: JobRecord, number: int = 1, **more: Any) -> AttemptRecord:
    """Return an attempt of a job, on two GPUs."""
    fields: dict[str, Any] = {
        "placement": (Worker(0, "train", (0, 1)),),
        "created": 200.0,
        "why": Reason("started", {"gpus": 2}),
    }
    return AttemptRecord(job=of.id, number=number, **{**fields, **more})


def ended(record: JobRecord, at: float = 300.0) -> JobRecord:
    """Return the job as it succeeded at a moment."""
    return record.with_standing(state=JobState.SUCCEEDED, ended=at)
