"""A job's life, as pure functions: a record and what happened to it give a new record and what to do.

The rules of ends (DESIGN's contract of the job): exit 0 is success, also during a pause; exit 75 asks to be run
again; whatever else ends an attempt that was asked to pause is a pause; the rest is a failure with its own budget
of retries. Pauses and losses never use up retries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from springtide.scheduler.engine import words
from springtide.scheduler.engine.settings import Retries
from springtide.scheduler.executors.base import AttemptPhase, AttemptStatus, Exit, ExitKind, Reported
from springtide.scheduler.model import FINAL, JobState, Placement, Reason
from springtide.scheduler.store.records import Asked, AttemptRecord, AttemptState, JobRecord

AGAIN = 75
"""The exit code that means: checkpointed, run me again."""


class Act(StrEnum):
    """What the executor is to do with an attempt."""

    LAUNCH = "launch"
    PAUSE = "pause"
    KILL = "kill"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Do:
    """One act on one attempt."""

    act: Act
    job: str
    attempt: int


Step: TypeAlias = tuple[JobRecord, tuple[Do, ...]]


def start(job: JobRecord, placement: Placement, why: Reason, now: float) -> Step:
    """A new attempt of a waiting job."""
    number = job.standing.attempt + 1
    attempt = AttemptRecord(
        job=job.id,
        number=number,
        placement=placement,
        created=now,
        why=why,
        resumed_from=job.standing.saved_step,
        step_before=job.standing.best_step,
    )
    started = job.with_standing(
        state=JobState.STARTING, attempt=number, reserved=(), not_before=0.0, reason=why, error=""
    ).with_attempt(attempt)
    return started, (Do(Act.LAUNCH, job.id, number),)


def pause(job: JobRecord, why: Reason, now: float, reserved: Placement = ()) -> Step:
    """The scheduler asks the live attempt to save and stop; ``reserved`` is where it goes on, if that is known."""
    return _ask(job.with_standing(reserved=reserved), Asked.PAUSE, why, now)


def hold(job: JobRecord, by: str, now: float) -> Step:
    """A user pauses the job: it asks for nothing until it is resumed."""
    if job.state in FINAL or job.standing.stopping or job.standing.held:
        return job, ()
    why = words.held_by(by)
    held = job.with_standing(held=True, by=by, reserved=())
    if job.live is None:
        return held.with_standing(state=JobState.PAUSED, reason=why), ()
    return _ask(held, Asked.PAUSE, why, now)


def resume(job: JobRecord) -> Step:
    """A user lets a job that was held wait for GPUs again."""
    if job.state in FINAL or not job.standing.held:
        return job, ()
    free = job.with_standing(held=False, by="", not_before=0.0)
    if job.live is None:
        free = free.with_standing(state=_waiting(job), reason=_last_end(job))
    return free, ()


def cancel(job: JobRecord, by: str, now: float) -> Step:
    """A user ends the job for good."""
    if job.state in FINAL or job.standing.stopping == words.CANCEL:
        return job, ()
    why = words.cancelled_by(by)
    if job.live is None:
        return _end(job, JobState.CANCELLED, now, why), ()
    return _ask(job.with_standing(stopping=words.CANCEL, by=by, reserved=()), Asked.KILL, why, now)


def time_up(job: JobRecord, now: float) -> Step:
    """The job has run as long as it may."""
    if job.live is None or job.standing.stopping:
        return job, ()
    why = words.time_limit(job.spec.time_limit or 0.0)
    return _ask(job.with_standing(stopping=words.TIME_LIMIT, reserved=()), Asked.KILL, why, now)


def _ask(job: JobRecord, asked: Asked, why: Reason, now: float) -> Step:
    attempt = job.live
    if attempt is None:
        return job, ()
    if attempt.asked is Asked.KILL or attempt.asked is asked:
        return job.with_standing(reason=why), ()
    stopping = replace(attempt, state=AttemptState.PAUSING, asked=asked, asked_at=now, asked_why=why)
    act = Act.KILL if asked is Asked.KILL else Act.PAUSE
    asked_job = job.with_standing(state=JobState.PAUSING, reason=why).with_attempt(stopping)
    return asked_job, (Do(act, job.id, attempt.number),)


def deadline(job: JobRecord) -> float | None:
    """When the live attempt reaches the job's time limit."""
    attempt = job.live
    if attempt is None or attempt.started is None or job.spec.time_limit is None or job.standing.stopping:
        return None
    return attempt.started + job.spec.time_limit - job.standing.ran


