"""The life cycle of a job, as pure functions from a record and an event to a new record and effects.

How an attempt's end is judged: exit code 0 is success, unless a request to stop reached the attempt before and
the job has not reported that its work is complete; exit code 75 asks to be run again; any other end of an attempt
asked to pause, by the pool or by the cluster, is a pause; the rest are failures, which use up the job's retries.
Pauses, lost attempts, and those that something outside of the job keeps from starting use up none. Whatever keeps
a job from starting that has run before is outside of it. A job that was handed over and is refused is put on hold:
what it needs is closed to its new owner, and trying again opens nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from msgspec import structs

from springtide.scheduler import sentences
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.settings import Retries
from springtide.scheduler.executors.base import (
    NEVER_STARTED,
    AttemptPhase,
    AttemptStatus,
    CheckpointSort,
    Exit,
    ExitKind,
    Reported,
    TrialReport,
)
from springtide.scheduler.metrics import latest, merged, since, with_values
from springtide.scheduler.model import FINAL, Block, HomeAccess, JobState, Placement, Reason
from springtide.scheduler.store.records import (
    Asked,
    AttemptRecord,
    AttemptState,
    CountedSteps,
    Hold,
    JobRecord,
    Outcome,
    Withheld,
)
from springtide.scheduler.store.tables import POOL
from springtide.scheduler.workload import Line

RUN_AGAIN = os.EX_TEMPFAIL
"""Exit code 75: the job has saved a checkpoint and asks to be run again."""
WARNED_PART = 0.1
"""Part of a time limit before whose end the job's user is warned."""
LONGEST_WARNING = 900.0
"""Maximum time before the end of a time limit at which the job's user is warned, in seconds."""
SHORTEST_WARNED = 300.0
"""Minimum time limit of a job whose user is warned, in seconds."""
QUICK = 60.0
"""Run time below which an attempt is a quick one, in seconds."""


class Action(StrEnum):
    """The actions of the executor on an attempt."""

    LAUNCH = "launch"
    PAUSE = "pause"
    KILL = "kill"
    KILL_NOW = "now"
    DISCARD = "discard"


ACTION_FOR: Final = {Asked.PAUSE: Action.PAUSE, Asked.KILL: Action.KILL, Asked.KILL_NOW: Action.KILL_NOW}
"""The actions by which attempts are asked, the stronger request later."""
STRENGTH: Final = tuple(ACTION_FOR)


@dataclass(frozen=True, slots=True)
class Effect:
    """An action on one attempt, to be carried out after the commit."""

    action: Action
    job: str
    attempt: int


Transition: TypeAlias = tuple[JobRecord, tuple[Effect, ...]]
"""The job after an event, and the effects of the event."""


def start(
    job: JobRecord,
    placement: Placement,
    why: Reason,
    now: float,
    *,
    gpu_type: str = "",
    turn: bool = False,
) -> Transition:
    """Start a new attempt of a waiting job, on GPUs of a type; ``turn`` says that it has the turn."""
    number = job.standing.attempt + 1
    attempt = AttemptRecord(
        job=job.id,
        number=number,
        placement=placement,
        created=now,
        why=why,
        gpu_type=gpu_type,
        resumed_from=job.standing.saved_step,
        step_before=job.standing.best_step,
        had_checkpoint=job.standing.saved is not None,
    )
    started = job.with_standing(
        state=JobState.STARTING,
        attempt=number,
        reserved=(),
        not_before=0.0,
        step=job.standing.saved_step,
        unsaved=None,
        room_until=None,
        edited=None,
        lost_result="",
        reason=why,
        error="",
        turn=turn,
        last_turn=now if turn else job.standing.last_turn,
    ).with_attempt(attempt)
    return started, (Effect(Action.LAUNCH, job.id, number),)


def pause(job: JobRecord, why: Reason, now: float, reserved: Placement = ()) -> Transition:
    """Ask the live attempt to save and stop, by a decision; ``reserved`` is where the job resumes, if known."""
    return _ask(job.with_standing(reserved=reserved, turn=False), Asked.PAUSE, why, now)


