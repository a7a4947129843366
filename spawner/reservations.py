"""Reservations of build GPUs with retries: for each notebook only the newest request is carried out."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from springtide.scheduler.client import PoolError, Unreachable
from springtide.scheduler.wire import BuildQuota, Workspace, WorkspaceRequest

Notebook: TypeAlias = tuple[str, str]
"""A user's name and the name of the user's server, which is empty for the default server."""

Result = TypeVar("Result")

FIRST_DELAY = 0.2
LONGEST_DELAY = 5.0
TEMPORARY = frozenset({429, 502, 503, 504})
"""Status codes of temporary failures, after which a request is repeated."""


class Pool(Protocol):
    """The calls of `springtide.scheduler.client.Client` that a hub needs."""

    def reserve_workspace(self, request: WorkspaceRequest) -> Workspace:
        """Reserve GPUs for a notebook."""
        ...

    def release_workspace(self, user: str, server: str) -> None:
        """Release the GPUs of a notebook."""
        ...

    def build_quota(self, user: str) -> BuildQuota:
        """Return a user's build quota and its use."""
        ...


class Superseded(Exception):  # noqa: N818 - nothing went wrong
    """A newer request for the same notebook has replaced this one."""


class Reservations:
    """Reservations of one hub."""

    def __init__(self, pool: Pool, log: logging.Logger | logging.LoggerAdapter[Any]) -> None:
        self._pool = pool
        self._log = log
        self._newest: dict[Notebook, object] = {}
        self._locks: defaultdict[Notebook, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks: set[asyncio.Task[object]] = set()

    async def reserve(
        self,
        notebook: Notebook,
        gpus: int,
        *,
        gpu_type: str = "",
        runs_on: Sequence[str] = (),
        waits: Callable[[], None],
    ) -> Workspace:
        """Reserve GPUs of a type, or return the existing reservation. Waits while the service does not answer.

        ``runs_on`` are the GPU UUIDs of a notebook that already runs. Calls ``waits`` after each failed attempt.
        Raises `PoolError` if the service refuses, and `Superseded` if a newer request replaces this one. A
        cancellation ends the wait, but not a request in progress, which a later `release` undoes.
        """
        request = WorkspaceRequest(
            user=notebook[0], server=notebook[1], gpus=gpus, gpu_type=gpu_type, runs_on=list(runs_on)
        )
        return await self._carry_out(notebook, lambda: self._pool.reserve_workspace(request), waits)

    async def release(self, notebook: Notebook, *, patience: float) -> None:
        """Release the GPUs of a notebook; it is no error if there are none.

        Returns when the GPUs are released, or after ``patience`` seconds if the service does not answer: then the
        release continues in the background until it succeeds or the notebook is started again.
        """
        done = self._in_background(self._release(notebook))
        finished, _ = await asyncio.wait([done], timeout=patience)
        if not finished:
            self._log.warning("Springtide is away; the GPUs of %r are released when it is back", notebook)

    async def quota(self, user: str) -> BuildQuota:
        """Return the user's build quota and its use. Raises `PoolError` or `Unreachable` without retries."""
        return await asyncio.to_thread(self._pool.build_quota, user)

    async def _release(self, notebook: Notebook) -> None:
        try:
            await self._carry_out(notebook, lambda: self._pool.release_workspace(*notebook), lambda: None)
        except Superseded:
            self._log.debug("%r was started again before its GPUs were released", notebook)
        except PoolError as error:
            self._log.error("Springtide does not release the GPUs of %r: %s", notebook, error)

    async def _carry_out(
        self, notebook: Notebook, call: Callable[[], Result], waits: Callable[[], None]
    ) -> Result:
        wish = self._newest[notebook] = object()
        delay = FIRST_DELAY
        while True:
            try:
                return await asyncio.shield(self._in_background(self._once(notebook, wish, call)))
            except Unreachable:
                waits()
            except PoolError as error:
                if error.status not in TEMPORARY:
                    raise
                waits()
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_DELAY)

    async def _once(self, notebook: Notebook, wish: object, call: Callable[[], Result]) -> Result:
        async with self._locks[notebook]:
            if self._newest[notebook] is not wish:
                raise Superseded
            return await asyncio.to_thread(call)

    def _in_background(self, work: Coroutine[object, object, Result]) -> asyncio.Task[Result]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.debug("A reservation task failed: %r", error)
