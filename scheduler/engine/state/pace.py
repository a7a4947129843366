"""How long a job goes on by what it reports: one estimate, for forecasts and for what is shown; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from springtide.scheduler import model
from springtide.scheduler.model import Phase, Snapshot
from springtide.scheduler.store.records import JobRecord


def expected_end(job: JobRecord) -> float | None:
    """Return when the live attempt has made all steps if it goes on as at its last report, in seconds since 1970.

    None if the job reports no number of steps, or has made none in this attempt.
    """
    standing, live = job.standing, job.live
    step, of, at = standing.step, standing.of, standing.reported
    if live is None or live.asked is not None or live.started is None or step is None or of is None or at is None:
        return None
    made, passed = step - (live.resumed_from or 0.0), at - live.started
    if made <= 0 or of <= step or passed <= 0:
        return None
    return at + (of - step) * passed / made


def with_reports(snapshot: Snapshot, jobs: Mapping[str, JobRecord]) -> Snapshot:
    """Return the snapshot with the expected run times of running jobs that report their progress."""
    return replace(
        snapshot, jobs=tuple(_with_report(job, jobs.get(job.id), snapshot.now) for job in snapshot.jobs)
    )


def _with_report(job: model.Job, record: JobRecord | None, now: float) -> model.Job:
    end = None if record is None or job.phase is not Phase.RUNNING else expected_end(record)
    if end is None or end <= now:
        return job
    left = (end - now) * len(job.placement) / job.workers
    return replace(job, expected=job.worked_by(now) + left)