def hold(job: JobRecord, by: str, now: float) -> Transition:
    """Pause the job until it is resumed, for the user ``by``."""
    if job.state in FINAL or job.standing.stopping or job.standing.held:
        return job, ()
    held = job.with_standing(held=True, by=by, reserved=()).with_act(now, messages.did("pause", by))
    if job.live is None:
        kept = job.state is JobState.PAUSED and last_end(job) is not None
        return held.with_standing(state=JobState.PAUSED, reason=messages.held_by(by, kept=kept)), ()
    return _ask(held, Asked.PAUSE, messages.held_by(by), now)


def resume(job: JobRecord, by: str, now: float) -> Transition:
    """Let a job that a user paused wait for GPUs again, for the user ``by``."""
    if job.state in FINAL or job.standing.stopping or not job.standing.held:
        return job, ()
    free = job.with_standing(held=False, by="", not_before=0.0).with_act(now, messages.did("resume", by))
    if job.live is None:
        free = free.with_standing(state=_waiting(job), reason=last_end(job))
    return free, ()


def put_on_hold(job: JobRecord, hold: Hold, now: float) -> Transition:
    """Let the job not start, or not again while it runs, until it is released; one that is being moved is."""
    if job.state in FINAL or job.standing.stopping:
        return job, ()
    before = job.standing.hold
    held = job.with_standing(hold=hold, reserved=job.standing.reserved if job.live is not None else ())
    if before is None or (before.by, before.reason, before.project) != (hold.by, hold.reason, hold.project):
        held = held.with_act(now, messages.did("hold", hold.by, detail=hold.reason, project=hold.project))
    return held, ()


def release(job: JobRecord, by: str, now: float) -> Transition:
    """Let a job that was put on hold start again, for the person ``by``."""
    hold = job.standing.hold
    if hold is None:
        return job, ()
    free = job.with_standing(hold=None, not_before=0.0)
    return free.with_act(now, messages.did("release", by, project=hold.project)), ()


def cancel(job: JobRecord, by: str, now: float, *, at_once: bool = False) -> Transition:
    """End the job for good, for the user ``by``; ``at_once`` leaves its program no time to save."""
    cancelling = job.standing.stopping == messages.CANCEL
    ends_now = job.live is not None and job.live.asked is Asked.KILL_NOW
    if job.state in FINAL or (cancelling and (ends_now or not at_once)):
        return job, ()
    why = job.standing.reason if cancelling and job.standing.reason else messages.cancelled_by(by)
    if job.live is None:
        return _end(job, JobState.CANCELLED, now, why), ()
    cancelled = job if cancelling else job.with_standing(stopping=messages.CANCEL, by=by, reserved=())
    cancelled = _with_request(cancelled).with_act(now, messages.did("end-now" if at_once else "cancel", by))
    return _ask(cancelled, Asked.KILL_NOW if at_once else Asked.KILL, why, now)


def finish(job: JobRecord, by: str, now: float) -> Transition:
    """End a job that waits after an attempt as succeeded, because the user ``by`` says that its work is complete.

    Nothing changes while the job has a live attempt, or before it has started.
    """
    if job.state in FINAL or job.live is not None or job.standing.started is None:
        return job, ()
    return _end(job.with_standing(by=by), JobState.SUCCEEDED, now, messages.finished_by(by)), ()


def time_up(job: JobRecord, now: float) -> Transition:
    """End the job because it has reached its time limit."""
    if job.live is None or job.standing.stopping:
        return job, ()
    why = _time_is_up(job)
    ending = _with_request(job.with_standing(stopping=messages.TIME_LIMIT, reserved=())).with_act(now, why)
    return _ask(ending, Asked.KILL, why, now)


def _time_is_up(job: JobRecord) -> Reason:
    """Return that the job ran as long as it may; a test run has passed then."""
    limit = job.spec.options.time_limit or 0.0
    return messages.tested_long_enough(limit) if job.rules.passes_at_limit else messages.time_limit(limit)


def end_with_test(job: JobRecord, state: JobState, why: Reason, now: float) -> Transition:
    """End a job that waits for its test run, because that has failed or was cancelled."""
    return _end(job, state, now, why), ()


def time_limit_check(job: JobRecord) -> float | None:
    """Return when the job has to be looked at because of its time limit: for the warning, then for the end."""
    end = deadline(job)
    limit = job.spec.options.time_limit
    if end is None or limit is None or job.standing.warned or limit < SHORTEST_WARNED:
        return end
    return end - min(LONGEST_WARNING, limit * WARNED_PART)


