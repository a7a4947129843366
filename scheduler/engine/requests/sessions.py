"""Programs that people run inside running jobs."""

from __future__ import annotations

from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.executors.base import AttemptKey, Executor, ExecutorError
from springtide.scheduler.executors.session import Session, SessionSpec
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal, invalid_field
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.wording import plural

RUNS = frozenset({JobState.RUNNING, JobState.PAUSING})
"""The states in which a job has processes."""


class JobSessions:
    """Starts sessions in the live attempts of jobs. Methods raise `Refusal`."""

    def __init__(self, executor: Executor, jobs: JobLookup) -> None:
        self._executor = executor
        self._jobs = jobs

    async def attempt(self, job_id: str, rank: int) -> AttemptKey:
        """Return the running attempt of a job.

        Raises `Refusal`: 409 if it does not run, 422 if it has no such worker.
        """
        job = await self._jobs.get(job_id)
        live = job.live
        if live is None or job.state not in RUNS:
            raise _not_running(job)
        if not 0 <= rank < job.spec.options.workers:
            number = f"{job.spec.options.workers} {plural(job.spec.options.workers, 'worker')}"
            raise invalid_field("rank", f"The job has no worker {rank}; it has {number}.", "They count from 0.")
        return AttemptKey(job.id, live.number)

    async def open(self, key: AttemptKey, spec: SessionSpec) -> Session:
        """Start a program. Raises `Refusal` 409 if that is not possible."""
        try:
            return await self._executor.open_session(key, spec)
        except ExecutorError as error:
            raise Refusal(409, "session", str(error)) from error


def _not_running(job: JobRecord) -> Refusal:
    hint = f"`springtide explain {job.id}` says why it waits." if not job.state.final else ""
    if job.standing.sweep is not None:
        hint = f"A sweep runs as its trials: `springtide jobs --sweep {job.id}` lists them."
    return Refusal(409, "not_running", f"The job does not run: its state is {job.state}.", hint=hint)
