"""What waits for the next tick: requests with somebody waiting for the answer, and observations."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from springtide.scheduler.engine.world import Draft
from springtide.scheduler.executors.base import AttemptKey, Observation
from springtide.scheduler.model import Node
from springtide.scheduler.refusal import Refusal

T = TypeVar("T")
Answer: TypeAlias = Callable[[], T]
"""Builds the answer, after the commit."""
MOST_PER_TICK = 2_000


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """What the executor's inventory answered."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class LaunchTrouble:
    """A launch did not work so far."""

    key: AttemptKey
    detail: str


News: TypeAlias = Observation | NodesSeen | LaunchTrouble


@dataclass(frozen=True, slots=True)
class Request:
    """Something to decide within a tick. ``apply`` changes the draft or raises `Refusal`."""

    apply: Callable[[Draft], Answer[Any]]
    future: asyncio.Future[Any]


@dataclass(slots=True)
class Inbox:
    """Collects until the next tick; ``some`` is set while there is anything."""

    requests: deque[Request] = field(default_factory=deque)
    news: deque[News] = field(default_factory=deque)
    some: asyncio.Event = field(default_factory=asyncio.Event)
    closed: Refusal | None = None

    def tell(self, news: News) -> None:
        """Something was observed."""
        self.news.append(news)
        self.some.set()

    async def ask(self, apply: Callable[[Draft], Answer[T]]) -> T:
        """Have something decided in the next tick; the answer comes when it is on disk."""
        if self.closed is not None:
            raise self.closed
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.requests.append(Request(apply, future))
        self.some.set()
        return await future

    def take(self) -> tuple[list[Request], list[News]]:
        """All news, and a bounded number of requests; oldest first."""
        self.some.clear()
        requests = [self.requests.popleft() for _ in range(min(MOST_PER_TICK, len(self.requests)))]
        if self.requests:
            self.some.set()
        news = list(self.news)
        self.news.clear()
        return requests, news

    def put_back(self, news: list[News]) -> None:
        """News that could not be written down is looked at again."""
        self.news.extendleft(reversed(news))

    def close(self, refusal: Refusal) -> None:
        """Refuse what waits and what comes."""
        self.closed = refusal
        for request in self.requests:
            if not request.future.done():
                request.future.set_exception(refusal)
        self.requests.clear()
        self.some.set()
