"""Test runs of jobs: their creation, and the consequences for the job, in the same transaction."""

from __future__ import annotations

from msgspec.structs import replace

from springtide.scheduler import sentences
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import JobState
from springtide.scheduler.store.records import JobRecord, JobSpec, TestRun, TestStage
from springtide.scheduler.wire import MAX_NAME

SUFFIX = " (test run)"
"""Suffix of the name of a test run, after the job's name."""
STAGES = {
    JobState.QUEUED: TestStage.WAITING,
    JobState.PAUSED: TestStage.WAITING,
    JobState.SUCCEEDED: TestStage.PASSED,
    JobState.FAILED: TestStage.FAILED,
    JobState.CANCELLED: TestStage.CANCELLED,
}
"""Stages by the state of the test run; in all other states it runs."""


def make_test(job: JobRecord, seconds: float) -> JobSpec:
    """Return the spec of the test run of a new job: the same program with one worker on one GPU.

    It has passed when it has run for ``seconds``. It is a job of its own, so that neither its checkpoints
    nor its outputs are those of the job.
    """
    spec, options = job.spec, job.spec.options
    limit = seconds if options.time_limit is None else min(seconds, options.time_limit)
    part = options.per_gpu
    return replace(
        spec,
        id=f"{spec.id}test",
        name=spec.name[: MAX_NAME - len(SUFFIX)] + SUFFIX,
        options=replace(
            options,
            workers=1,
            gpus=1,
            min_workers=None,
            cpus=round(part.cpus, 3) or None,
            memory=int(part.memory) or None,
            require=None,
            prefer=None,
            rdma=False,
            time_limit=limit,
            retries=0,
            test_run=False,
        ),
        key=None,
        fastest=None,
        rerun=None,
        tests=spec.id,
    )


def unfinished_test(transaction: Transaction, job: JobRecord) -> JobRecord | None:
    """Return the test run that a job waits for, None if it waits for none."""
    test = job.standing.test_run
    found = None if test is None else transaction.job(test.job)
    return None if found is None or found.state.final else found


def follow(transaction: Transaction) -> None:
    """Let jobs follow the test runs that have changed: one that passed puts its job in line, a failed one ends it.

    Doing it again changes nothing.
    """
    for test in list(transaction.jobs.values()):
        job = None if test.spec.tests is None else transaction.job(test.spec.tests)
        if job is not None and job.awaits_test and not job.state.final:
            _follow(transaction, job, test)


def _follow(transaction: Transaction, job: JobRecord, test: JobRecord) -> None:
    stage = STAGES.get(test.state, TestStage.RUNNING)
    seen = TestRun(test.id, stage, test.standing.ran)
    if seen == job.standing.test_run:
        return
    job = job.with_standing(test_run=seen)
    why = test.standing.reason
    if stage is TestStage.FAILED:
        outcome = messages.test_failed("" if why is None else sentences.text(why))
        job, _ = lifecycle.end_with_test(job, JobState.FAILED, outcome, transaction.now)
    elif stage is TestStage.CANCELLED:
        outcome = messages.test_cancelled(test.standing.by)
        job, _ = lifecycle.end_with_test(job, JobState.CANCELLED, outcome, transaction.now)
    transaction.put_job(job)
