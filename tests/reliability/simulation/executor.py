"""An executor over a simulated world, whose requests and observations may be slow, lost or repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, NoReturn

from simulation.faults import CrashPoints, Faults
from simulation.virtual_time import CrashedError
from simulation.world import World

from springtide.scheduler.executors.base import (
    NO_WORKSPACES,
    AttemptKey,
    AttemptSpec,
    AttemptStatus,
    Executor,
    LogPiece,
    Observation,
    OutputFile,
    Report,
    StaleEpochError,
    WorkspacePlaces,
)
from springtide.scheduler.model import Node
from springtide.scheduler.own_outputs import OwnOutputs

APART = 1e-6
"""Least time between two observations of one attempt, in seconds: they arrive in order."""


class SimulatedExecutor(Executor):
    """One service's connection to the world. After `cut` nothing passes in either direction any more.

    Statuses of one attempt arrive in order, those of different attempts in any order.
    """

    name = "simulated"

    def __init__(self, world: World, faults: Faults, points: CrashPoints) -> None:
        self._world = world
        self._faults = faults
        self._points = points
        self._listener: Callable[[Observation], None] | None = None
        self._arrival: dict[object, float] = {}
        self._epoch = 0
        self._alive = True

    def cut(self) -> None:
        """End the connection, as the death of the service does."""
        self._alive = False
        if self._passed in self._world.listeners:
            self._world.listeners.remove(self._passed)

    # ---------- start and stop

    async def start(self, listener: Callable[[Observation], None]) -> None:
        self._listener = listener
        self._world.listeners.append(self._passed)
        for attempt in self._world.attempts.values():
            if attempt.reported is not None:
                listener(attempt.reported)

    async def stop(self) -> None:
        self.cut()

    async def newest_epoch(self) -> int:
        return self._world.epoch

    async def take_over(self, epoch: int) -> None:
        self._world.epoch = max(self._world.epoch, epoch)

    async def inventory(self, workspaces: WorkspacePlaces = NO_WORKSPACES) -> tuple[Node, ...]:  # noqa: ARG002
        await self._travel()
        self._faults.lose_answer()
        return self._world.nodes

    async def attempts(self) -> tuple[AttemptStatus, ...]:
        await self._travel()
        return tuple(self._world.present(attempt.status) for attempt in self._world.attempts.values())

    # ---------- requests

    async def launch(self, spec: AttemptSpec) -> None:
        if spec.epoch < self._world.epoch:
            raise StaleEpochError(f"Epoch {spec.epoch} is older than {self._world.epoch}.")
        self._epoch = self._world.epoch = spec.epoch
        await self._request(partial(self._world.launch, spec))

    async def pause(self, key: AttemptKey) -> None:
        await self._request(partial(self._world.pause, key))

    async def kill(self, key: AttemptKey, *, now: bool = False) -> None:
        await self._request(partial(self._world.kill, key, now=now))

    async def discard(self, key: AttemptKey) -> None:
        await self._request(partial(self._world.discard, key))

    async def recall(self, key: AttemptKey) -> AttemptStatus | None:
        await self._travel()
        known = self._world.recall(key)
        return None if known is None else self._world.present(known)

    async def remove(self, job: str) -> None:
        await self._request(partial(self._world.removed.add, job))

    async def _request(self, act: Callable[[], None]) -> None:
        number = self._points.count("action")
        await self._reach(number, after=False)
        await self._travel()
        self._faults.lose_request()
        act()
        if self._faults.repeat():
            self._world.loop.call_later(self._faults.latency(), act)
        await self._reach(number, after=True)
        await self._travel()
        self._faults.lose_answer()

    async def _reach(self, number: int, *, after: bool) -> None:
        try:
            self._points.reach("action", number, after=after)
        except CrashedError:
            await _forever()

    async def _travel(self) -> None:
        if not self._alive:
            await _forever()
        delay = self._faults.latency()
        if delay:
            await asyncio.sleep(delay)
        if not self._alive:
            await _forever()

    # ---------- observations

    def _passed(self, observation: Observation) -> None:
        self._deliver_later(observation)
        if self._faults.repeat():
            self._deliver_later(observation)

    def _deliver_later(self, observation: Observation) -> None:
        loop, about = self._world.loop, getattr(observation, "key", None)
        at = max(loop.time() + self._faults.latency(), self._arrival.get(about, 0.0) + APART)
        self._arrival[about] = at
        loop.call_at(at, self._deliver, observation)

    def _deliver(self, observation: Observation) -> None:
        if self._alive and self._listener is not None:
            if isinstance(observation, AttemptStatus):
                observation = self._world.present(observation)
            self._listener(observation)

    # ---------- files, of which the simulated programs have none

    async def read_log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:  # noqa: ARG002
        return LogPiece(b"", 0, 0, 1)

    async def read_reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:  # noqa: ARG002
        return ()

    async def list_outputs(
        self,
        job: str,  # noqa: ARG002
        most: int,  # noqa: ARG002
        own: OwnOutputs | None = None,  # noqa: ARG002
    ) -> tuple[OutputFile, ...]:
        return ()

    async def open_output(
        self,
        job: str,  # noqa: ARG002
        name: str,  # noqa: ARG002
        limit: int,  # noqa: ARG002
        own: OwnOutputs | None = None,  # noqa: ARG002
    ) -> BinaryIO | None:
        return None


async def _forever() -> NoReturn:
    """Wait for the end of the crashed service."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError
