"""An event loop on virtual time: nothing waits, no thread runs, and the same program runs in the same order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
Latency = Callable[[], float]


class CrashedError(BaseException):
    """The simulated service has crashed: no later statement runs, and no caller gets an answer."""


class StalledError(Exception):
    """The program has not ended, and nothing is left that could happen, or not before its time is up."""


MAX_TIME = 2_000.0
"""Time after which a program that has not ended never will, in seconds."""
MAX_ROUNDS = 5_000
"""Number of rounds of the loop after which a program in which no time passes never ends."""


class _Selector(selectors.BaseSelector):
    """Lets the time of its loop pass instead of waiting; no file is ever ready."""

    def __init__(self) -> None:
        self.loop: VirtualLoop
        self._keys: dict[Any, selectors.SelectorKey] = {}
        self._rounds = 0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(
            fileobj, fileobj if isinstance(fileobj, int) else fileobj.fileno(), events, data
        )
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[Any]:
        self._rounds = 0 if timeout else self._rounds + 1
        if timeout is None or self.loop.now > self.loop.until or self._rounds > MAX_ROUNDS:
            raise StalledError
        self.loop.now += timeout
        return []

    def get_map(self) -> Any:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time, ``now`` in seconds, passes only while it would wait, and never beyond ``until``.

    Work for threads runs in the loop, after ``latency`` seconds, and its result arrives after ``latency`` seconds
    more. Work for one thread runs in the order in which it was asked for. `begun` lists all tasks, oldest first.
    """

    def __init__(self, latency: Latency = lambda: 0.0, until: float = MAX_TIME) -> None:
        self.now = 0.0
        self.until = until
        self.latency = latency
        self._free_at: dict[int, float] = {}
        self._begun: list[asyncio.Task[Any]] = []
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        self.set_task_factory(self._begin)  # type: ignore[arg-type]

    def time(self) -> float:
        return self.now

    def begun(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have not ended, oldest first."""
        self._begun = [task for task in self._begun if not task.done()]
        return self._begun

    def _begin(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], **more: Any
    ) -> asyncio.Task[T]:
        task = asyncio.Task(work, loop=loop, **more)
        if len(self._begun) > 200:
            self.begun()
        self._begun.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run ``func`` in this thread, later."""
        result: asyncio.Future[T] = self.create_future()
        at = self.now + self.latency()
        if isinstance(executor, ThreadPoolExecutor) and executor._max_workers == 1:
            at = self._free_at[id(executor)] = max(at, self._free_at.get(id(executor), 0.0))
        self.call_at(at, self._run_work, result, func, args)
        return result

    def _run_work(self, result: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
        try:
            value = func(*args)
        except CrashedError:
            pass
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            self.call_later(self.latency(), _settle, result, error, None)
        else:
            self.call_later(self.latency(), _settle, result, None, value)


def _settle(result: asyncio.Future[T], error: Exception | None, value: Any) -> None:
    if result.done():
        return
    if error is None:
        result.set_result(value)
    else:
        result.set_exception(error)


def run(
    main: Callable[[VirtualLoop], Coroutine[Any, Any, T]],
    latency: Latency = lambda: 0.0,
    until: float = MAX_TIME,
) -> T:
    """Run a program on a loop of its own. Raises `StalledError` if it waits for something that cannot happen."""
    loop = VirtualLoop(latency, until)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main(loop))
    finally:
        loop.now = 0.0
        for task in list(loop.begun()):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        asyncio.set_event_loop(None)
        loop.close()
