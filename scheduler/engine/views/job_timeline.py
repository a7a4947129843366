"""The timeline of a job: its submission, its attempts, the acts of people, and its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from springtide.scheduler import sentences, wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state.points_of_return import left_behind, starts_over
from springtide.scheduler.model import Reason
from springtide.scheduler.store.records import Asked, AttemptRecord, JobRecord
from springtide.scheduler.wording import amount, gpus, quoted

ENDS: Final = {
    "paused": "paused",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "was cancelled",
    "lost": "was lost",
    "blocked": "was blocked",
}
"""How attempts and jobs ended, as verbs."""
SAID_BY_ACTS: Final = frozenset({messages.HELD, messages.HELD_AND_RESUMED})
"""Codes of ends that acts have said already."""
BEGAN, STARTED, SAVED, ASKED, ENDED = range(5)
"""What happens at one instant, in order, between two attempts."""
Placed: TypeAlias = tuple[float, int, int, str]
"""A time, the number of the attempt that it belongs to, its place among the above, and what happened then."""


def timeline(job: JobRecord) -> list[wire.TimelineEntry]:
    """Return the entries of a job's timeline, oldest first: each event once, with its author."""
    found = [*_around(job), *_acts(job), *(each for attempt in job.attempts for each in _of_attempt(attempt, job))]
    return [wire.TimelineEntry(at=at, text=text) for at, _, _, text in sorted(found, key=lambda each: each[:3])]


def _around(job: JobRecord) -> Iterator[Placed]:
    """Yield the submission of a job, and its end unless that is the end of an attempt."""
    given, moved = _first(job, messages.DID_GIVE), _first(job, messages.DID_EDIT)
    user, project = given or job.spec.user, moved or job.spec.project
    yield job.spec.submitted, 0, BEGAN, f"Submitted by {quoted(user)} for the project {quoted(project)}."
    ended, why = job.standing.ended, job.standing.reason
    if ended is not None and not any(each.ended == ended for each in job.attempts):
        text = f"The job {ENDS[job.state.value]}." if why is None else sentences.text(why)
        yield ended, job.standing.attempt + 1, ENDED, text


def _first(job: JobRecord, code: str) -> str:
    """Return the owner or the project of a job before the first act of a code that changed it; else empty."""
    found = (each.why.params.get("before") for each in job.standing.acts if each.why.code == code)
    return str(next(filter(None, found), ""))


def _acts(job: JobRecord) -> Iterator[Placed]:
    for act in job.standing.acts:
        number = max((each.number for each in job.attempts if each.created < act.at), default=0)
        is_request = not act.why.code.startswith(messages.DID)
        asked = Asked.KILL if act.why.code in messages.TIME_IS_UP else Asked.PAUSE
        yield act.at, number, ASKED, _request(asked, act.why) if is_request else sentences.text(act.why)


def _of_attempt(attempt: AttemptRecord, job: JobRecord) -> Iterator[Placed]:
    number, name = attempt.number, f"Attempt {attempt.number}"
    given = f"{name} was given {gpus(attempt.gpus)}." if attempt.gpus else f"{name} was begun."
    yield attempt.created, number, BEGAN, f"{given} {sentences.text(attempt.why)}".rstrip()
    if attempt.started is not None:
        yield attempt.started, number, STARTED, f"{name} {_start(attempt, job)}."
    if attempt.saved is not None:
        yield attempt.saved, number, SAVED, f"{name} saved its latest checkpoint."
    if attempt.asked_at is not None and not any(each.at == attempt.asked_at for each in job.standing.acts):
        yield attempt.asked_at, number, ASKED, _request(attempt.asked, attempt.asked_why)
    if attempt.ended is not None:
        verb = ENDS.get(attempt.state.value, attempt.state.value)
        why = sentences.joined(_new_causes(attempt, job))
        yield attempt.ended, number, ENDED, f"{name} {verb}. {why}".rstrip()


def _start(attempt: AttemptRecord, job: JobRecord) -> str:
    if starts_over(job, attempt):
        return "started again from the beginning"
    return "started" if attempt.resumed_from is None else f"resumed from step {amount(attempt.resumed_from)}"


def _request(asked: Asked | None, why: Reason | None) -> str:
    """Return a request to stop an attempt, and its reason."""
    what = "to save and pause" if asked is Asked.PAUSE else "to end"
    return f"The job was asked {what}. {sentences.joined([] if why is None else _causes(why))}".rstrip()


def _causes(why: Reason) -> list[sentences.Sentence]:
    """Return the sentences of a reason about the past, without those about the present and the future."""
    past = (sentences.Role.CAUSE, sentences.Role.DETAIL)
    return [each for each in sentences.render(why) if each.role in past]


def _new_causes(attempt: AttemptRecord, job: JobRecord) -> list[sentences.Sentence]:
    """Return why an attempt ended, unless the request to stop has said so, and the work that is lost."""
    why, asked = attempt.ended_why, attempt.asked_why
    known = why is None or why.code in SAID_BY_ACTS or (asked is not None and asked.code == why.code)
    causes = [] if why is None or known else _causes(why)
    return [*causes, *(said for left in left_behind(job, attempt) for said in _causes(left))]