def back_off_end(job: JobRecord) -> float | None:
    """Return when the back-off of a waiting job without GPUs ends, None of any other job."""
    in_line = job.line is Line.WITHOUT_GPUS and job.live is None
    waits = in_line and not (job.awaits_person or job.state in FINAL)
    return (job.standing.not_before or None) if waits else None


def withhold(job: JobRecord, block: Block, detail: str) -> JobRecord:
    """Return a waiting job that is not started while ``block`` keeps others, and it would keep this one."""
    return job.with_standing(withheld=Withheld(block, detail), reserved=())


def offer_again(job: JobRecord, block: Block, *, kept: bool = False) -> JobRecord:
    """Return a job that is no longer withheld because of ``block``, and is tried at once.

    With ``kept`` the block still counts as what keeps it.
    """
    standing = job.standing
    withheld = standing.withheld if standing.withheld is None or standing.withheld.block != block else None
    if standing.block != block:
        return job if withheld is standing.withheld else job.with_standing(withheld=withheld)
    return job.with_standing(withheld=withheld, block=block if kept else None, not_before=0.0)


def refused_beforehand(job: JobRecord, ended: Exit, now: float, retries: Retries) -> JobRecord:
    """Return a job whose next start the executor would refuse, so that nothing is ended for it.

    A running one stays where it is, and is not moved for a while. A waiting one is tried again later, or fails for
    a reason in the job before it has run.
    """
    if job.live is not None:
        return job.with_standing(not_before=now + retries.longest)
    if _is_closed_to_owner(job, ended):
        return _closed_to_owner(job, ended, now)[0]
    if ended.kind is ExitKind.REFUSED and job.standing.started is None:
        return _failed(job, ended, now, retries)[0]
    return _blocked(job, ended, now, retries)[0]


def check_time_limit(job: JobRecord, now: float) -> Transition:
    """End the job if it has reached its time limit; note it as warned if that is near."""
    end, check = deadline(job), time_limit_check(job)
    if end is not None and end <= now:
        return time_up(job, now)
    if check is not None and check <= now:
        return job.with_standing(warned=True), ()
    return job, ()


def _with_request(job: JobRecord) -> JobRecord:
    """Return a job that is about to be ended for good, with the pause that its attempt was asked for before."""
    live = job.live
    if live is None or live.asked is not Asked.PAUSE or live.asked_why is None or live.asked_at is None:
        return job
    is_known = any(each.at == live.asked_at for each in job.standing.acts)
    return job if is_known else job.with_act(live.asked_at, live.asked_why)


def not_stopped(job: JobRecord, detail: str) -> JobRecord:
    """Return a job whose attempt could not be asked to end, in the words ``detail``; empty once it has been."""
    why = None if job.live is None else job.live.asked_why
    return job.with_standing(reason=messages.not_stopped(detail) if detail else why)


def _ask(job: JobRecord, asked: Asked, why: Reason, now: float) -> Transition:
    attempt = job.live
    if attempt is None:
        return job, ()
    if attempt.asked is not None and STRENGTH.index(attempt.asked) >= STRENGTH.index(asked):
        return job.with_standing(reason=why), ()
    since = now if attempt.asked is None else attempt.asked_at
    stopping = structs.replace(attempt, state=AttemptState.PAUSING, asked=asked, asked_at=since, asked_why=why)
    asked_job = job.with_standing(state=JobState.PAUSING, reason=why).with_attempt(stopping)
    return asked_job, (Effect(ACTION_FOR[asked], job.id, attempt.number),)


