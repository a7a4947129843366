"""Carrying out what was committed: in order for each attempt, side by side for different ones, until it works."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from springtide.scheduler.engine.lifecycle import Act, Do
from springtide.scheduler.engine.settings import Stats
from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptSpec,
    AttemptStatus,
    Executor,
    ExecutorError,
    Exit,
    ExitKind,
    StaleEpochError,
)
from springtide.scheduler.store import StoreError

logger = logging.getLogger(__name__)

FIRST_WAIT = 0.2
LONGEST_WAIT = 30.0
LAUNCHES = 10
"""Times that a launch is tried before the attempt has failed."""

MakeSpec = Callable[[AttemptKey], Awaitable[AttemptSpec | None]]


class Acts:
    """Runs acts. A failed one is repeated with growing pauses; a launch that failed gives way to a later kill.

    A launch that never works is given up after `LAUNCHES` tries: the attempt could not be started.

    ``make_spec`` gives what to launch, None if the attempt is not wanted any more. ``observe`` hears of attempts
    that turned out never to have started, ``trouble`` of launches that do not work, ``stale`` that the executor
    obeys another owner.
    """

    def __init__(
        self,
        executor: Executor,
        make_spec: MakeSpec,
        *,
        observe: Callable[[AttemptStatus], None],
        trouble: Callable[[AttemptKey, str], None],
        stale: Callable[[str], None],
        stats: Stats,
        clock: Callable[[], float],
    ) -> None:
        self._executor = executor
        self._make_spec = make_spec
        self._observe = observe
        self._trouble = trouble
        self._stale = stale
        self._stats = stats
        self._clock = clock
        self._queues: dict[AttemptKey, deque[Act]] = {}
        self._more: dict[AttemptKey, asyncio.Event] = {}
        self._tasks: dict[AttemptKey, asyncio.Task[None]] = {}

    def do(self, act: Do) -> None:
        """Carry an act out, after those of the same attempt."""
        key = AttemptKey(act.job, act.attempt)
        self._queues.setdefault(key, deque()).append(act.act)
        self._more.setdefault(key, asyncio.Event()).set()
        if key not in self._tasks:
            self._tasks[key] = asyncio.get_running_loop().create_task(self._run(key), name=f"acts of {key}")

    async def stop(self) -> None:
        """Leave the rest undone; it is done after the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: AttemptKey) -> None:
        queue = self._queues[key]
        never_started = False
        try:
            while queue:
                act = queue.popleft()
                self._more[key].clear()
                done = await self._until_done(key, act)
                if act is Act.LAUNCH and not done:
                    never_started = True
                elif never_started and act in {Act.PAUSE, Act.KILL}:
                    await self._confirm_absence(key)
        except StaleEpochError as error:
            self._stale(str(error))
        finally:
            del self._queues[key], self._more[key], self._tasks[key]

    async def _until_done(self, key: AttemptKey, act: Act) -> bool:
        wait, failed, said = FIRST_WAIT, 0, ""
        while True:
            try:
                if act is Act.LAUNCH and failed >= LAUNCHES:
                    return await self._give_up(key, failed, said)
                return await self._once(key, act)
            except StaleEpochError:
                raise
            except StoreError as error:
                self._refuse(key, str(error))
                return False
            except Exception as error:  # whatever an executor raises must not end the engine
                self._stats.act_errors += 1
                failed += 1
                known = isinstance(error, ExecutorError)
                logger.warning("%s of %s failed: %s", act, key, error, exc_info=None if known else error)
                said = str(error) if known else "The executor failed."
                if act is Act.LAUNCH:
                    self._trouble(key, said)
            if await self._superseded(key, wait) and act in {Act.LAUNCH, Act.PAUSE}:
                return False
            wait = min(LONGEST_WAIT, wait * 2)

    async def _give_up(self, key: AttemptKey, tries: int, said: str) -> bool:
        """Let the attempt be over, unless one of the launches worked after all; whether it did."""
        if key in {status.key for status in await self._executor.attempts()}:
            return True
        self._refuse(key, f"It was tried {tries} times. {said}")
        return False

    async def _superseded(self, key: AttemptKey, wait: float) -> bool:
        try:
            async with asyncio.timeout(wait):
                await self._more[key].wait()
        except TimeoutError:
            return False
        return True

    async def _once(self, key: AttemptKey, act: Act) -> bool:
        match act:
            case Act.LAUNCH:
                spec = await self._make_spec(key)
                if spec is None:
                    return False
                await self._executor.launch(spec)
            case Act.PAUSE:
                await self._executor.pause(key)
            case Act.KILL:
                await self._executor.kill(key)
            case Act.DISCARD:
                await self._executor.discard(key)
        return True

    async def _confirm_absence(self, key: AttemptKey) -> None:
        """It was told to stop before a launch worked: if the executor knows nothing of it, it is over."""
        known = {status.key for status in await self._executor.attempts()}
        if key not in known:
            self._observe(never_started(key, self._clock(), "It was stopped before it could be started."))

    def _refuse(self, key: AttemptKey, detail: str) -> None:
        self._observe(never_started(key, self._clock(), detail))


def never_started(key: AttemptKey, at: float, detail: str) -> AttemptStatus:
    """An attempt that ended without ever having run."""
    return AttemptStatus(key, AttemptPhase.GONE, exit=Exit(ExitKind.REFUSED, at, detail=detail))
