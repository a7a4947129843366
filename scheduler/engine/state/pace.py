"""A job's expected course by its reports and its options, for forecasts and views; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from msgspec import structs

from springtide.scheduler import model
from springtide.scheduler.engine.state.lifecycle import deadline
from springtide.scheduler.model import Phase, Snapshot
from springtide.scheduler.store.records import JobRecord

SETTLED: Final = 60.0
"""Time after which the speed of an attempt is known, however few steps it has made, in seconds."""
SETTLED_PART: Final = 0.05
"""Part of the attempt's steps after which its speed is known: before, most of the time is that of its start."""


def expected_end(job: JobRecord) -> float | None:
    """Return when the live attempt has made all steps at its last reported speed, in seconds since the epoch.

    None if the job reports no number of steps, has made none in this attempt, or has only just begun.
    """
    standing, live = job.standing, job.live
    step, of, at = standing.step, standing.of, standing.reported
    if live is None or live.asked is not None or live.started is None or step is None or of is None or at is None:
        return None
    made, passed = step - (live.resumed_from or 0.0), at - live.started
    if made <= 0 or of <= step or passed <= 0:
        return None
    if passed < SETTLED and made < SETTLED_PART * (made + of - step):
        return None
    return at + (of - step) * passed / made


class LikelyEnd(NamedTuple):
    """When an attempt ends, in seconds since the epoch; ``limited`` says that its time limit ends it then."""

    at: float
    limited: bool


def likely_end(job: JobRecord) -> LikelyEnd | None:
    """Return when the live attempt ends: as `expected_end`, or at its time limit if that comes first.

    None if its pace is unknown.
    """
    end, limit = expected_end(job), deadline(job)
    if end is None:
        return None
    return LikelyEnd(limit, limited=True) if limit is not None and limit < end else LikelyEnd(end, limited=False)


def _late_left(job: JobRecord, now: float) -> float:
    """Return the remaining time of a running job that is overdue by its reports, in seconds.

    Its speed is as if its last report were of now, and it runs on for at least the time since that report.
    """
    live, step, of, at = job.live, job.standing.step, job.standing.of, job.standing.reported
    if live is None or live.started is None or step is None or of is None or at is None:
        return 0.0
    return max((of - step) * (now - live.started) / (step - (live.resumed_from or 0.0)), now - at)


def expected_course(snapshot: Snapshot, jobs: Mapping[str, JobRecord]) -> Snapshot:
    """Return the snapshot with the facts about its jobs that only forecasts and views need.

    Running jobs that report their progress have their expected run times; one that should have made all steps by
    now takes longer. A job that stops because its user paused it holds no GPUs
    and does not wait for any; one that is being ended is left out.
    """
    found = (_expected(job, jobs.get(job.id), snapshot.now) for job in snapshot.jobs)
    return replace(snapshot, jobs=tuple(job for job in found if job is not None))


def _expected(job: model.Job, record: JobRecord | None, now: float) -> model.Job | None:
    if record is None:
        return job
    if job.phase is Phase.PAUSING and record.standing.stopping is not None:
        return None
    if job.phase is Phase.PAUSING and record.awaits_person:
        return structs.replace(job, phase=Phase.HELD, placement=(), started=None)
    end = expected_end(record) if job.phase is Phase.RUNNING else None
    if end is None:
        return job
    left = (end - now if end > now else _late_left(record, now)) * len(job.placement) / job.workers
    return structs.replace(job, expected=job.worked_by(now) + left)