def shift_times(job: JobRecord, seconds: float) -> JobRecord:
    """Shift the times of an unfinished job and its live attempt, so that durations up to now stay what they are.

    Times of ended attempts stay as they were recorded.
    """
    standing, live = job.standing, job.live
    shifted = JobRecord(structs.replace(job.spec, submitted=job.spec.submitted + seconds), standing, job.attempts)
    shifted = shifted.with_standing(
        not_before=standing.not_before + seconds if standing.not_before else 0.0,
        started=_shifted(standing.started, seconds),
        saved=_shifted(standing.saved, seconds),
        deleted=_shifted(standing.deleted, seconds),
        unsaved=_shifted(standing.unsaved, seconds),
        room_until=_shifted(standing.room_until, seconds),
        reported=_shifted(standing.reported, seconds),
        last_turn=_shifted(standing.last_turn, seconds),
    )
    if live is None:
        return shifted
    shifted = shifted.with_standing(
        acts=tuple(
            each._replace(at=each.at + seconds) if each.at >= live.created else each for each in standing.acts
        )
    )
    return shifted.with_attempt(
        structs.replace(
            live,
            created=live.created + seconds,
            started=_shifted(live.started, seconds),
            asked_at=_shifted(live.asked_at, seconds),
            saved=_shifted(live.saved, seconds),
            counted=None if live.counted is None else live.counted.shifted(seconds),
        )
    )


def latest_time(job: JobRecord) -> float:
    """Return the latest time at which something happened to a job, in seconds since the epoch."""
    standing = job.standing
    times = [job.spec.submitted, standing.started, standing.saved, standing.reported]
    for attempt in job.attempts[-1:]:
        times += [attempt.created, attempt.started, attempt.asked_at, attempt.ended]
    return max(at for at in times if at is not None)


def _shifted(at: float | None, seconds: float) -> float | None:
    return None if at is None else at + seconds


def deadline(job: JobRecord) -> float | None:
    """Return when the live attempt reaches the job's time limit, None if it has none or is ending."""
    attempt = job.live
    if attempt is None or attempt.started is None or job.spec.options.time_limit is None or job.standing.stopping:
        return None
    return attempt.started + job.spec.options.time_limit - job.standing.ran


def reported(job: JobRecord, report: Reported) -> JobRecord:
    """Return the job with its reported progress, which need not be committed at once."""
    standing = job.standing
    if job.state in FINAL:
        return job
    last = report.last
    best = max((step for step in (standing.best_step, last.step) if step is not None), default=None)
    updated = job.with_standing(
        step=standing.step if last.step is None else last.step,
        of=standing.of if last.of is None else last.of,
        reported=last.at,
        values=(values := latest(standing.values, last.values)),
        extremes=merged(standing.extremes, with_values(report.extremes, last.values, last.step)),
        not_finite=since({**standing.not_finite, **report.not_finite}, values, last.step),
        best_step=best,
        **_saved(job, report),
        unsaved=report.unsaved_at,
        room_until=report.room_until,
        outcome=standing.outcome if report.trial is None else _outcome(report.trial),
        lost_result=report.lost_result,
    )
    attempt = job.live
    if attempt is None or attempt.number != report.key.attempt:
        return updated
    if attempt.saved is None and _began_without_its_checkpoint(job, report):
        attempt = structs.replace(attempt, had_checkpoint=False, resumed_from=None)
        updated = updated.with_standing(step=last.step)
    if last.step is not None:
        attempt = structs.replace(attempt, counted=_counted(attempt.counted, last.step, last.at))
    saved = updated.standing.saved
    if saved is not None and saved >= (attempt.started or attempt.created):
        attempt = structs.replace(attempt, saved=saved)
    return updated if attempt is job.live else updated.with_attempt(attempt)


def _began_without_its_checkpoint(job: JobRecord, report: Reported) -> bool:
    """Return whether the checkpoint that was known when the attempt began was not there any more."""
    standing = job.standing
    if standing.saved is None:
        return False
    if standing.checkpoint is None:
        return CheckpointSort.OWN in report.began_without
    return CheckpointSort.FOUND in report.began_without and not _is_of_fork(job)


def _is_of_fork(job: JobRecord) -> bool:
    """Return whether the newest checkpoint is the one that a fork began with, which no search finds."""
    forked, found = job.spec.fork, job.standing.checkpoint
    return forked is not None and (None if found is None else found.written) == forked.written


