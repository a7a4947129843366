"""Effects of committed decisions on the executor: in order for each attempt, concurrently for different ones."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from springtide.scheduler.backoff import Backoff, Jitter
from springtide.scheduler.engine.loop.mailbox import EngineObservation, LaunchFailed, OwnershipLost, StopTried
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.engine.state.lifecycle import Action, Effect
from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptSpec,
    AttemptStatus,
    BlockedError,
    Executor,
    ExecutorError,
    StaleEpochError,
    exit_of,
)
from springtide.scheduler.model import Block, BlockScope
from springtide.scheduler.store import StoreError

logger = logging.getLogger(__name__)
FIRST_DELAY = 0.2
"""Delay before a failed effect is tried again, in seconds; doubled after each further failure."""
MAX_DELAY = 30.0
"""Maximum delay before a failed effect is tried again, in seconds."""
MAX_LAUNCHES = 10
"""Number of failed launches after which an attempt is given up."""
REPLACED = frozenset({Action.LAUNCH, Action.PAUSE, Action.KILL})
"""Actions that a later one of the same attempt replaces while they fail."""
STOPS = frozenset({Action.PAUSE, Action.KILL, Action.KILL_NOW})
"""Actions that ask for the end of an attempt."""


@dataclass(order=True, slots=True)
class Ticket:
    """A waiting launch: those that borrow nothing come first, then the older. ``admitted`` signals its turn."""

    borrows: bool
    number: int
    admitted: asyncio.Future[bool] = field(compare=False)


class LaunchGate:
    """Admits at most ``places`` launches at a time, in the order of their tickets."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._number = 0
        self._waiting: list[Ticket] = []

    def request(self, *, borrows: bool) -> Ticket:
        """Return a ticket: its ``admitted`` becomes true when the launch may begin. Call `leave` after that."""
        self._number += 1
        ticket = Ticket(borrows, self._number, asyncio.get_running_loop().create_future())
        heapq.heappush(self._waiting, ticket)
        self._admit()
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Give up a launch that waits: its ``admitted`` becomes false. One that was admitted stays so."""
        if not ticket.admitted.done():
            ticket.admitted.set_result(False)

    def leave(self) -> None:
        """Free the place of an admitted launch."""
        self._free += 1
        self._admit()

    def _admit(self) -> None:
        while self._free and self._waiting:
            ticket = heapq.heappop(self._waiting)
            if not ticket.admitted.done():
                self._free -= 1
                ticket.admitted.set_result(True)


MakeSpec = Callable[[AttemptKey], Awaitable[AttemptSpec | None]]
"""Returns what to launch, None if the attempt is no longer wanted. Raises `StoreError` if its files are gone."""


@dataclass(slots=True)
class _Queue:
    """The actions of one attempt that are still to be done; ``arrived`` is set when one is added.

    ``ticket`` is set while a launch waits for its turn.
    """

    actions: deque[Action] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    ticket: Ticket | None = None
    task: asyncio.Task[None] | None = None


class Actuator:
    """Carries out effects. A failed one is repeated with growing delays.

    A later action replaces one of `REPLACED` that fails, and a launch that has not begun. Launches begin in the
    order of a `LaunchGate`; ``borrows`` returns whether an attempt borrows GPUs.

    ``report`` receives `LaunchFailed` for each failed launch, `StopTried` for failed requests to end, an
    `AttemptStatus` for an attempt that never started, and `OwnershipLost` when the executor refuses this engine's
    epoch. ``jitter`` randomises the delays.
    """

    def __init__(
        self,
        executor: Executor,
        make_spec: MakeSpec,
        report: Callable[[EngineObservation], None],
        *,
        borrows: Callable[[AttemptKey], bool],
        stats: Stats,
        clock: Callable[[], float],
        jitter: Jitter,
    ) -> None:
        self._executor = executor
        self._make_spec = make_spec
        self._report = report
        self._borrows = borrows
        self._gate = LaunchGate(executor.concurrent_launches)
        self._stats = stats
        self._clock = clock
        self._jitter = jitter
        self._queues: dict[AttemptKey, _Queue] = {}
        self._finished = asyncio.Event()
        self._finished.set()

    def enqueue(self, effect: Effect) -> None:
        """Carry out an effect after the earlier ones of the same attempt."""
        key = AttemptKey(effect.job, effect.attempt)
        queue = self._queues.setdefault(key, _Queue())
        queue.actions.append(effect.action)
        queue.arrived.set()
        if queue.ticket is not None:
            self._gate.withdraw(queue.ticket)
        self._finished.clear()
        if queue.task is None:
            queue.task = asyncio.get_running_loop().create_task(self._run(key, queue), name=f"effects on {key}")

    @property
    def idle(self) -> bool:
        """Whether no effect is waiting or being carried out."""
        return not self._queues

    async def finished(self) -> None:
        """Wait until no effect is waiting or being carried out."""
        await self._finished.wait()

    async def stop(self) -> None:
        """Stop. An effect that was not carried out is found again as an open intent at the next start."""
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: AttemptKey, queue: _Queue) -> None:
        try:
            while queue.actions:
                action = queue.actions.popleft()
                queue.arrived.clear()
                await self._until_done(key, action, queue)
        except StaleEpochError as error:
            self._report(OwnershipLost(str(error)))
        finally:
            del self._queues[key]
            if not self._queues:
                self._finished.set()

    async def _until_done(self, key: AttemptKey, action: Action, queue: _Queue) -> None:
        """Repeat an action until it works, is given up or is replaced by a later one."""
        backoff, failures, detail = Backoff(FIRST_DELAY, MAX_DELAY, jitter=self._jitter), 0, ""
        while True:
            try:
                if action is Action.LAUNCH and failures >= MAX_LAUNCHES:
                    why = f"It was tried {failures} times. {detail}"
                    await self._report_absence(key, why, Block(BlockScope.POOL, detail))
                else:
                    await self._execute(key, action, queue)
            except StaleEpochError:
                raise
            except StoreError as error:
                self._report(never_started(key, self._clock(), str(error)))
                return
            except Exception as error:  # an executor may raise anything, and the engine must keep running
                self._stats.act_errors += 1
                failures += 1
                expected = isinstance(error, ExecutorError)
                logger.warning("%s of %s failed: %s", action, key, error, exc_info=None if expected else error)
                detail = str(error) if expected else "The executor failed."
                if action is Action.LAUNCH:
                    self._report(LaunchFailed(key, detail))
                elif action in STOPS:
                    self._report(StopTried(key, detail))
            else:
                if failures and action in STOPS:
                    self._report(StopTried(key, ""))
                return
            if await _arrives_within(queue, backoff.next_delay()) and action in REPLACED:
                return

    async def _execute(self, key: AttemptKey, action: Action, queue: _Queue) -> None:
        """Call the executor once, unless it is for a launch that is no longer wanted."""
        match action:
            case Action.LAUNCH:
                await self._launch(key, queue)
            case Action.PAUSE:
                await self._stop(key, self._executor.pause)
            case Action.KILL:
                await self._stop(key, self._executor.kill)
            case Action.KILL_NOW:
                await self._stop(key, partial(self._executor.kill, now=True))
            case Action.DISCARD:
                await self._executor.discard(key)

    async def _launch(self, key: AttemptKey, queue: _Queue) -> None:
        """Launch an attempt when it is its turn, unless another action has arrived by then."""
        if queue.actions:
            return
        queue.ticket = self._gate.request(borrows=self._borrows(key))
        admitted = False
        try:
            admitted = await queue.ticket.admitted
            queue.ticket = None
            spec = await self._make_spec(key) if admitted else None
            if spec is not None:
                await self._executor.launch(spec)
        finally:
            if admitted:
                self._gate.leave()

    async def _stop(self, key: AttemptKey, stop: Callable[[AttemptKey], Awaitable[None]]) -> None:
        """Stop an attempt; report its end if no launch of it has worked."""
        try:
            await stop(key)
        except StaleEpochError:
            raise
        except ExecutorError:
            if not await self._report_absence(key, "It was stopped before it could be started."):
                raise

    async def _report_absence(self, key: AttemptKey, detail: str, block: Block | None = None) -> bool:
        """Report that an attempt never started, unless one of its launches did work; return whether it was."""
        if key in {status.key for status in await self._executor.attempts()}:
            return False
        self._report(never_started(key, self._clock(), detail, block))
        return True


async def _arrives_within(queue: _Queue, delay: float) -> bool:
    """Wait up to ``delay`` seconds for another action; return whether there is one."""
    try:
        async with asyncio.timeout(delay):
            await queue.arrived.wait()
    except TimeoutError:
        return False
    return True


def never_started(key: AttemptKey, at: float, detail: str, block: Block | None = None) -> AttemptStatus:
    """Return the status for an attempt that ended before it ran; ``detail`` says why, in a sentence."""
    return AttemptStatus(key, AttemptPhase.GONE, exit=exit_of(BlockedError(detail, block), at))
