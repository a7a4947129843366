"""Submission, pause, resume and cancellation of jobs, as changes to a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from springtide.scheduler.engine import messages, test_runs
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.bundle_sizes import owners
from springtide.scheduler.engine.state.state import SubmissionKey
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.sweeps import controller, requests
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal, checked_reason, invalid_field, unknown_project
from springtide.scheduler.settings import MIB
from springtide.scheduler.store.records import Bundle, Hold, JobRecord, JobSpec, SweepParameters, TestRun
from springtide.scheduler.wording import given
from springtide.scheduler.workload import Workload

JobsByKey: TypeAlias = Mapping[SubmissionKey, JobRecord]
MAX_KEYS_PER_QUERY = 200
NO_CHANGES: Mapping[str, Any] = MappingProxyType({})


class IdempotencyLookup:
    """Finds jobs by their idempotency keys. Keys that arrive during one query share the next.

    ``read`` returns the jobs of the stored keys.
    """

    def __init__(self, read: Callable[[Sequence[SubmissionKey]], Awaitable[JobsByKey]]) -> None:
        self._read = read
        self._waiting: dict[SubmissionKey, asyncio.Future[JobRecord | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def job_of(self, key: SubmissionKey) -> JobRecord | None:
        """Return the job that a key was accepted for, None if there is none. Raises what ``read`` raises."""
        answer = self._waiting.get(key)
        if answer is None:
            answer = self._waiting[key] = asyncio.get_running_loop().create_future()
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_all(), name="submission keys")
        return await asyncio.shield(answer)

    async def _read_all(self) -> None:
        try:
            while self._waiting:
                asked = {key: self._waiting.pop(key) for key in list(self._waiting)[:MAX_KEYS_PER_QUERY]}
                await self._answer(asked)
        finally:
            self._reading = None

    async def _answer(self, asked: Mapping[SubmissionKey, asyncio.Future[JobRecord | None]]) -> None:
        reading = asyncio.ensure_future(self._read(list(asked)))
        await asyncio.wait([reading])
        error = reading.exception()
        for key, answer in asked.items():
            if error is None:
                answer.set_result(reading.result().get(key))
            else:
                answer.set_exception(error)


class JobChange(StrEnum):
    """A user's requests on a job."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    FINISH = "finish"


def accept_job(
    transaction: Transaction,
    spec: JobSpec,
    bundle: Bundle | None,
    settings: EngineSettings,
    parameters: bytes | None = None,
    *,
    begins: Mapping[str, Any] = NO_CHANGES,
    paused_by: str = "",
) -> str:
    """Queue a validated submission and return the job's id; that of the earlier job for a key accepted before.

    ``parameters`` are those of a sweep's trials that are known beforehand, ``begins`` the changes of its first
    standing by the checkpoint that a fork continues from. ``paused_by`` says who has it paused from the start, if
    anybody.
    Raises `Refusal` if the project no longer exists or too many jobs are unfinished.
    """
    if spec.key is not None and (known := transaction.job_of_key(spec.user, spec.key)) is not None:
        return known
    spec = with_bundle(spec, bundle)
    check_room(transaction, spec, settings)
    job = JobRecord(replace(spec, seq=transaction.next_job_number())).with_standing(**begins)
    if spec.trials is not None:
        job = job.with_standing(sweep=controller.first_standing(spec.trials))
    if parameters is not None:
        transaction.sweep_parameters.append(SweepParameters(spec.id, parameters))
    test = test_runs.make_test(job, settings.test_run_time) if spec.options.test_run else None
    if test is not None:
        job = job.with_standing(test_run=TestRun(test.id))
    transaction.add_job(job, bundle)
    if test is not None:
        transaction.add_job(JobRecord(replace(test, seq=transaction.next_job_number())), None)
    if paused_by:
        change_job(transaction, job, JobChange.PAUSE, paused_by)
    return job.id


def rekey(transaction: Transaction, job: JobRecord, before: str, after: str, holder: str | None) -> None:
    """Have a job answer to the key ``after`` of its owner instead of ``before``; nothing if it does already.

    ``holder`` is the job that answers to ``after`` in the store. Raises `Refusal` (409) if the job's key is
    another one, or if another job answers to ``after``.
    """
    if job.spec.key == after:
        return
    other = transaction.job_of_key(job.spec.user, after) or holder
    if job.spec.key != before or other is not None:
        raise Refusal(
            409,
            "other_key",
            f"Job {job.id} cannot answer to the key {given(after)}: "
            + (f"job {other} does." if other is not None else f"its own is not {given(before)}."),
        )
    transaction.rekey(job, after)