def _saved(job: JobRecord, report: Reported) -> dict[str, Any]:
    """Return the changes of a standing by the newest checkpoint.

    One that the job reports counts more than one recognised among its files: the job resumes from it by itself.
    The one that a fork began with is older than its files, so that no search finds it.
    """
    standing = job.standing
    if report.saved_at is not None and (standing.deleted is None or report.saved_at > standing.deleted):
        return {"saved": report.saved_at, "saved_step": report.saved_step, "checkpoint": None}
    if standing.saved is not None and standing.checkpoint is None and not report.damaged:
        return {}
    if report.found is None and _is_of_fork(job):
        return {}
    written = None if report.found is None else report.found.written
    deleted = standing.saved if written is None and standing.saved is not None else standing.deleted
    return {"saved": written, "saved_step": None, "checkpoint": report.found, "deleted": deleted}


def _counted(counted: CountedSteps | None, step: float, at: float) -> CountedSteps:
    return CountedSteps(step, at) if counted is None else counted.with_report(step, at)


def _outcome(report: TrialReport) -> Outcome:
    return Outcome(
        parameters=report.parameters,
        value=report.value,
        curve=report.curve,
        pruned=report.pruned,
        memo=report.memo,
    )


def observed(job: JobRecord, status: AttemptStatus, now: float, retries: Retries) -> Transition:
    """Take in the executor's status of an attempt. ``retries`` sets the delays before the next attempt."""
    attempt = job.live
    key = status.key
    if attempt is None or attempt.number != key.attempt:
        gone = status.phase is AttemptPhase.GONE
        return job, ((Effect(Action.DISCARD, key.job, key.attempt),) if gone else ())
    if status.phase is AttemptPhase.GONE:
        ended = status.exit or Exit(ExitKind.LOST, now, detail="How it ended is unknown.")
        started = status.started if attempt.started is None else attempt.started
        if ended.ran is not None and started is not None:
            ended = replace(ended, at=min(now, started + ended.ran))
        return settle(job, structs.replace(attempt, started=started), ended, retries)
    if status.phase is AttemptPhase.STARTING:
        return (job if attempt.seen else _seen(job, attempt, status.home)), ()
    return _running(job, attempt, status.started or now, status.home), ()


def _seen(job: JobRecord, attempt: AttemptRecord, home: HomeAccess) -> JobRecord:
    return job.with_attempt(structs.replace(attempt, seen=True)).with_standing(home=home)


def _running(job: JobRecord, attempt: AttemptRecord, started: float, home: HomeAccess) -> JobRecord:
    if attempt.started is not None:
        return job
    state = AttemptState.RUNNING if attempt.asked is None else attempt.state
    running = job.with_attempt(structs.replace(attempt, seen=True, started=started, state=state))
    if attempt.asked is None:
        running = running.with_standing(state=JobState.RUNNING)
    first = started if job.standing.started is None else job.standing.started
    return running.with_standing(started=first, blocks=0, block=None, home=home)


def settle(job: JobRecord, attempt: AttemptRecord, ended: Exit, retries: Retries) -> Transition:
    """Settle the job after the end of its attempt."""
    if ended.kind in NEVER_STARTED:
        job, attempt = _not_started(job, attempt)
    at = max(ended.at, attempt.created)
    ran = 0.0
    if attempt.started is not None:
        ran = max(0.0, at - attempt.started) if ended.ran is None else ended.ran
    settled = job.with_standing(
        ran=job.standing.ran + ran,
        served=job.standing.served + ran * attempt.gpus,
        exit_code=ended.code,
        started=job.standing.started if job.standing.started is not None else attempt.started,
        blocks=job.standing.blocks if ended.kind in NEVER_STARTED else 0,
        block=None,
        former=job.standing.former if attempt.started is None else "",
    )
    attempt = structs.replace(
        attempt,
        seen=True,
        ended=at,
        exit_code=ended.code,
        exit_signal=ended.signal,
        detail=ended.detail,
    )
    settled, state, why = _verdict(settled, attempt, ended, retries)
    settled = settled.with_attempt(structs.replace(attempt, state=state, ended_why=why))
    return settled, (Effect(Action.DISCARD, job.id, attempt.number),)


def _not_started(job: JobRecord, attempt: AttemptRecord) -> tuple[JobRecord, AttemptRecord]:
    """Return a job and its attempt without a start that was observed, and was only that of what starts the job."""
    if attempt.started is None:
        return job, attempt
    first = job.standing.started == attempt.started
    return job.with_standing(started=None) if first else job, structs.replace(attempt, started=None)


