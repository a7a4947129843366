"""History of ended jobs: their run times, which unfinished ones are expected to have, and their placements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from springtide.scheduler.engine.forecasts.stop_times import StopTimes
from springtide.scheduler.engine.placements.placements import Placements
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.sweeps.controller import trial_name
from springtide.scheduler.history.run_times import ExpectedRunTimes, RunTimes
from springtide.scheduler.store.records import JobRecord, JobSpec

logger = logging.getLogger(__name__)

MAX_LOADED = 2_000
"""Number of latest ended jobs that are read from the store at the start."""


class RunHistory:
    """Run times of ended jobs; passes these jobs on to ``placements``, too.

    ``expected`` are the expected run times of the unfinished jobs of ``state``, ``stop_times`` how long pauses
    take; ``grace`` is the pool's grace period, in seconds.
    """

    def __init__(self, state: State, placements: Placements, grace: float) -> None:
        self.run_times = RunTimes()
        self.stop_times = StopTimes(grace)
        self.expected = ExpectedRunTimes(self.run_times)
        self._placements = placements
        self._learned: set[str] = set()
        self._loaded = asyncio.Event()

        for job in state.jobs.values():
            self.expect(job)

    def expect(self, job: JobRecord) -> None:
        """Take in the expected run time of an unfinished job, which is new or has another one than before."""
        if _has_expected(job):
            self.expected.put(job.id, job.spec, job.standing.usual_runtime)

    def forget(self, job: JobRecord | None) -> None:
        """Expect nothing of an unfinished job any more: it is another person's, or asks for something else."""
        if job is not None:
            self.expected.remove(job.id, job.spec)

    @property
    def due(self) -> bool:
        """Whether `follow` has something to renew."""
        return self._loaded.is_set() and next(self.expected.renewals(), None) is not None

    def follow(self, transaction: Transaction) -> None:
        """Update the expected run times of unfinished jobs by the run times learnt since the last commit.

        Nothing is renewed before the jobs that ended earlier are known.
        """
        if not self._loaded.is_set():
            return
        for renewal in self.expected.renewals():
            for job in map(transaction.job, renewal.jobs):
                if job is not None and not job.state.final:
                    transaction.put_job(job.with_standing(usual_runtime=renewal.seconds))

    def accept(self, transaction: Transaction) -> None:
        """Give new jobs the expected run time of those like them. Doing it again changes nothing."""
        for job in [transaction.jobs[job_id] for job_id in transaction.new_jobs]:
            if job.standing.usual_runtime is None and _has_expected(job):
                known = self._expected_after(transaction, job)
                if known is not None:
                    transaction.put_job(job.with_standing(usual_runtime=known))

    def _expected_after(self, transaction: Transaction, job: JobRecord) -> float | None:
        other = self.expected.one_like(job.spec)
        like = None if other is None else transaction.job(other)
        return self.expected.of(job.spec) if like is None else like.standing.usual_runtime

    def learn(self, job: JobRecord) -> None:
        """Add a job that has ended."""
        self.expected.remove(job.id, job.spec)
        if not self._loaded.is_set():
            self._learned.add(job.id)
        self._add(job)
        self._placements.compare_nodes(job)

    def _add(self, job: JobRecord) -> None:
        if not job.rules.learnt:
            return
        self.stop_times.learn(job)
        if job.spec.options.gpus:
            self.expected.learn(job.spec, job.standing.served / (job.spec.options.workers * job.spec.options.gpus))
        self._placements.learn(job)

    def with_fastest(self, spec: JobSpec) -> JobSpec:
        """Return the spec with the fastest known spread of similar jobs; a sweep's is that of its trials."""
        like = spec if spec.trials is None else replace(spec, name=trial_name(spec.name, 0))
        return replace(spec, fastest=self._placements.preferred(like))

    async def load(self, read: Callable[[int], Awaitable[Sequence[JobRecord]]]) -> None:
        """Add the jobs that had ended before the start.

        ``read(limit)`` returns the latest ended jobs, the latest first. An error is logged.
        """
        try:
            for job in reversed(await read(MAX_LOADED)):
                if job.id not in self._learned:
                    self._add(job)
        except Exception:
            logger.exception("Ended jobs could not be read; their run times are not known.")
        finally:
            self._loaded.set()
            self._learned.clear()

    async def loaded(self) -> None:
        """Wait until `load` has ended."""
        await self._loaded.wait()


def _has_expected(job: JobRecord) -> bool:
    """Return whether the job itself runs on GPUs to its end, as jobs do whose run times are compared."""
    return job.spec.options.gpus > 0 and job.rules.learnt
