"""The checkpoints of jobs, and jobs that continue from one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.copies import Copies
from springtide.scheduler.engine.requests.launch_specs import LaunchSpecs
from springtide.scheduler.engine.reruns import RerunCalls, name_again, name_without_fork
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.sweeps import controller
from springtide.scheduler.executors.base import (
    AttemptSpec,
    CheckpointGoneError,
    Executor,
    ExecutorError,
    SavedCheckpoint,
)
from springtide.scheduler.model import Checkpoint
from springtide.scheduler.refusal import Refusal, invalid_field
from springtide.scheduler.sentences.reruns import fork_words
from springtide.scheduler.store.records import ForkRef, JobRecord, JobSpec
from springtide.scheduler.wire.reruns import arguments_of
from springtide.scheduler.wording import LONG_GIVEN, given
from springtide.scheduler.workload import Workload

T = TypeVar("T")
STEM: Final = 100
"""Number of characters by which the names of other forks of a job are found."""
FORK_GONE: Final = "fork_gone"
"""Code of the refusal of a run again of a fork whose checkpoint is gone."""
NOT_FOUND: Final = "no_checkpoint"
"""Code of the refusal of a checkpoint that a job does not have."""


@dataclass(frozen=True, slots=True)
class Source:
    """The checkpoint that a fork continues from, among those of ``job``.

    ``repeats``: the fork that runs again with it, which has a copy of it or had one; None for a fork of ``job``.
    """

    job: JobRecord
    checkpoint: SavedCheckpoint
    repeats: JobSpec | None = None

    @property
    def first(self) -> JobSpec:
        """The spec that the fork has, but for what changes."""
        return self.repeats or self.job.spec

    @property
    def reference(self) -> ForkRef:
        """What the fork keeps of it."""
        found = self.checkpoint
        if self.repeats is not None and self.repeats.fork is not None:
            return self.repeats.fork
        return ForkRef(found.name, found.step, found.written, found.own)


def chosen(
    job: JobRecord, found: Sequence[SavedCheckpoint], step: float | None, name: str | None
) -> SavedCheckpoint:
    """Return the checkpoint of a job with this name or step, the newest without either.

    Raises `Refusal` if there is none, naming the nearest steps.
    """
    if not found:
        raise Refusal(409, "no_checkpoints", why_none(job), hint=HINT)
    if name is not None:
        known = next((each for each in found if each.name == name), None)
        if known is None:
            raise _not_found(job, f"checkpoint {given(name, LONG_GIVEN)}", "checkpoint", found)
        return known
    if step is None:
        return needed(job, found) or found[0]
    at_step = next((each for each in found if each.step == step), None)
    if at_step is None:
        raise _not_found(job, f"checkpoint at step {step:g}", "step", found, step)
    return at_step


HINT: Final = "Call save() of springtide.training in the program, or run the job again from its beginning."


def why_none(job: JobRecord) -> str:
    """Return why a job has no checkpoints, in words."""
    if job.standing.saved is not None or job.checkpoints_deleted:
        by = "by its program, its rules or a person"
        return f"The checkpoints of the job are not there any more: they were deleted, {by}, or are damaged."
    if job.standing.attempt == 0:
        return "The job has not started, so it has saved no checkpoint yet."
    if job.state.final:
        return "No checkpoints: the job saved none, or they were deleted."
    return "No checkpoint yet: the pool finds none that the job has saved."


def _not_found(
    job: JobRecord, what: str, which: str, found: Sequence[SavedCheckpoint], step: float | None = None
) -> Refusal:
    steps = sorted({each.step for each in found if each.step is not None})
    if step is not None and steps:
        below = [each for each in steps if each < step][-1:]
        above = [each for each in steps if each > step][:1]
        near = " and ".join(f"{each:g}" for each in (*below, *above))
        hint = f"The nearest {'is' if len((*below, *above)) == 1 else 'are'} {near}."
    elif step is not None:
        hint = f"The steps of its checkpoints are not known; name one of them: {_names(found)}."
    else:
        hint = f"It has: {_names(found)}."
    return Refusal(404, NOT_FOUND, f"Job {given(job.id)} has no {what}.", field=which, hint=hint)


def _names(found: Sequence[SavedCheckpoint]) -> str:
    return wording.listed([each.name for each in found])


def needed(job: JobRecord, found: Sequence[SavedCheckpoint]) -> SavedCheckpoint | None:
    """Return the checkpoint that a job resumes from, None if there is none; pure."""
    own = next((each for each in found if each.own), None)
    recorded = job.standing.checkpoint
    if own is not None or recorded is None:
        return own or next(iter(found), None)
    return next((each for each in found if each.name == recorded.path), next(iter(found), None))


@dataclass(frozen=True, slots=True)
class Need:
    """A checkpoint that its job resumes from, or that the next generation of a ``population`` continues from."""

    checkpoint: SavedCheckpoint
    population: JobRecord | None = None


def why_needed(job: JobRecord, need: Need, left: Sequence[SavedCheckpoint]) -> str:
    """Return what a checkpoint is needed for, and what follows from its deletion, which leaves ``left``."""
    name = given(need.checkpoint.name, LONG_GIVEN)
    before = f"continues from the one before ({left[0].name})" if left else ""
    if need.population is not None:
        population = given(need.population.spec.name)
        then = before or "goes on without this member's value"
        return f"The population {population} may continue from the checkpoint {name}. Without it that {then}."
    then = before or "begins from the start"
    return f"The job is {job.state} and resumes from the checkpoint {name}. Without it the job {then}."


def resumes_from(found: Sequence[SavedCheckpoint]) -> dict[str, Any]:
    """Return the changes of a standing whose newest checkpoint was deleted; ``found`` are those that are left."""
    if not found:
        return {"saved": None, "saved_step": None, "checkpoint": None}
    own = next((each for each in found if each.own), None)
    if own is not None:
        return {"saved": own.written, "saved_step": own.step, "checkpoint": None}
    first = found[0]
    left = Checkpoint(first.name, first.size, first.written, first.by)
    return {"saved": first.written, "saved_step": None, "checkpoint": left}


def _also(job: JobRecord) -> str:
    """Return the path of the recognised checkpoint that a fork began with, if it resumes from that."""
    recorded = job.standing.checkpoint
    return recorded.path if job.spec.fork is not None and recorded is not None else ""


class ForkCalls:
    """Lists, deletes and copies checkpoints, and makes the submissions of forks."""

    def __init__(
        self,
        executor: Executor,
        jobs: JobLookup,
        launch_specs: LaunchSpecs,
        reruns: RerunCalls,
        *,
        request: Callable[[Callable[[Transaction], None]], Awaitable[None]],
        copies: Copies,
    ) -> None:
        self._executor = executor
        self._jobs = jobs
        self._copies = copies
        self._launch_specs = launch_specs
        self._reruns = reruns
        self._request = request
        self._naming = asyncio.Lock()

    async def checkpoints(self, job_id: str) -> wire.CheckpointList:
        """Return the checkpoints of a job."""
        job = await self._jobs.get(job_id)
        found = await self._found(job)
        need = await self._need(job, found)
        items = [
            wire.Checkpoint(
                name=each.name,
                step=each.step,
                size=each.size,
                written=each.written,
                by=each.by,
                values=dict(each.values),
                needed=need is not None and each is need.checkpoint,
                for_population=need is not None and each is need.checkpoint and need.population is not None,
            )
            for each in found
        ]
        return wire.CheckpointList(items=items, text="" if items else why_none(job))

    async def delete(self, job_id: str, names: Collection[str], *, force: bool) -> wire.CheckpointList:
        """Delete checkpoints of a job, and return the others.

        Raises `Refusal` for an unknown one, and unless ``force`` for the one that the job resumes from, or its
        population continues from.
        """
        job = await self._jobs.get(job_id)
        found = await self._found(job)
        for name in names:
            chosen(job, found, None, name)
        keeps, need = needed(job, found), await self._need(job, found)
        if need is not None and need.checkpoint.name in names and not force:
            left = [each for each in found if each.name not in names]
            hint = "Delete it with force, if that is what you want."
            raise Refusal(409, "needed", why_needed(job, need, left), field="force", hint=hint)
        await self._ask(job, self._executor.delete_checkpoints(self._spec(job), set(names), _also(job)))
        if keeps is not None and keeps.name in names:
            await self._record_left(job_id, keeps)
        return await self.checkpoints(job_id)

    async def _need(self, job: JobRecord, found: Sequence[SavedCheckpoint]) -> Need | None:
        """Return the checkpoint that a job or its population continues from, None if there is none."""
        if not job.state.final:
            resumed = needed(job, found)
            return None if resumed is None else Need(resumed)
        own = next((each for each in found if each.own), None)
        sweep = None if own is None or job.sweep is None else await self._jobs.look_up(job.sweep)
        if own is None or sweep is None or not controller.is_continued(sweep, job):
            return None
        return Need(own, sweep)

    async def _record_left(self, job_id: str, gone: SavedCheckpoint) -> None:
        """Record from which checkpoint a job resumes now that this one was deleted."""
        job = await self._jobs.get(job_id)
        changes = resumes_from(await self._found(job))

        def record(transaction: Transaction) -> None:
            present = transaction.job(job_id) or self._jobs.in_memory(job_id) or job
            if not present.state.final:
                deleted = present.standing.saved or present.standing.deleted or gone.written
                transaction.put_job(present.with_standing(**changes, deleted=deleted))

        await self._request(record)

    async def source(self, job_id: str, step: float | None, name: str | None) -> tuple[JobRecord, SavedCheckpoint]:
        """Return the job that is forked, and the chosen checkpoint. Raises `Refusal`."""
        job = await self._jobs.get(job_id)
        if job.workload is not Workload.TRAINING:
            kind = {Workload.SWEEP: "a sweep, whose trials have", Workload.TRIAL: "a trial of a sweep, which has"}
            raise Refusal(
                409,
                "no_fork",
                f"Job {given(job_id)} is {kind.get(job.workload, 'a test run, which has')} no checkpoint of its "
                "own to continue from as a job.",
                hint="Send the training as a job of its own, with the parameters that you want.",
            )
        if step is not None and name is not None:
            raise invalid_field("step", "A step and a checkpoint are given.", "Give one of them.")
        return job, chosen(job, await self._found(job), step, name)

    async def source_again(self, fork: JobSpec) -> Source:
        """Return the checkpoint that a fork began from: its parent's, or the copy of it. Raises `Refusal`."""
        assert fork.rerun is not None
        assert fork.fork is not None
        of = fork.fork
        for job_id, is_parent in ((fork.rerun.job, True), (fork.id, False)):
            job = await self._jobs.look_up(job_id)
            for each in () if job is None or job.spec.user != fork.user else await self._found(job):
                is_it = (each.own, each.step, each.written) == (of.own, of.step, of.written)
                if job is not None and is_it and (each.name == of.checkpoint or not is_parent):
                    return Source(job, each, fork)
        raise Refusal(
            409,
            FORK_GONE,
            f"This fork began from {fork_words(fork.rerun.name, of.checkpoint, of.step)}, which is not there any "
            "more, and neither is its copy.",
            hint=f"Fork another checkpoint, or run it from the start: springtide rerun --from-start {fork.id}.",
        )

    async def name_of(self, source: Source) -> str:
        """Return the name of a fork without one of its own, which no other job of the person has.

        A fork that runs again keeps a name that it was given.
        """
        spec, reference = source.first, source.reference
        if source.repeats is not None and name_without_fork(spec) == spec.name:
            return spec.name
        stem = name_again(spec, reference)[:STEM]
        return name_again(spec, reference, await self._reruns.names(spec.user, stem))

    @asynccontextmanager
    async def named(self, source: Source, spec: JobSpec) -> AsyncIterator[JobSpec]:
        """Yield the spec of a fork with its name, which no fork that is accepted meanwhile gets."""
        async with self._naming:
            yield structs.replace(spec, name=await self.name_of(source))

    async def submission(
        self, source: Source, request: msgspec.Struct, changes: Mapping[str, Any]
    ) -> wire.Submission:
        """Return the submission of a fork; without a name its name says its checkpoint. Raises `Refusal`."""
        program: wire.Program | None = getattr(request, "program", None)
        key: str | None = getattr(request, "key")  # noqa: B009
        typed = arguments_of(request)
        if program is not None and typed:
            raise invalid_field("arguments", "A whole program and arguments are given.", "Give one of them.")
        again = await self._reruns.submission(
            source.first.id,
            changes,
            key,
            typed,
            files=program is None or not has_files(program),
        )
        again = again if program is None else with_program(again, program)
        return again if changes.get("name", "").strip() else structs.replace(again, name="")

    @asynccontextmanager
    async def copied(self, source: Source, spec: JobSpec) -> AsyncIterator[dict[str, Any]]:
        """Copy the checkpoint to a new job, and yield how that stands at its beginning. Raises `Refusal`.

        The job is accepted in the block; without its record the copy is deleted.
        """
        waits = False
        self._copies.hold([spec.id])
        try:
            begins = await self._copy(source, spec)
            waits = True
            yield begins
        except asyncio.CancelledError:
            if not waits:  # else the record may still come: the next start of the engine looks
                self._copies.release([spec.id])
            raise
        except BaseException:
            await self._copies.settle_held([spec.id])
            raise
        await self._copies.settle_held([spec.id])

    async def _copy(self, source: Source, spec: JobSpec) -> dict[str, Any]:
        parent, fork = self._spec(source.job), self._launch_specs.preview(JobRecord(spec), ())
        name = source.checkpoint.name
        copying = self._executor.copy_checkpoint(parent, name, fork, _also(source.job))
        gone = f"The checkpoint {given(name, LONG_GIVEN)} was removed before the fork had a copy of it."
        copied = await self._ask(source.job, copying, gone)
        step = source.checkpoint.step
        return {
            "saved": source.checkpoint.written,
            "saved_step": step if copied is None else None,
            "checkpoint": copied,
            "best_step": step,
        }

    async def _found(self, job: JobRecord) -> tuple[SavedCheckpoint, ...]:
        if job.standing.attempt == 0 and job.spec.fork is None:
            return ()
        return await self._ask(job, self._executor.list_checkpoints(self._spec(job), _also(job)))

    def _spec(self, job: JobRecord) -> AttemptSpec:
        return self._launch_specs.preview(job, ())

    async def _ask(self, job: JobRecord, answer: Awaitable[T], gone: str = "") -> T:
        try:
            return await answer
        except CheckpointGoneError as error:
            raise Refusal(
                404, NOT_FOUND, gone or str(error), hint=f"springtide checkpoints {job.id} lists them."
            ) from error
        except ExecutorError as error:
            raise Refusal(409, "checkpoints", str(error)) from error
        except OSError as error:
            why = error.strerror or str(error)
            raise Refusal(503, "checkpoints", f"The checkpoint cannot be copied: {why}.") from error


def has_files(program: wire.Program) -> bool:
    """Return whether a program comes with files or a project of its own."""
    return program.files is not None or program.tree is not None


def with_program(submission: wire.Submission, program: wire.Program) -> wire.Submission:
    """Return a submission with another program, which runs among the files of the first unless it has its own."""
    changes: dict[str, Any] = {"argv": program.argv, "kind": program.kind, "source": program.source}
    changes |= {"arguments": program.arguments}
    if has_files(program):
        changes |= {"files": program.files or {}, "tree": program.tree, "cwd": program.cwd}
        changes |= {"environment": program.environment}
    elif program.argv[0] != submission.argv[0] and submission.environment is not None:
        found = structs.replace(submission.environment, program=program.argv[0])  # looked for when the job starts
        changes["environment"] = found
    return structs.replace(submission, **changes)
