"""What a call of the API is, as data. Handlers and the OpenAPI document are both made from it."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from springtide.hub_extension.api.limits import Buckets
from springtide.hub_extension.caller import Caller
from springtide.hub_extension.hub import Groups
from springtide.scheduler.engine import Engine

FORECAST_RATE = 1.0
"""So many questions about what would be one person may ask a second, for long."""
FORECAST_BURST = 20

Q_co = TypeVar("Q_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)


class Who(StrEnum):
    """Who may make a call at all; which objects they may touch is for `permissions`."""

    ANYONE = "anyone"
    LOGGED_IN = "everyone logged in"
    ADMINS = "administrators"
    SPAWNER = "the hub's spawner"
    SPAWNER_OR_PERSON = "the hub's spawner, the person, administrators"
    LOGGED_IN_OR_LOCAL = "everyone logged in, and this machine"


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that takes no parameters."""


@dataclass(frozen=True, slots=True)
class Pool:
    """What calls work on. ``max_body`` is bytes, ``grace`` seconds, ``clock`` seconds since the epoch."""

    engine: Engine
    groups: Groups
    submissions: Buckets
    max_body: int
    grace: float
    version: str
    clock: Callable[[], float]
    forecasts: Buckets = field(default_factory=lambda: Buckets(FORECAST_RATE, FORECAST_BURST, time.monotonic))


@dataclass(frozen=True, slots=True)
class Call(Generic[Q_co, B_co]):
    """One request, checked: ``path`` are the parts of the address, ``query`` and ``body`` its structs."""

    pool: Pool
    caller: Caller
    path: Mapping[str, str]
    query: Q_co
    body: B_co


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status of its own."""

    body: msgspec.Struct
    status: int


@dataclass(frozen=True, slots=True)
class File:
    """An answer that is a file to keep."""

    name: str
    content: bytes


Answered = msgspec.Struct | Reply | File | None


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the API's table.

    ``path`` is below ``/api/v1`` with ``{parts}``; ``parts`` gives their types where they are not plain text.
    ``takes`` is the body, ``query`` the parameters, ``answers`` what comes back with ``status``; ``also`` are
    further good answers; ``most`` bounds the body, in bytes, where the pool's own bound is too wide. A route
    without ``call`` has a handler of its own.
    """

    method: str
    path: str
    summary: str
    who: Who
    call: Callable[[Call[Any, Any]], Awaitable[Answered]] | None = None
    takes: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] = NoQuery
    answers: type[msgspec.Struct] | None = None
    status: int = 200
    also: tuple[int, ...] = ()
    media: str = "application/json"
    parts: Mapping[str, Any] | None = None
    most: int | None = None

    @property
    def pattern(self) -> str:
        """The path as a regular expression; ``{name:path}`` may contain slashes."""
        return re.sub(
            r"\{(\w+)(:path)?\}", lambda part: rf"(?P<{part[1]}>{'.+' if part[2] else '[^/]+'})", self.path
        )