def with_bundle(spec: JobSpec, bundle: Bundle | None) -> JobSpec:
    """Return the spec with the bundle of its files, if it has some."""
    return spec if bundle is None else replace(spec, bundle=bundle.digest, bundle_bytes=len(bundle.content))


def check_room(transaction: Transaction, spec: JobSpec, settings: EngineSettings) -> None:
    """Raise `Refusal` if a new job's project is gone, or if user, project or pool have as much as they may."""
    if spec.project not in transaction.projects:
        raise unknown_project(spec.project, "project", status=422, more=" any more")
    mine = transaction.count_unfinished(spec.user)
    if mine >= settings.queue_cap_per_user:
        raise Refusal(
            429,
            "too_many_jobs",
            f"{spec.user} has {mine} unfinished jobs; at most {settings.queue_cap_per_user} are allowed.",
            hint="Wait until some have ended, or cancel some.",
        )
    everyone = transaction.count_unfinished()
    if everyone >= settings.queue_cap:
        raise Refusal(
            429,
            "queue_full",
            f"The pool has {everyone} unfinished jobs; it takes at most {settings.queue_cap}.",
            hint="Try again when some have ended.",
        )
    if spec.stored:
        check_bytes(transaction, spec, settings)


def check_bytes(transaction: Transaction, spec: JobSpec, settings: EngineSettings) -> None:
    """Raise `Refusal` if the files of unfinished jobs would be too much with this job for its user or project."""
    most = {"user": settings.kept_bytes_per_user, "project": settings.kept_bytes_per_project}
    for kind, name in owners(spec):
        kept = transaction.stored_bytes((kind, name), spec.stored)
        if kept > most[kind]:
            raise Refusal(
                429,
                "too_many_bytes",
                f"With this job the unfinished jobs of the {kind} {given(name)} would keep {kept / MIB:.0f} MiB "
                f"of files in the pool; at most {most[kind] / MIB:.0f} MiB are allowed.",
                hint="Cancel jobs that are no longer needed, or wait until some have ended. Data that many jobs "
                "read belongs into files that they share, not into the files of each job.",
            )


def change_job(
    transaction: Transaction, job: JobRecord, change: JobChange, by: str, *, at_once: bool = False
) -> None:
    """Pause, resume, cancel or mark as finished a job for the user ``by``.

    A job that is cancelled ``at_once`` gets no time to save, also if it has been cancelled before.

    Raises `Refusal` if the job has ended, unless a cancelled job is cancelled again, if one that is ending for
    good is to pause or resume, and for a job to be marked as finished that is a sweep, runs, or has not run yet.
    """
    if job.state is JobState.CANCELLED and change is JobChange.CANCEL:
        return
    check_unfinished(job, change)
    if job.standing.stopping is not None and change in {JobChange.PAUSE, JobChange.RESUME}:
        why = "is being cancelled" if job.standing.stopping == messages.CANCEL else "has reached its time limit"
        message = f"The job {given(job.id)} {why}; there is nothing to {change}."
        raise Refusal(409, "ending", message, hint="Once it has ended, run it again or fork it.")
    test = test_runs.unfinished_test(transaction, job)
    if test is not None and change is not JobChange.FINISH:
        change_job(transaction, test, change, by, at_once=at_once)
    match change:
        case JobChange.PAUSE if job.workload is Workload.SWEEP:
            requests.pause(transaction, job, by)
        case JobChange.RESUME if job.workload is Workload.SWEEP:
            requests.resume(transaction, job, by)
        case JobChange.PAUSE:
            transaction.apply(lifecycle.hold(job, by, transaction.now))
        case JobChange.RESUME:
            transaction.apply(lifecycle.resume(job, by, transaction.now))
        case JobChange.FINISH:
            _check_finishable(job)
            transaction.apply(lifecycle.finish(job, by, transaction.now))
        case JobChange.CANCEL:
            if job.workload is Workload.SWEEP:
                requests.cancel(transaction, job, by, at_once=at_once)
            else:
                transaction.apply(lifecycle.cancel(job, by, transaction.now, at_once=at_once))
    if by != job.spec.user:
        about = {"user": job.spec.user, "name": job.spec.name}
        transaction.add_audit_entry(by, f"job.{change}", job.id, about, {}, project=job.spec.project)


