"""Generations of populations: their checkpoints are copied first, then their trials begin.

What follows from an ended generation is a pure decision, so nothing of it is written down before the copies are
whole. If the service ends in between, the next one decides the same and copies again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from springtide.scheduler.backoff import Backoff, Jitter
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.copies import Copies
from springtide.scheduler.engine.requests.launch_specs import LaunchSpecs
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.sweeps import controller
from springtide.scheduler.executors.base import CheckpointGoneError, Executor, ExecutorError, SavedCheckpoint
from springtide.scheduler.population import Member
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import Copied, JobRecord

T = TypeVar("T")
logger = logging.getLogger(__name__)
FIRST_DELAY = 1.0
"""Delay before a generation is tried again after the store did not answer, in seconds; doubled each time."""
MAX_DELAY = 60.0
"""Maximum delay before a generation is tried again, in seconds."""


class _GoneError(Exception):
    """Members have no checkpoint any more; ``members`` are their numbers."""

    def __init__(self, members: Collection[int]) -> None:
        super().__init__(members)
        self.members = frozenset(members)


class _StuckError(Exception):
    """A generation cannot begin until a person has looked; the message says why, in sentences."""


@dataclass(frozen=True, slots=True)
class _Next:
    """The generation that follows an ended one.

    ``sweep`` is the sweep as it was decided from, ``ended`` the trials of the ended generation by member,
    ``begins`` the ids of the trials that are to begin. ``gone`` are members without a value, since their
    checkpoints are not there any more.
    """

    sweep: JobRecord
    ended: tuple[JobRecord, ...]
    members: tuple[Member, ...]
    begins: tuple[str, ...]
    gone: frozenset[int] = frozenset()


class Populations:
    """Begins the generations of populations. ``request`` commits a change, as `Mailbox.request` does."""

    def __init__(
        self,
        executor: Executor,
        state: State,
        store: StoreThreads,
        *,
        launch_specs: LaunchSpecs,
        request: Callable[[Callable[[Transaction], bool]], Awaitable[bool]],
        copies: Copies,
        jitter: Jitter,
    ) -> None:
        self._executor = executor
        self._state = state
        self._threads = store
        self._launch_specs = launch_specs
        self._request = request
        self._copies = copies
        self._jitter = jitter
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def idle(self) -> bool:
        """Whether no generation is being prepared."""
        return not self._tasks

    async def finished(self) -> None:
        """Wait until no generation is being prepared."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def stop(self) -> None:
        """Stop. A generation that was not committed is decided and copied again after the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def follow(self, jobs: Iterable[JobRecord]) -> None:
        """Begin the next generation of the sweeps among these jobs that wait for one."""
        for job in jobs:
            if job.id not in self._tasks and controller.awaits_generation(job):
                task = asyncio.get_running_loop().create_task(self._follow(job.id), name=f"population {job.id}")
                self._tasks[job.id] = task

    def take_over(self, jobs: Iterable[JobRecord]) -> None:
        """Do what an earlier service has left undone for the sweeps among these jobs."""
        for job in jobs:
            generation = None if job.standing.sweep is None else job.standing.sweep.generation
            if generation is not None and generation.number > 1:
                task = asyncio.get_running_loop().create_task(self._take_over(job), name=f"population {job.id}")
                self._tasks[job.id] = task
        self.follow(jobs)

    async def _take_over(self, sweep: JobRecord) -> None:
        try:
            await self._tidy(sweep)
        except Exception:  # an executor may raise anything, and the next generation must begin
            logger.exception("The old checkpoints of %s are not deleted.", sweep.id)
        await self._follow(sweep.id)

    async def _follow(self, sweep_id: str) -> None:
        """Begin the next generation, repeatedly until the store answers."""
        backoff = Backoff(FIRST_DELAY, MAX_DELAY, jitter=self._jitter)
        try:
            while (sweep := self._state.jobs.get(sweep_id)) is not None and controller.awaits_generation(sweep):
                try:
                    await self._begin_next(sweep)
                except (StoreError, Refusal) as error:
                    logger.warning("The next generation of %s could not begin yet: %s", sweep_id, error)
                except Exception:  # an executor may raise anything, and the engine must keep running
                    logger.exception("The next generation of %s could not begin.", sweep_id)
                else:
                    continue
                await asyncio.sleep(backoff.next_delay())
        finally:
            del self._tasks[sweep_id]

    async def _begin_next(self, sweep: JobRecord) -> None:
        """Decide the next generation, copy its checkpoints, have it begin, and delete unneeded copies."""
        following = await self._decide(sweep)
        self._copies.hold(following.begins)
        try:
            began = await self._begin(following)
        except Exception:
            await self._copies.settle_held(following.begins)
            raise
        await self._copies.settle_held(following.begins)
        if began:
            await self._delete_checkpoints(sweep, following.ended)

    async def _begin(self, following: _Next) -> bool:
        """Copy the checkpoints of a generation and have it begin; return whether it has."""
        sweep = following.sweep
        try:
            following, copied = await self._copy_present(following)
        except _StuckError as error:
            why = str(error)
            await self._request(lambda transaction: pause_itself(transaction, sweep, why))
            return False
        members, gone = following.members, len(following.gone)
        began = await self._request(lambda transaction: begin(transaction, sweep, members, copied, gone))
        return began and bool(members)

    async def _copy_present(self, following: _Next) -> tuple[_Next, tuple[Copied, ...]]:
        """Copy the checkpoints of a generation, decided anew without the members whose own are gone.

        Raises `_StuckError`.
        """
        while following.members:
            try:
                return following, await self._copy_all(following)
            except _GoneError as error:
                gone = following.gone | error.members
                names = ", ".join(following.ended[member].id for member in sorted(error.members))
                logger.warning("No member continues from %s: their checkpoints are gone.", names)
                members = controller.decide(following.sweep, following.ended, gone)
                following = replace(following, members=members, gone=gone)
        return following, ()

    async def _decide(self, sweep: JobRecord) -> _Next:
        standing = sweep.standing.sweep
        assert standing is not None
        assert standing.generation is not None
        size = len(standing.generation.members)
        first = standing.begun - size
        ids = [controller.trial_id(sweep.id, first + member, 1) for member in range(size)]
        ended = await self._threads.read(reading.jobs_by_id, ids)
        if [trial.id for trial in ended] != ids:
            raise StoreError(f"Not all trials of the population {sweep.id} are in the store.")
        begins = tuple(controller.trial_id(sweep.id, standing.begun + member, 1) for member in range(size))
        return _Next(sweep, tuple(ended), controller.decide(sweep, ended), begins)

    # ---------- checkpoints

    async def _copy_all(self, following: _Next) -> tuple[Copied, ...]:
        """Copy the checkpoint of each member's source to the trial that is to begin.

        Raises `_GoneError` for sources without one, and `_StuckError`.
        """
        sources = sorted({member.source for member in following.members if member.source is not None})
        newest = await _all(self._newest(following.ended[source]) for source in sources)
        found = {source: own for source, own in zip(sources, newest, strict=True) if own is not None}
        if len(found) < len(sources):
            raise _GoneError(set(sources) - set(found))
        specs = self._specs(following)
        await _all(
            self._copy(following.ended[member.source], found[member.source], spec, member.source)
            for member, spec in zip(following.members, specs, strict=True)
            if member.source is not None
        )
        chosen = [found[member.source] for member in following.members if member.source is not None]
        return tuple(Copied(checkpoint.step, checkpoint.written) for checkpoint in chosen)

    def _specs(self, following: _Next) -> list[JobRecord]:
        """Return the trials that are to begin, as they will be."""
        sweep = following.sweep
        standing = sweep.standing.sweep
        assert standing is not None
        after = sweep.with_standing(sweep=controller.with_generation(standing, following.members, ()))
        numbers = range(standing.begun, standing.begun + len(following.members))
        made = [controller.make_trial(after, number, 1, None, sweep.spec.submitted) for number in numbers]
        return [JobRecord(spec) for spec in made]

    async def _newest(self, trial: JobRecord) -> SavedCheckpoint | None:
        """Return the checkpoint with which a trial ended, None if it is gone. Raises `_StuckError`."""
        try:
            found = await self._executor.list_checkpoints(self._launch_specs.preview(trial, ()))
        except (ExecutorError, OSError) as error:
            raise _StuckError(_in_words(error)) from error
        return next((each for each in found if each.own), None)

    async def _copy(self, source: JobRecord, checkpoint: SavedCheckpoint, trial: JobRecord, member: int) -> None:
        """Copy the checkpoint of a member to a trial, in place of what an earlier try left there.

        Raises `_GoneError` and `_StuckError`.
        """
        preview = self._launch_specs.preview
        try:
            await self._executor.remove(trial.id)
            await self._executor.copy_checkpoint(preview(source, ()), checkpoint.name, preview(trial, ()))
        except CheckpointGoneError as error:
            raise _GoneError({member}) from error
        except (ExecutorError, OSError) as error:
            raise _StuckError(_in_words(error)) from error

    async def _delete_checkpoints(self, sweep: JobRecord, ended: Sequence[JobRecord]) -> None:
        """Delete the checkpoints of ended trials, and of a best one that is no longer, but not the best one's."""
        standing = sweep.standing.sweep
        assert standing is not None
        assert standing.generation is not None
        best, kept = standing.best, standing.generation.kept
        earlier = [] if kept is None else await self._threads.read(reading.jobs_by_id, [kept])
        for trial in (*ended, *earlier):
            if best is None or trial.id != best.job:
                await self._delete_of(trial)

    async def _tidy(self, sweep: JobRecord) -> None:
        """Delete the checkpoints of the generation before the present one, which an earlier service left."""
        standing = sweep.standing.sweep
        assert standing is not None
        assert standing.generation is not None
        size = len(standing.generation.members)
        first = (standing.generation.number - 2) * size
        ids = [controller.trial_id(sweep.id, first + member, 1) for member in range(size)]
        await self._delete_checkpoints(sweep, await self._threads.read(reading.jobs_by_id, ids))

    async def _delete_of(self, trial: JobRecord) -> None:
        spec = self._launch_specs.preview(trial, ())
        try:
            found = await self._executor.list_checkpoints(spec)
            await self._executor.delete_checkpoints(spec, {each.name for each in found if each.own})
        except (ExecutorError, OSError) as error:
            logger.warning("The checkpoints of %s could not be deleted: %s", trial.id, error)


