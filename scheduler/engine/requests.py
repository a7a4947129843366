"""What users ask of jobs, as changes to a draft."""

from __future__ import annotations

from dataclasses import replace

from springtide.scheduler.engine import lifecycle
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.world import Draft
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import Bundle, JobRecord, JobSpec


def no_job(job_id: str) -> Refusal:
    """There is no such job."""
    return Refusal(404, "not_found", f"There is no job {job_id!r}.")


def accept(draft: Draft, spec: JobSpec, bundle: Bundle | None, settings: EngineSettings) -> str:
    """Queue a checked submission, or find the job that its key was accepted for; the job's id.

    Raises `Refusal` if its project is gone or too many jobs wait already.
    """
    if spec.key is not None and (known := draft.job_of_key(spec.user, spec.key)) is not None:
        return known
    if draft.project(spec.project) is None:
        raise Refusal(422, "unknown_project", f"There is no project {spec.project!r} any more.", field="project")
    mine = draft.unfinished(spec.user)
    if mine >= settings.max_unfinished_per_user:
        raise Refusal(
            429,
            "too_many_jobs",
            f"{spec.user} has {mine} unfinished jobs; at most {settings.max_unfinished_per_user} are allowed.",
            hint="Wait until some have ended, or cancel some.",
        )
    everyone = draft.unfinished()
    if everyone >= settings.max_unfinished:
        raise Refusal(
            429,
            "queue_full",
            f"The pool has {everyone} unfinished jobs; it takes at most {settings.max_unfinished}.",
            hint="Try again when some have ended.",
        )
    digest = None if bundle is None else bundle.digest
    job = JobRecord(replace(spec, seq=draft.next_seq(), bundle=digest))
    draft.add(job, bundle)
    return job.id


def control(draft: Draft, job: JobRecord, what: str, by: str) -> None:
    """Pause, resume or cancel a job. Raises `Refusal` if it has ended, unless it is to be cancelled again."""
    if job.state is JobState.CANCELLED and what == "cancel":
        return
    if job.state.final:
        raise Refusal(
            409,
            "ended",
            f"The job {job.id!r} has ended ({job.state.value}); there is nothing to {what}.",
            hint="Submit it again.",
        )
    match what:
        case "pause":
            draft.step(lifecycle.hold(job, by, draft.now))
        case "resume":
            draft.step(lifecycle.resume(job))
        case _:
            draft.step(lifecycle.cancel(job, by, draft.now))
            if by != job.spec.user:
                draft.note(by, "job.cancel", job.id, {"user": job.spec.user, "name": job.spec.name}, {})
