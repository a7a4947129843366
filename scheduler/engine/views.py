"""What the API shows, built from records; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from springtide.scheduler import model, wire
from springtide.scheduler.engine import words
from springtide.scheduler.engine.borrowing import Borrowing
from springtide.scheduler.engine.gpus import Labels
from springtide.scheduler.store.records import AttemptRecord, AuditRecord, JobRecord, WorkspaceRecord

LISTED_ATTEMPTS = 5
"""The latest attempts that a job shows in lists and events."""


@dataclass(frozen=True, slots=True)
class Lens:
    """What a job's view needs besides its record.

    ``borrowing`` tells how many of a job's GPUs are borrowed, ``waits`` why a waiting job waits, ``place`` its
    place in line, ``starts`` when it is expected to start, if that was worked out.
    """

    labels: Labels
    borrowing: Borrowing
    waits: Callable[[str], model.Reason | None]
    place: Callable[[str], int | None]
    starts: Callable[[str], wire.Starts | None]


def reason(why: model.Reason | None) -> wire.Reason | None:
    """A reason with its sentence."""
    if why is None:
        return None
    return wire.Reason(code=why.code, text=words.render(why), params=dict(why.params))


def job_reason(job: JobRecord, lens: Lens) -> wire.Reason | None:
    """Why the job is as it is: for a paused one why it was paused, then what it waits for."""
    own = reason(job.standing.reason)
    if job.state.final or job.state.holds_gpus or job.standing.held:
        return own
    waits = reason(lens.waits(job.id))
    if own is None or waits is None:
        return own or waits
    return wire.Reason(
        code=own.code, text=f"{own.text} {waits.text}", params={**own.params, "waits": waits.code, **waits.params}
    )


def job(record: JobRecord, lens: Lens, now: float, *, full: bool = True) -> wire.Job:
    """A job with all that a card shows; ``full`` adds its earlier attempts and its source."""
    spec, standing, live = record.spec, record.standing, record.live
    waiting = not (record.state.final or record.state.holds_gpus)
    running_for = max(0.0, now - live.started) if live is not None and live.started is not None else 0.0
    return wire.Job(
        id=spec.id,
        name=spec.name,
        kind=spec.kind,
        user=spec.user,
        project=spec.project,
        state=record.state.value,
        priority=spec.priority,
        preemptible=spec.preemptible,
        workers=spec.workers,
        gpus=spec.gpus,
        min_workers=spec.min_workers,
        submitted=spec.submitted,
        argv=list(spec.argv),
        image=spec.image,
        source=spec.source if full else "",
        started=standing.started,
        ended=standing.ended,
        held_by_user=standing.held,
        held=lens.labels.refs(live.placement, lens.borrowing.of(record)) if live is not None else [],
        attempt=standing.attempt,
        attempts=_attempts(record, lens, 0 if full else -LISTED_ATTEMPTS),
        progress=progress(record),
        saved=standing.saved,
        saved_step=standing.saved_step,
        reason=job_reason(record, lens),
        place=lens.place(spec.id) if waiting and not standing.held else None,
        starts=lens.starts(spec.id) if waiting and not standing.held else None,
        time_limit=spec.time_limit,
        retries=spec.retries,
        failures=standing.failures,
        gpu_seconds=standing.served + running_for * (live.gpus if live is not None else 0),
        exit_code=standing.exit_code,
        error=standing.error,
    )


def _attempts(record: JobRecord, lens: Lens, first: int) -> list[wire.Attempt]:
    now_borrowed = lens.borrowing.of(record)
    return [
        attempt(item, lens.labels, now_borrowed if item.state.live else item.borrowed)
        for item in record.attempts[first:]
    ]


def progress(record: JobRecord) -> wire.Progress:
    """What the job last reported."""
    standing = record.standing
    return wire.Progress(step=standing.step, of=standing.of, at=standing.reported, values=dict(standing.values))


def attempt(record: AttemptRecord, labels: Labels, borrowed: int) -> wire.Attempt:
    """One run of a job, the last ``borrowed`` of its GPUs marked as borrowed."""
    return wire.Attempt(
        number=record.number,
        state=record.state.value,
        workers=len(record.placement),
        gpus=labels.refs(record.placement, borrowed),
        created=record.created,
        started=record.started,
        ended=record.ended,
        exit_code=record.exit_code,
        exit_signal=record.exit_signal,
        saved=record.saved,
        resumed_from=record.resumed_from,
        why=reason(record.why),
        ended_why=reason(record.ended_why),
    )


def workspace(record: WorkspaceRecord, labels: Labels) -> wire.Workspace:
    """A build notebook's GPUs."""
    return wire.Workspace(
        user=record.user,
        server=record.server,
        gpus=len(record.gpus),
        uuids=[labels.uuid(record.node, index) for index in record.gpus],
        labels=[labels.label(record.node, index) for index in record.gpus],
        node=record.node,
        simulated=labels.simulated(record.node),
        since=record.since,
    )


def audit(record: AuditRecord, *, undo: bool) -> wire.AuditEntry:
    """Who changed what."""
    return wire.AuditEntry(
        id=record.id,
        at=record.at,
        who=record.who,
        what=record.what,
        subject=record.subject,
        before=dict(record.before),
        after=dict(record.after),
        undo=undo,
    )
