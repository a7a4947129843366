"""What a change of a job means to its user: a pure function of the records before and after, and of a choice.

What users did to their own jobs is not told to them, nor that a job asked by itself to be run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from springtide.scheduler import sentences
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.model import JobState, Reason
from springtide.scheduler.notifications import Channel, ChannelEvents, Notification, NotificationEvent
from springtide.scheduler.store.records import Asked, AttemptRecord, AttemptState, JobRecord

Told: TypeAlias = tuple[NotificationEvent, Reason, tuple[Reason, ...]]
"""An event, the reason that its title is made of, and those that its text is made of."""

HELD = Reason("notify-held")
"""What follows from a pause by a person."""
INTERRUPTED = frozenset({AttemptState.PAUSED, AttemptState.LOST})


def notifications(
    before: JobRecord | None, after: JobRecord, chosen: ChannelEvents, now: float
) -> list[Notification]:
    """Return what the user of a job is told of a change: nothing of events that no channel was chosen for.

    Of the trials of a sweep, and of test runs, nothing is told: their user waits for the sweep, and for the job.
    """
    found: list[Notification] = []
    if before is None or after.sweep is not None or after.spec.tests is not None:
        return found
    for event, title, texts in _events(before, after, now):
        channels = tuple(channel for channel in Channel if event in chosen.get(channel, ()))
        if channels:
            found.append(
                Notification(
                    id=f"{after.id}.{after.standing.attempt}.{event}",
                    user=after.spec.user,
                    job=after.id,
                    event=event,
                    title=sentences.text(title),
                    text=" ".join(map(sentences.text, texts)),
                    channels=channels,
                )
            )
    return found


def _events(before: JobRecord, after: JobRecord, now: float) -> Iterator[Told]:
    ended = _ended_attempt(before, after)
    if after.state.final and not before.state.final:
        yield from _end(after)
    elif ended is not None:
        yield from _interruption(after, ended)
    elif after.standing.held and not before.standing.held and before.live is None:
        yield from _hold(after)
    if after.state is JobState.RUNNING and before.state is not JobState.RUNNING:
        yield from _resumption(after)
    if after.standing.warned and not before.standing.warned:
        limit = after.spec.time_limit or 0.0
        left = max(0.0, (lifecycle.deadline(after) or now) - now)
        title = Reason("notify-limit-near", {"name": after.spec.name, "seconds": left})
        yield NotificationEvent.TIME_LIMIT, title, (Reason("notify-limit", {"seconds": limit}),)


def _ended_attempt(before: JobRecord, after: JobRecord) -> AttemptRecord | None:
    """Return the attempt that was live before and is not any more, as it is now."""
    if before.live is None:
        return None
    number = before.live.number
    return next((each for each in after.attempts if each.number == number and not each.state.live), None)


def _end(job: JobRecord) -> Iterator[Told]:
    ran = (Reason("notify-ran", {"seconds": job.standing.ran}),) if job.standing.ran >= 1 else ()
    why = (job.standing.reason,) if job.standing.reason is not None else ()
    if job.state is JobState.FAILED:
        yield NotificationEvent.FAILED, _title("notify-failed", job), (*why, *ran)
    elif job.state is JobState.SUCCEEDED:
        yield NotificationEvent.ENDED, _title("notify-succeeded", job), (*why, *ran) if job.is_sweep else ran
    elif job.standing.by != job.spec.user:
        by = job.standing.by
        yield NotificationEvent.ENDED, _title("notify-cancelled", job, by), ran if by else (*why, *ran)


def _interruption(job: JobRecord, ended: AttemptRecord) -> Iterator[Told]:
    why = (ended.ended_why,) if ended.ended_why is not None else ()
    if ended.state is AttemptState.FAILED:
        yield NotificationEvent.FAILED, _title("notify-attempt-failed", job), why
    elif ended.state in INTERRUPTED and not _asked_again(ended) and (by := _holder(ended)) != job.spec.user:
        texts = (*((HELD,) if by else why), *_saved(job))
        yield NotificationEvent.PAUSED, _title("notify-paused", job, by), texts


def _hold(job: JobRecord) -> Iterator[Told]:
    by, why = job.standing.by, job.standing.reason
    if by != job.spec.user:
        texts = (HELD,) if by else (why,) if why else ()
        yield NotificationEvent.PAUSED, _title("notify-paused", job, by), (*texts, *_saved(job))


def _resumption(job: JobRecord) -> Iterator[Told]:
    tried = [each for each in job.attempts if each.state is not AttemptState.BLOCKED]
    *_, last, live = (None, None, *tried)
    if last is not None and live is not None and last.state in INTERRUPTED and not _asked_again(last):
        yield NotificationEvent.RESUMED, _title("notify-resumed", job), (live.why,)


def _asked_again(attempt: AttemptRecord) -> bool:
    return attempt.state is AttemptState.PAUSED and attempt.asked is not Asked.PAUSE


def _holder(ended: AttemptRecord) -> str:
    """Return the person whose pause ended the attempt, empty if the pool did."""
    why = ended.asked_why
    return str(why.params.get("by", "")) if why is not None and why.code == messages.HELD else ""


def _title(code: str, job: JobRecord, by: str | None = None) -> Reason:
    return Reason(code, {"name": job.spec.name, **({"by": by} if by else {})})


def _saved(job: JobRecord) -> tuple[Reason, ...]:
    step = job.standing.saved_step
    return () if step is None else (Reason("notify-saved", {"step": step}),)