def _verdict(
    job: JobRecord, attempt: AttemptRecord, ended: Exit, retries: Retries
) -> tuple[JobRecord, AttemptState, Reason]:
    at = attempt.ended or ended.at
    clean = ended.kind in (ExitKind.EXITED, ExitKind.EVICTED) and ended.signal is None and ended.code == 0
    told_to_stop = ended.paused or ended.kind is ExitKind.EVICTED or job.standing.stopping is not None
    if job.standing.stopping == messages.CANCEL:
        why = messages.cancelled_by(job.standing.by)
        return _end(job, JobState.CANCELLED, at, why), AttemptState.CANCELLED, why
    if clean and (ended.complete or not told_to_stop):
        why = messages.succeeded(lost_result=job.standing.lost_result, returned=ended.returned)
        return _end(job, JobState.SUCCEEDED, at, why), AttemptState.SUCCEEDED, why
    if ended.complete and ended.returned and len(attempt.placement) == 1:
        why = messages.succeeded_before(ended, lost_result=job.standing.lost_result)
        return _end(job, JobState.SUCCEEDED, at, why), AttemptState.SUCCEEDED, why
    if job.standing.stopping == messages.TIME_LIMIT:
        why = _time_is_up(job)
        if job.rules.passes_at_limit:
            return _end(job, JobState.SUCCEEDED, at, why), AttemptState.SUCCEEDED, why
        return _end(job, JobState.FAILED, at, why), AttemptState.FAILED, why
    if ended.kind is ExitKind.LOST:
        return _lost(job, attempt, ended, at, retries)
    if attempt.asked is Asked.PAUSE:
        why = pause_reason(job, attempt)
        return _wait(job.with_standing(losses=0, quick=0), why), AttemptState.PAUSED, why
    if ended.kind is ExitKind.EVICTED or ended.paused:
        why = messages.evicted(ended.detail) if ended.kind is ExitKind.EVICTED else messages.asked_to_pause()
        return _interrupted(job, attempt, why, at, retries), AttemptState.PAUSED, why
    if _is_closed_to_owner(job, ended):
        return _closed_to_owner(job, ended, at)
    if _is_blocked(job, attempt, ended):
        return _blocked(job, ended, at, retries)
    if ended.kind is ExitKind.EXITED and ended.signal is None and ended.code == RUN_AGAIN:
        return _again(job, attempt, at, retries)
    return _failed(job, ended, at, retries)


def _lost(
    job: JobRecord, attempt: AttemptRecord, ended: Exit, at: float, retries: Retries
) -> tuple[JobRecord, AttemptState, Reason]:
    why = messages.lost(ended.detail, saved=job.standing.saved is not None)
    losses = 1 if attempt.saved is not None else job.standing.losses + 1
    quick = _quick_ends(job, attempt, at)
    wait = retries.wait(max(losses, quick) - 1)
    return _wait(job.with_standing(losses=losses, quick=quick, not_before=at + wait), why), AttemptState.LOST, why


def _interrupted(job: JobRecord, attempt: AttemptRecord, why: Reason, at: float, retries: Retries) -> JobRecord:
    """Let the job wait for its next attempt: something other than the pool asked this one to stop."""
    quick = _quick_ends(job, attempt, at)
    return _wait(job.with_standing(losses=0, quick=quick, not_before=at + retries.wait(quick - 1)), why)


def _is_blocked(job: JobRecord, attempt: AttemptRecord, ended: Exit) -> bool:
    """Return whether an attempt did not start for a reason outside of the job.

    A job that has run before could be started: whatever refuses it now is not in the job.
    """
    ran_before = job.standing.started is not None and job.standing.started < attempt.created
    return ended.kind is ExitKind.BLOCKED or (ended.kind is ExitKind.REFUSED and ran_before)


def _is_closed_to_owner(job: JobRecord, ended: Exit) -> bool:
    """Return whether a job that was handed over is refused before it has run as its new owner's."""
    return ended.kind is ExitKind.REFUSED and bool(job.standing.former)


def _closed_to_owner(job: JobRecord, ended: Exit, at: float) -> tuple[JobRecord, AttemptState, Reason]:
    why = messages.closed_to_owner(ended.detail, job.standing.former, job.spec.user)
    waiting, _ = put_on_hold(_wait(job, why), Hold(POOL, sentences.text(why), at), at)
    return waiting, AttemptState.BLOCKED, why


