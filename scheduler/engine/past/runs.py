"""Calculations of what would have been: one process at a time, one question of each person, with their answers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.engine.past.headline import deviation, headline
from springtide.scheduler.engine.past.jobs import BUDGETS
from springtide.scheduler.engine.worker_environment import environment_of_worker
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.simulate.what_if import RecordedJob
from springtide.scheduler.what_if_worker import PastProgress, PastQuestion
from springtide.scheduler.wire.past import PastOutcome

logger = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "springtide.scheduler.what_if_worker")
LONGEST = 900.0
"""Seconds after which a calculation is given up."""
MOST_LINE = 64 * 1024 * 1024
"""Maximum size of a line of the process, in bytes."""
KEPT = 64
"""Number of answers, and of unchanged outcomes, that are kept."""
MOST_PEOPLE = 1_000
"""Number of people whose latest calculation is kept."""
FAILED = "The calculation failed; the log of the service says how."
TOO_LONG = "The calculation took longer than 15 minutes. Ask about a shorter time."


@dataclass(frozen=True, slots=True)
class Prepared:
    """A span of the past to calculate with: its ``scenario`` as JSON, its records, and what to say of it."""

    start: float
    end: float
    scenario: bytes
    recorded: list[RecordedJob]
    notes: tuple[str, ...]
    currency: str
    simulated: bool


Prepare: TypeAlias = Callable[[], Awaitable[Prepared]]
"""Reads a span of the past; raises `Refusal` if nothing was recorded in it."""


@dataclass(slots=True)
class _Run:
    """A calculation of a person. ``known`` are the projects with figures of their own, None for all."""

    id: str
    question: wire.PastWhatIf
    known: tuple[str, ...] | None
    prepare: Prepare
    notes: tuple[str, ...] = ()
    state: str = "waiting"
    progress: float = 0.0
    why: str = ""
    comparison: wire.PastComparison | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def view(self) -> wire.PastRun:
        """The calculation as its person sees it."""
        return wire.PastRun(
            id=self.id,
            state=self.state,
            progress=self.progress,
            question=self.question,
            why=self.why,
            comparison=self.comparison,
        )

    def end(self, answer: wire.PastComparison) -> None:
        """Take the answer, with the notes about this question."""
        caveats = [note for note in answer.notes if note == BUDGETS]
        self.comparison = structs.replace(answer, notes=[*self.notes, *answer.notes], caveats=caveats)
        self.state, self.progress = "done", 1.0

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state not in {"waiting", "running"}


class PastRuns:
    """Calculates in processes, one at a time; a person's next question ends the one before."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._turn = asyncio.Lock()
        self._runs: LruCache[str, _Run] = LruCache(MOST_PEOPLE)
        self._answers: LruCache[str, wire.PastComparison] = LruCache(KEPT)
        self._unchanged: LruCache[str, PastOutcome] = LruCache(KEPT)
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self,
        person: str,
        question: wire.PastWhatIf,
        known: Sequence[str] | None,
        prepare: Prepare,
        prepared: Prepared | None = None,
        *,
        notes: Sequence[str] = (),
    ) -> wire.PastRun:
        """Begin a calculation for a person, or return the answer if it is known; ``prepared`` if the past is.

        ``notes`` are said of this question alone, before those of the past.
        """
        self.cancel(person)
        own = None if known is None else tuple(known)
        run = _Run(secrets.token_hex(8), question, own, prepare, tuple(notes))
        self._runs.put(person, run)
        if prepared is not None and self._is_answered(run, prepared):
            return run.view
        run.task = asyncio.get_running_loop().create_task(self._calculate(run))
        self._tasks.add(run.task)
        run.task.add_done_callback(self._tasks.discard)
        return run.view

    def of(self, person: str, run_id: str) -> wire.PastRun:
        """Return a person's latest calculation. Raises `Refusal` 404 for another."""
        return self._known(person, run_id).view

    def end(self, person: str, run_id: str) -> wire.PastRun:
        """Cancel a person's latest calculation, unless it has ended. Raises `Refusal` 404 for another."""
        run = self._known(person, run_id)
        self.cancel(person)
        return run.view

    def cancel(self, person: str) -> None:
        """Cancel the calculation for a person."""
        run = self._runs.get(person)
        if run is not None and not run.over:
            run.state = "cancelled"
            if run.task is not None:
                run.task.cancel()

    async def stop(self) -> None:
        """Cancel all calculations."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _known(self, person: str, run_id: str) -> _Run:
        run = self._runs.get(person)
        if run is None or run.id != run_id:
            raise Refusal(
                404,
                "unknown_calculation",
                "There is no such calculation of yours.",
                hint="Only the latest one is kept; ask again.",
            )
        return run

    async def _calculate(self, run: _Run) -> None:
        try:
            async with self._turn, asyncio.timeout(LONGEST):
                run.state = "running"
                await self._ask(run)
        except Refusal as refusal:
            run.state, run.why = "failed", f"{refusal.message} {refusal.hint}".strip()
        except TimeoutError:
            run.state, run.why = "failed", TOO_LONG
        except asyncio.CancelledError:
            run.state = "cancelled"
            raise
        except Exception:
            logger.exception("What would have been could not be calculated.")
            run.state, run.why = "failed", FAILED

    def _is_answered(self, run: _Run, prepared: Prepared) -> bool:
        """Return whether the answer is known, which the calculation then has."""
        answer = self._answers.get(_key(run, prepared, run.question.changes))
        if answer is not None:
            run.end(answer)
        return answer is not None

    async def _ask(self, run: _Run) -> None:
        prepared = await run.prepare()
        if self._is_answered(run, prepared):
            return
        baseline = _key(run, prepared)
        unchanged = self._unchanged.get(baseline)
        known = None if run.known is None else list(run.known)
        question = PastQuestion(prepared.scenario, run.question.changes, prepared.recorded, known, unchanged)
        last = await self._answer(msgspec.msgpack.encode(question), run)
        if last.impossible:
            run.state, run.why = "failed", last.impossible
            return
        if last.recorded is None or last.unchanged is None or last.changed is None:
            raise EOFError("the process ended without an answer")
        self._unchanged.put(baseline, last.unchanged)
        comparison = wire.PastComparison(
            start=prepared.start,
            end=prepared.end,
            headline=headline(last.unchanged, last.changed),
            difference=last.difference,
            recorded=last.recorded,
            unchanged=last.unchanged,
            changed=last.changed,
            notes=list(prepared.notes),
            deviation=deviation(last.recorded, last.unchanged),
            currency=prepared.currency,
            simulated=prepared.simulated,
        )
        self._answers.put(_key(run, prepared, run.question.changes), comparison)
        run.end(comparison)

    async def _answer(self, question: bytes, run: _Run) -> PastProgress:
        """Return the last line of the process; the ones before are its progress."""
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, env=environment_of_worker(), limit=MOST_LINE
        )
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(question)
            await process.stdin.drain()
            process.stdin.close()
            last = PastProgress(0.0)
            async for line in process.stdout:
                last = msgspec.json.decode(line, type=PastProgress)
                run.progress = last.progress
            return last
        finally:
            await _end(process)


async def _end(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    await process.wait()


def _key(run: _Run, prepared: Prepared, changes: wire.PastChanges | None = None) -> str:
    """Return what identifies the unchanged outcome of a calculation, or with ``changes`` its answer."""
    digest = hashlib.sha256(prepared.scenario)
    digest.update(msgspec.json.encode((run.known, changes)))
    return digest.hexdigest()
