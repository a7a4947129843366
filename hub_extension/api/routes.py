"""Calls of the API as data, from which the handlers and the OpenAPI document are made."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, BinaryIO, Generic, TypeVar

import msgspec

from springtide.hub_extension.api.limits import Buckets, Slots
from springtide.hub_extension.api.notebook_watch import NotebookWatch
from springtide.hub_extension.api.views import NodeEncoder
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.tracking.tracker import Tracker
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.hub import Groups
from springtide.scheduler.engine import Engine
from springtide.scheduler.lru_cache import LruCache

FORECAST_RATE = 1.0
"""Maximum sustained rate of one person's forecast requests, in requests per second."""
FORECAST_BURST = 20
UPLOAD_RATE = 4.0 * 1024 * 1024
UPLOAD_BURST = 1024 * 1024 * 1024
"""Limits of the files that one person may send with jobs: the sustained rate, in bytes per second, and the burst,
in bytes.

Files of ended jobs stay for some minutes, so without these limits a loop of submissions and cancellations would
fill the disk.
"""
TRIAL_RATE = 0.1
"""Maximum sustained rate of one person's test messages, in messages per second."""
TRIAL_BURST = 5
DOWNLOADS = 4
"""Maximum number of job outputs that one person may download at a time."""
STREAMS = 20
"""Maximum number of event streams that one person may have open at a time, unless the service is configured
otherwise."""

READINGS = 10_000
"""Number of readings of other people's jobs that are remembered, so that each is in the audit trail once."""
SUBMISSIONS_AT_ONCE = 200
"""Maximum number of submissions of all persons that are being accepted at a time.

What comes beyond it is refused at once, so that answers stay fast however many come.
"""

Q_co = TypeVar("Q_co", covariant=True)
B_co = TypeVar("B_co", covariant=True)


class Who(StrEnum):
    """Callers who may make a call at all; `permissions` decides which objects they may read or change."""

    ANYONE = "anyone"
    LOGGED_IN = "everyone logged in"
    ADMINS = "administrators of the pool"
    PROJECT_ADMINS = "administrators of the pool, or of the project"
    SPAWNER = "the hub's spawner"
    SPAWNER_OR_PERSON = "the hub's spawner, the person, administrators"
    LOGGED_IN_OR_OWN = "everyone logged in, and the service's own account on this machine"


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Query of a call without parameters."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Objects and settings that calls use.

    ``max_body`` is in bytes, ``grace`` in seconds; ``clock`` returns seconds since the epoch.
    """

    engine: Engine
    groups: Groups
    submissions: Buckets
    max_body: int
    grace: float
    version: str
    clock: Callable[[], float]
    uploads: Buckets = field(default_factory=lambda: Buckets(UPLOAD_RATE, UPLOAD_BURST, time.monotonic))
    downloads: Slots = field(default_factory=lambda: Slots(DOWNLOADS))
    nodes: NodeEncoder = field(default_factory=NodeEncoder)
    streams: Slots = field(default_factory=lambda: Slots(STREAMS))
    intake: Slots = field(default_factory=lambda: Slots(SUBMISSIONS_AT_ONCE))
    forecasts: Buckets = field(default_factory=lambda: Buckets(FORECAST_RATE, FORECAST_BURST, time.monotonic))
    channels: Channels = field(default_factory=Channels)
    trials: Buckets = field(default_factory=lambda: Buckets(TRIAL_RATE, TRIAL_BURST, time.monotonic))
    trackers: Sequence[Tracker] = ()
    readings: LruCache[tuple[str, str, str], float] = field(default_factory=lambda: LruCache(READINGS))
    """Times of readings of other people's jobs in the audit trail, by reader, job and kind of entry."""
    notebooks: NotebookWatch = field(default_factory=NotebookWatch)


@dataclass(frozen=True, slots=True)
class Call(Generic[Q_co, B_co]):
    """One validated request: ``path`` holds the parts of the path, ``query`` and ``body`` are structs."""

    pool: Pool
    caller: Caller
    path: Mapping[str, str]
    query: Q_co
    body: B_co


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status code other than the route's."""

    body: msgspec.Struct
    status: int


@dataclass(frozen=True, slots=True)
class File:
    """An answer that is a file to download; ``content`` is open, and is closed once it has been sent."""

    name: str
    content: BinaryIO


@dataclass(frozen=True, slots=True)
class Encoded:
    """An answer that is JSON already."""

    json: bytes


Answered = msgspec.Struct | Reply | File | Encoded | None


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the API's table.

    ``path`` is below ``/api/v1`` with ``{parts}``; ``parts`` gives their types where they are not plain text.
    ``takes`` is the type of the body, ``query`` that of the parameters, ``answers`` that of the answer with
    ``status``; ``also`` are further status codes of success. ``most`` is the maximum size of the body, in bytes,
    if it is smaller than the pool's. A route without ``call`` has a handler of its own.
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
        """Return the path as a regular expression; ``{name:path}`` may contain slashes."""
        return re.sub(
            r"\{(\w+)(:path)?\}", lambda part: rf"(?P<{part[1]}>{'.+' if part[2] else '[^/]+'})", self.path
        )