def _blocked(job: JobRecord, ended: Exit, at: float, retries: Retries) -> tuple[JobRecord, AttemptState, Reason]:
    why = messages.blocked(ended.detail)
    blocks = job.standing.blocks + 1
    waiting = job.with_standing(blocks=blocks, block=ended.block, not_before=at + retries.wait(blocks))
    return _wait(waiting, why), AttemptState.BLOCKED, why


def _again(
    job: JobRecord, attempt: AttemptRecord, at: float, retries: Retries
) -> tuple[JobRecord, AttemptState, Reason]:
    if _has_progress(job, attempt):
        quick = _quick_ends(job, attempt, at)
        wait = retries.wait(max(1, quick))
        why = messages.asked_again(quick, wait)
        waiting = job.with_standing(fruitless=0, losses=0, quick=quick, not_before=at + wait)
        return _wait(waiting, why), AttemptState.PAUSED, why
    times = job.standing.fruitless + 1
    if times >= retries.fruitless_limit:
        why = messages.fruitless(times)
        return _end(job.with_standing(fruitless=times), JobState.FAILED, at, why), AttemptState.FAILED, why
    why = messages.asked_again_in_vain(times, retries.fruitless_limit)
    waiting = job.with_standing(fruitless=times, not_before=at + retries.wait(times))
    return _wait(waiting, why), AttemptState.PAUSED, why


def _quick_ends(job: JobRecord, attempt: AttemptRecord, at: float) -> int:
    """Return the number of attempts in a row, with this one, that ended by themselves after a short time."""
    is_quick = attempt.started is None or at - attempt.started < QUICK
    return job.standing.quick + 1 if is_quick else 0


def _has_progress(job: JobRecord, attempt: AttemptRecord) -> bool:
    """Return whether the attempt reached a later step; of a job without steps, whether it saved a checkpoint."""
    best, before = job.standing.best_step, attempt.step_before
    return attempt.saved is not None if best is None else before is None or best > before


def _failed(job: JobRecord, ended: Exit, at: float, retries: Retries) -> tuple[JobRecord, AttemptState, Reason]:
    failures = job.standing.failures + 1
    counted = job.with_standing(failures=failures, losses=0)
    why = messages.failed(ended)
    if failures > job.spec.options.retries or ended.kind is ExitKind.OVER_DISK:
        return _end(counted, JobState.FAILED, at, why), AttemptState.FAILED, why
    retry = messages.failed(ended, retry=failures, retries=job.spec.options.retries)
    waiting = counted.with_standing(not_before=at + retries.wait(failures))
    return _wait(waiting, retry), AttemptState.FAILED, retry


def _wait(job: JobRecord, why: Reason) -> JobRecord:
    if job.standing.held:
        return job.with_standing(state=JobState.PAUSED, reason=messages.held_by(job.standing.by))
    return job.with_standing(state=_waiting(job), reason=why)


def _waiting(job: JobRecord) -> JobState:
    """Return the state of a waiting job: paused if it has run before, queued otherwise."""
    return JobState.PAUSED if job.standing.started is not None else JobState.QUEUED


def pause_reason(job: JobRecord, attempt: AttemptRecord) -> Reason:
    """Return why an attempt was asked to pause, as it is now: its user may have resumed the job meanwhile."""
    why = attempt.asked_why
    if why is not None and why.code == messages.HELD and not job.standing.held:
        return messages.held_and_resumed(str(why.params.get("by") or ""))
    return messages.asked_to_pause() if why is None else why


def last_end(job: JobRecord) -> Reason | None:
    """Return why the last attempt of a job ended, None if it has none, or a user paused it."""
    why = job.attempts[-1].ended_why if job.attempts else None
    return None if why is not None and why.code == messages.HELD else why


def _end(job: JobRecord, state: JobState, at: float, why: Reason) -> JobRecord:
    error = sentences.text(why) if state is JobState.FAILED else ""
    return job.with_standing(
        state=state,
        ended=at,
        reason=why,
        reserved=(),
        held=False,
        hold=None,
        withheld=None,
        stopping=None,
        error=error,
    )