async def _all(awaited: Iterable[Awaitable[T]]) -> list[T]:
    """Return all results once nothing of them runs any more. Raises the first error."""
    results = await asyncio.gather(*awaited, return_exceptions=True)
    failed = [each for each in results if isinstance(each, BaseException)]
    if failed:
        raise failed[0]
    return [each for each in results if not isinstance(each, BaseException)]


def _in_words(error: Exception) -> str:
    return f"{error.strerror or error}." if isinstance(error, OSError) else str(error)


def begin(
    transaction: Transaction, decided: JobRecord, members: Sequence[Member], copied: Sequence[Copied], gone: int
) -> bool:
    """Begin the generation that was decided from a sweep; return whether the sweep still waited for it.

    ``gone`` is the number of members whose checkpoints are not there any more.
    """
    sweep = _still(transaction, decided)
    if sweep is None:
        return False
    standing = sweep.standing.sweep
    assert standing is not None
    following = controller.with_generation(standing, tuple(members), tuple(copied), gone)
    transaction.put_job(sweep.with_standing(sweep=following))
    return True


def pause_itself(transaction: Transaction, decided: JobRecord, detail: str) -> bool:
    """Pause a sweep whose next generation cannot begin; return whether it still waited for that."""
    sweep = _still(transaction, decided)
    if sweep is None:
        return False
    generation = sweep.standing.sweep and sweep.standing.sweep.generation
    assert generation is not None
    why = messages.population_stuck(generation.number + 1, detail)
    transaction.put_job(sweep.with_standing(held=True, by="", reason=why))
    return True


def _still(transaction: Transaction, decided: JobRecord) -> JobRecord | None:
    """Return the sweep if its generation is the one that was decided from and it has not been cancelled."""
    sweep, before = transaction.job(decided.id), decided.standing.sweep
    if sweep is None or sweep.state.final or sweep.standing.stopping or before is None:
        return None
    present = sweep.standing.sweep
    return sweep if present is not None and present.generation == before.generation else None