def hold_job(transaction: Transaction, job: JobRecord, hold: Hold, *, finish: bool = False) -> None:
    """Put a job on hold: it does not start, and one that runs is paused, unless it may ``finish``.

    Raises `Refusal` if the job has ended or is on hold already, or if the reason is no line of text.
    """
    if not checked_reason(hold.reason, "reason"):
        raise invalid_field("reason", "The hold has no reason.", "Say in a sentence why.")
    check_unfinished(job, "hold")
    if (known := job.standing.hold) is not None and not known.project:
        raise Refusal(
            409,
            "on_hold",
            f"{known.by} has put the job {given(job.id)} on hold already: {known.reason.rstrip('.')}.",
            hint="Release it first to hold it for another reason.",
        )
    for each in with_parts(transaction, job):
        held = transaction.apply(lifecycle.put_on_hold(each, hold, transaction.now))
        if not finish and held.live is not None and not held.standing.stopping:
            transaction.apply(lifecycle.pause(held, messages.paused_for_hold(hold), transaction.now))
    about = {"user": job.spec.user, "name": job.spec.name}
    said = {"reason": hold.reason, "finish": finish}
    transaction.add_audit_entry(hold.by, "job.hold", job.id, about, said, project=job.spec.project)


def release_job(transaction: Transaction, job: JobRecord, by: str, user: str | None = None) -> None:
    """Let a job that is on hold start again, as that of ``user`` if given.

    Raises `Refusal` if it has ended or is not on hold, and for another owner while it runs.
    """
    check_unfinished(job, "release")
    hold = job.standing.hold
    if hold is None:
        raise Refusal(409, "not_on_hold", f"The job {given(job.id)} is not on hold.")
    if hold.project:
        message = f"The job {given(job.id)} is on hold because its project {given(hold.project)} is frozen."
        raise Refusal(409, "frozen", message, hint="Unfreeze the project, or move the job to another one.")
    parts = [
        transaction.apply(lifecycle.release(each, by, transaction.now)) for each in with_parts(transaction, job)
    ]
    new = None if user == job.spec.user else user
    if new is not None and any(each.live is not None for each in parts):
        raise Refusal(
            409,
            "runs",
            f"The job {given(job.id)} runs as {job.spec.user}; only a job that waits gets another owner.",
            hint="Pause it first.",
        )
    if new is not None:
        for each in parts:
            transaction.give_job(each, new, by)
    before = {"user": job.spec.user, "name": job.spec.name, "by": hold.by, "reason": hold.reason}
    after = {} if new is None else {"user": new}
    transaction.add_audit_entry(by, "job.release", job.id, before, after, project=job.spec.project)


def with_parts(transaction: Transaction, job: JobRecord) -> list[JobRecord]:
    """Return a job with its unfinished trials, or with the test run that it waits for."""
    test = test_runs.unfinished_test(transaction, job)
    return [job, *transaction.trials_of(job.id), *([] if test is None else [test])]


def check_unfinished(job: JobRecord, what: str) -> None:
    """Raise `Refusal` if a job has ended."""
    if job.state.final:
        raise Refusal(
            409,
            "ended",
            f"The job {given(job.id)} has ended ({job.state.value}); there is nothing to {what}.",
            hint="" if job.state is JobState.SUCCEEDED else "Submit it again.",
        )


def _check_finishable(job: JobRecord) -> None:
    """Raise `Refusal` for a job that cannot be marked as finished now."""
    if job.workload is Workload.SWEEP:
        why, hint = "is a sweep", "Cancel it: the results of the trials that have ended stay."
    elif job.live is not None:
        why, hint = "runs", "Pause it first, or let the program call job.done() and end."
    elif job.standing.started is None:
        why, hint = "has not run yet", "Cancel it instead."
    else:
        return
    message = f"The job {given(job.id)} {why}; only a job that waits after an attempt can be marked as finished."
    raise Refusal(409, "not_finishable", message, hint=hint)
