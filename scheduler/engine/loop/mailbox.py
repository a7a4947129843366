"""Input of the next tick: requests that wait for an answer, and observations."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from springtide.scheduler.clock import Clock, ClockAnchor
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptPhase,
    AttemptStatus,
    Exit,
    LogGrew,
    Observation,
    Reported,
)
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import Refusal

T = TypeVar("T")
MAX_REQUESTS_PER_TICK = 2_000


@dataclass(frozen=True, slots=True)
class NodesObserved:
    """The executor's inventory."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """A launch failed and is tried again; ``detail`` is a sentence for the job's user."""

    key: AttemptKey
    detail: str


@dataclass(frozen=True, slots=True)
class StopTried:
    """An attempt was asked to end: ``detail`` says why that failed and is tried again; empty if it worked."""

    key: AttemptKey
    detail: str


@dataclass(frozen=True, slots=True)
class StartChecked:
    """The executor was asked whether the next attempt of a job after ``attempt`` could start.

    ``refused`` is how it would end at once, None if it could start.
    """

    job: str
    attempt: int
    refused: Exit | None


@dataclass(frozen=True, slots=True)
class OwnershipLost:
    """The executor obeys a service with a later epoch; ``detail`` is the executor's message."""

    detail: str


EngineObservation: TypeAlias = (
    Observation | NodesObserved | LaunchFailed | StopTried | StartChecked | OwnershipLost
)
"""Reports of the executor, and of the engine's own parts about it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A change that someone waits for.

    ``apply`` changes the transaction and returns the result, or raises `Refusal`. ``future`` gets the result after
    the commit.
    """

    apply: Callable[[Transaction], Any]
    future: asyncio.Future[Any]


@dataclass(slots=True)
class Mailbox:
    """Collects requests and observations until the next tick; ``arrived`` is set while there are any.

    ``urgent`` is set while a person may wait for one: neither progress nor a start as planned, but that of an
    ``awaited`` attempt, which others made room for.
    The times of observations follow ``clock``, the system clock, when that is set while they wait.
    """

    clock: Clock
    requests: deque[Request] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    urgent: asyncio.Event = field(default_factory=asyncio.Event)
    awaited: set[AttemptKey] = field(default_factory=set)
    closed: Refusal | None = None
    _observations: deque[tuple[EngineObservation, ClockAnchor]] = field(default_factory=deque)
    _drained: ClockAnchor | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing waits for the next tick."""
        return not self.requests and not self._observations

    @property
    def observations(self) -> list[EngineObservation]:
        """The observations that wait, oldest first."""
        anchor = self.clock.anchor()
        return [with_times_shifted(each, known.step_to(anchor)) for each, known in self._observations]

    def post(self, observation: EngineObservation) -> None:
        """Add an observation."""
        self._observations.append((observation, self.clock.anchor()))
        self.arrived.set()
        if not self._can_wait(observation):
            self.urgent.set()
        if isinstance(observation, AttemptStatus) and observation.phase is not AttemptPhase.STARTING:
            self.awaited.discard(observation.key)

    def wake(self) -> None:
        """Have the next tick made now, whatever has arrived."""
        self.arrived.set()
        self.urgent.set()

    async def request(self, apply: Callable[[Transaction], T]) -> T:
        """Have a change decided in the next tick and return its result once it is on disk.

        Raises `Refusal` if the change is refused, could not be committed, or the engine has stopped.
        """
        if self.closed is not None:
            raise self.closed
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.requests.append(Request(apply, future))
        self.wake()
        return await future

    def drain(self) -> tuple[list[Request], list[EngineObservation]]:
        """Take at most `MAX_REQUESTS_PER_TICK` requests and all observations, oldest first."""
        self.arrived.clear()
        self.urgent.clear()
        requests = [self.requests.popleft() for _ in range(min(MAX_REQUESTS_PER_TICK, len(self.requests)))]
        if self.requests:
            self.wake()
        observations = self.observations
        self._observations.clear()
        self._drained = self.clock.anchor()
        return requests, observations

    def put_back(self, observations: Iterable[EngineObservation]) -> None:
        """Put observations that were drained and could not be committed back in front of the others."""
        drained = self._drained or self.clock.anchor()
        self._observations.extendleft((each, drained) for each in reversed(list(observations)))

    def close(self, refusal: Refusal) -> None:
        """Refuse all requests, waiting and future ones."""
        self.closed = refusal
        self.refuse(refusal)
        self.wake()

    def refuse(self, refusal: Refusal) -> None:
        """Refuse the requests that wait."""
        for request in self.requests:
            if not request.future.done():
                request.future.set_exception(refusal)
        self.requests.clear()

    def _can_wait(self, observation: EngineObservation) -> bool:
        """Return whether an observation frees no GPUs, and no call or reclaim waits for it: others may join it."""
        if not isinstance(observation, AttemptStatus):
            return isinstance(observation, Reported | LogGrew)
        if observation.phase is AttemptPhase.STARTING:
            return True
        return observation.phase is AttemptPhase.RUNNING and observation.key not in self.awaited


def with_times_shifted(observation: EngineObservation, seconds: float) -> EngineObservation:
    """Return an observation as it would be if the system clock had been set by ``seconds`` before it was made."""
    if not seconds:
        return observation
    match observation:
        case AttemptStatus(started=started, exit=ended):
            return structs.replace(
                observation,
                started=None if started is None else started + seconds,
                exit=None if ended is None else replace(ended, at=ended.at + seconds),
            )
        case Reported(last=last, saved_at=saved_at, room_until=room_until):
            return replace(
                observation,
                last=replace(last, at=last.at + seconds),
                saved_at=None if saved_at is None else saved_at + seconds,
                room_until=None if room_until is None else room_until + seconds,
            )
    return observation