def reported(job: JobRecord, report: Reported) -> JobRecord:
    """The job told how far it is. Nothing that has to be on disk at once."""
    standing = job.standing
    if job.state in FINAL:
        return job
    last = report.last
    best = max((step for step in (standing.best_step, last.step) if step is not None), default=None)
    told = job.with_standing(
        step=standing.step if last.step is None else last.step,
        of=standing.of if last.of is None else last.of,
        reported=last.at,
        values={**standing.values, **last.values},
        best_step=best,
        saved=standing.saved if report.saved_at is None else report.saved_at,
        saved_step=standing.saved_step if report.saved_at is None else report.saved_step,
    )
    attempt = job.live
    if attempt is None or attempt.number != report.key.attempt or report.saved_at is None:
        return told
    if report.saved_at < (attempt.started or attempt.created):
        return told
    return told.with_attempt(replace(attempt, saved=report.saved_at))


def observed(job: JobRecord, status: AttemptStatus, now: float, retries: Retries) -> Step:
    """The executor told how far an attempt is."""
    attempt = job.live
    key = status.key
    if attempt is None or attempt.number != key.attempt:
        gone = status.phase is AttemptPhase.GONE
        return job, ((Do(Act.DISCARD, key.job, key.attempt),) if gone else ())
    if status.phase is AttemptPhase.GONE:
        ended = status.exit or Exit(ExitKind.LOST, now, detail="Nothing is known of how it ended.")
        return settle(job, replace(attempt, started=status.started or attempt.started), ended, retries)
    if status.phase is AttemptPhase.STARTING:
        return (job if attempt.seen else job.with_attempt(replace(attempt, seen=True))), ()
    return _running(job, attempt, status.started or now), ()


def _running(job: JobRecord, attempt: AttemptRecord, started: float) -> JobRecord:
    if attempt.started is not None:
        return job
    state = AttemptState.RUNNING if attempt.asked is None else attempt.state
    running = job.with_attempt(replace(attempt, seen=True, started=started, state=state))
    if attempt.asked is None:
        running = running.with_standing(state=JobState.RUNNING)
    return running.with_standing(started=started if job.standing.started is None else job.standing.started)


def settle(job: JobRecord, attempt: AttemptRecord, ended: Exit, retries: Retries) -> Step:
    """The attempt is gone: what becomes of the job."""
    at = max(ended.at, attempt.created)
    ran = max(0.0, at - attempt.started) if attempt.started is not None else 0.0
    settled = job.with_standing(
        ran=job.standing.ran + ran,
        served=job.standing.served + ran * attempt.gpus,
        exit_code=ended.code,
        started=job.standing.started if job.standing.started is not None else attempt.started,
    )
    attempt = replace(
        attempt,
        seen=True,
        ended=at,
        exit_code=ended.code,
        exit_signal=ended.signal,
        detail=ended.detail,
    )
    settled, state, why = _verdict(settled, attempt, ended, retries)
    settled = settled.with_attempt(replace(attempt, state=state, ended_why=why))
    return settled, (Do(Act.DISCARD, job.id, attempt.number),)


def _verdict(
    job: JobRecord, attempt: AttemptRecord, ended: Exit, retries: Retries
) -> tuple[JobRecord, AttemptState, Reason]:
    at = attempt.ended or ended.at
    clean = ended.kind is ExitKind.EXITED and ended.signal is None and ended.code == 0
    if job.standing.stopping == words.CANCEL:
        why = words.cancelled_by(job.standing.by)
        return _end(job, JobState.CANCELLED, at, why), AttemptState.CANCELLED, why
    if clean:
        why = words.succeeded()
        return _end(job, JobState.SUCCEEDED, at, why), AttemptState.SUCCEEDED, why
    if job.standing.stopping == words.TIME_LIMIT:
        why = words.time_limit(job.spec.time_limit or 0.0)
        return _end(job, JobState.FAILED, at, why), AttemptState.FAILED, why
    if ended.kind is ExitKind.LOST:
        return _lost(job, attempt, ended, at, retries)
    if attempt.asked is Asked.PAUSE or ended.paused:
        why = _pause_reason(job, attempt)
        return _wait(job.with_standing(losses=0), why), AttemptState.PAUSED, why
    if ended.kind is ExitKind.EXITED and ended.signal is None and ended.code == AGAIN:
        return _again(job, attempt, at, retries)
    return _failed(job, ended, at, retries)


def _lost(
    job: JobRecord, attempt: AttemptRecord, ended: Exit, at: float, retries: Retries
) -> tuple[JobRecord, AttemptState, Reason]:
    why = words.lost(ended.detail)
    losses = 1 if attempt.saved is not None else job.standing.losses + 1
    waiting = job.with_standing(losses=losses, not_before=at + retries.wait(losses - 1))
    return _wait(waiting, why), AttemptState.LOST, why


def _again(
    job: JobRecord, attempt: AttemptRecord, at: float, retries: Retries
) -> tuple[JobRecord, AttemptState, Reason]:
    best, before = job.standing.best_step, attempt.step_before
    onward = attempt.saved is not None or (best is not None and (before is None or best > before))
    if onward:
        why = words.asked_again()
        waiting = job.with_standing(fruitless=0, losses=0, not_before=at + retries.wait(1))
        return _wait(waiting, why), AttemptState.PAUSED, why
    times = job.standing.fruitless + 1
    if times >= retries.fruitless_limit:
        why = words.fruitless(times)
        return _end(job.with_standing(fruitless=times), JobState.FAILED, at, why), AttemptState.FAILED, why
    why = words.asked_again_in_vain(times, retries.fruitless_limit)
    waiting = job.with_standing(fruitless=times, not_before=at + retries.wait(times))
    return _wait(waiting, why), AttemptState.PAUSED, why


def _failed(job: JobRecord, ended: Exit, at: float, retries: Retries) -> tuple[JobRecord, AttemptState, Reason]:
    failures = job.standing.failures + 1
    counted = job.with_standing(failures=failures, losses=0)
    why = words.failed(ended)
    if failures > job.spec.retries:
        return _end(counted, JobState.FAILED, at, why), AttemptState.FAILED, why
    retry = words.failed(ended, retry=failures, retries=job.spec.retries)
    waiting = counted.with_standing(not_before=at + retries.wait(failures))
    return _wait(waiting, retry), AttemptState.FAILED, retry


def _wait(job: JobRecord, why: Reason) -> JobRecord:
    if job.standing.held:
        return job.with_standing(state=JobState.PAUSED, reason=words.held_by(job.standing.by))
    return job.with_standing(state=_waiting(job), reason=why)


def _waiting(job: JobRecord) -> JobState:
    """Paused means queued again with progress to resume: it has run before."""
    return JobState.PAUSED if job.standing.started is not None else JobState.QUEUED


def _pause_reason(job: JobRecord, attempt: AttemptRecord) -> Reason:
    why = attempt.asked_why
    if why is None or (why.code == words.HELD and not job.standing.held):
        return words.asked_to_pause()
    return why


def _last_end(job: JobRecord) -> Reason | None:
    why = job.attempts[-1].ended_why if job.attempts else None
    return None if why is not None and why.code == words.HELD else why


def _end(job: JobRecord, state: JobState, at: float, why: Reason) -> JobRecord:
    error = words.render(why) if state is JobState.FAILED else ""
    return job.with_standing(
        state=state, ended=at, reason=why, reserved=(), held=False, stopping=None, error=error
    )
