"""Routes of the API, declared by `route` beside their functions; handlers and documents are made from them."""

from __future__ import annotations

import inspect
import pkgutil
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from types import ModuleType, NoneType
from typing import (
    Annotated,
    Any,
    BinaryIO,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from springtide.hub_extension.api.hub_configuration import HubConfiguration
from springtide.hub_extension.api.limits import Buckets, Slots
from springtide.hub_extension.api.notebook_watch import NotebookWatch
from springtide.hub_extension.api.open_sessions import Sessions
from springtide.hub_extension.api.views import NodeEncoder
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.tracking.tracker import Tracker
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.group_changes import GroupChanges
from springtide.hub_extension.web.hub import Groups
from springtide.scheduler.engine import Engine
from springtide.scheduler.lru_cache import LruCache

FORECAST_RATE = 1.0
"""Maximum sustained rate of one person's forecast requests, in requests per second."""
FORECAST_BURST = 20
UPLOAD_RATE = 4.0 * 1024 * 1024
UPLOAD_BURST = 1024 * 1024 * 1024
"""Upload limits per person for the files of jobs: the sustained rate, in bytes per second, and the burst,
in bytes.

Files of ended jobs stay for some minutes, so without these limits a loop of submissions and cancellations would
fill the disk.
"""
STACK_RATE = 0.5
"""Maximum sustained rate of one person's requests for stacks, in requests per second."""
STACK_BURST = 10
TRIAL_RATE = 0.1
"""Maximum sustained rate of one person's test messages, in messages per second."""
TRIAL_BURST = 5
DOWNLOADS = 4
"""Maximum number of job outputs that one person may download at a time."""
STREAMS = 20
"""Maximum number of event streams that one person may have open at a time, unless the service is configured
otherwise."""

CHECKPOINT_CALLS = 4
"""Maximum number of calls of a person about checkpoints at a time: each reads or copies files of jobs."""
READINGS = 10_000
"""Number of readings of other people's jobs that are remembered, so that each is in the audit trail once."""
SUBMISSIONS_AT_ONCE = 200
"""Maximum number of submissions of all persons that are being accepted at a time.

What comes beyond it is refused at once, so that answers stay fast however many come.
"""

JSON: Final = "application/json"

P = ParamSpec("P")
A = TypeVar("A", bound="Answered")
S_co = TypeVar("S_co", bound=msgspec.Struct, covariant=True)


class Who(StrEnum):
    """Callers who may make a call at all; `permissions` decides which objects they may read or change."""

    ANYONE = "anyone"
    LOGGED_IN = "everyone logged in"
    ADMINS = "administrators of the pool"
    ADMINS_OR_DOCTOR = "administrators of the pool, and the doctor"
    PROJECT_ADMINS = "administrators of the pool, or of the project"
    SPAWNER = "the hub's spawner"
    SPAWNER_OR_PERSON = "the hub's spawner, the person, administrators"
    LOGGED_IN_OR_OWN = "everyone logged in, and the service's own account on this machine"


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Query of a route without parameters."""


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
    checkpoints: Slots = field(default_factory=lambda: Slots(CHECKPOINT_CALLS))
    intake: Slots = field(default_factory=lambda: Slots(SUBMISSIONS_AT_ONCE))
    forecasts: Buckets = field(default_factory=lambda: Buckets(FORECAST_RATE, FORECAST_BURST, time.monotonic))
    stacks: Buckets = field(default_factory=lambda: Buckets(STACK_RATE, STACK_BURST, time.monotonic))
    channels: Channels = field(default_factory=Channels)
    trials: Buckets = field(default_factory=lambda: Buckets(TRIAL_RATE, TRIAL_BURST, time.monotonic))
    trackers: Sequence[Tracker] = ()
    readings: LruCache[tuple[str, str, str], float] = field(default_factory=lambda: LruCache(READINGS))
    """Times of readings of other people's jobs in the audit trail, by reader, job and kind of entry."""
    notebooks: NotebookWatch = field(default_factory=NotebookWatch)
    sessions: Sessions = field(default_factory=Sessions)
    hub: HubConfiguration = field(default_factory=HubConfiguration)
    group_changes: GroupChanges = field(default_factory=GroupChanges)


@dataclass(frozen=True, slots=True)
class Call:
    """The pool, and who calls it: the first argument of the function of every route."""

    pool: Pool
    caller: Caller


@dataclass(frozen=True, slots=True)
class Reply(Generic[S_co]):
    """An answer with a status code other than the route's."""

    body: S_co
    status: int


@dataclass(frozen=True, slots=True)
class File:
    """An answer that is a file to download; ``content`` is open, and is closed once it has been sent."""

    name: str
    content: BinaryIO

    @classmethod
    def of_text(cls, name: str, text: str) -> Self:
        """Return a text as an open file without a name on disk."""
        return cls.of_bytes(name, text.encode())

    @classmethod
    def of_bytes(cls, name: str, content: bytes) -> Self:
        """Return bytes as an open file without a name on disk."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it has been sent
        file.write(content)
        file.seek(0)
        return cls(name, file)


@dataclass(frozen=True, slots=True)
class Encoded(Generic[S_co]):
    """An answer that is JSON already, that of the struct."""

    json: bytes


Answered = msgspec.Struct | Reply[msgspec.Struct] | File | Encoded[msgspec.Struct] | None


class RouteError(TypeError):
    """A function cannot be a route; the message names both and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A call of the API.

    ``path`` is below ``/api/v1``; ``parts`` are the types of its ``{parts}``. ``query`` is the type of the
    parameters, ``body`` that of the body, ``answer`` that of the answer with ``status``; ``also`` are further
    status codes of success. ``most`` is the maximum size of the body, in bytes, if it is smaller than the pool's;
    that of plain ``bytes`` may be larger as well. ``jobs``: programs of running jobs may call it, too, for their
    users and within their projects.
    """

    method: str
    path: str
    who: Who
    summary: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct | bytes] | None = None
    answer: type[msgspec.Struct] | None = None
    status: int = 200
    also: tuple[int, ...] = ()
    media: str = JSON
    most: int | None = None
    jobs: bool = False

    @property
    def callers(self) -> str:
        """Return who may make the call, in words."""
        return f"{self.who}; programs of jobs" if self.jobs else str(self.who)

    def largest(self, of_pool: int) -> int:
        """Return the maximum size of the body, in bytes, where that of the pool's requests is ``of_pool``."""
        if self.most is None:
            return of_pool
        return self.most if self.body is bytes else min(of_pool, self.most)

    @property
    def pattern(self) -> str:
        """Return the path as a regular expression; ``{name:path}`` may contain slashes."""
        return re.sub(
            r"\{(\w+)(:path)?\}", lambda part: rf"(?P<{part[1]}>{'.+' if part[2] else '[^/]+'})", self.path
        )

    @property
    def order(self) -> tuple[list[tuple[bool, bool, str]], str]:
        """Key of the order in which addresses are matched: fixed words come before parts."""
        words = self.path.split("/")
        return [(word.startswith("{"), ":path" in word, word) for word in words], self.method


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Route, Generic[P, A]):
    """A route that a function answers. Calling it calls the function."""

    function: Callable[Concatenate[Call, P], Awaitable[A]]

    def __call__(self, call: Call, *arguments: P.args, **named: P.kwargs) -> Awaitable[A]:
        """Return the answer of the function."""
        return self.function(call, *arguments, **named)


def route(
    method: str,
    path: str,
    who: Who,
    *,
    status: int | None = None,
    also: tuple[int, ...] = (),
    most: int | None = None,
    jobs: bool = False,
) -> Callable[[Callable[Concatenate[Call, P], Awaitable[A]]], Operation[P, A]]:
    """Make an asynchronous function a route of the API.

    Its first parameter is the `Call`. The others are the parts of the path by name, ``query`` and ``body``, whose
    annotations are the types that requests are converted to; the annotation of the result is the type of the
    answer. The first sentence of the docstring is the summary in documents. ``status`` is 200 by default, 204 if
    the function returns None. ``jobs`` is as in `Route`. Raises `RouteError` if any of this is missing.
    """

    def declare(function: Callable[Concatenate[Call, P], Awaitable[A]]) -> Operation[P, A]:
        name = f"{function.__module__}.{function.__name__}"
        types = get_type_hints(function, include_extras=True)
        first, *parameters = inspect.signature(function).parameters
        parts = re.findall(r"\{(\w+)", path)
        if types.get(first) is not Call:
            raise RouteError(f"{name}: the first parameter of a route is a Call.")
        if set(parameters) - {"query", "body"} != set(parts):
            raise RouteError(
                f"{name} takes {', '.join(parameters) or 'nothing'}; {path} has {', '.join(parts) or 'no parts'}."
            )
        if missing := [parameter for parameter in (*parameters, "return") if parameter not in types]:
            raise RouteError(f"{name} has no annotation of {', '.join(missing)}.")
        if not function.__doc__:
            raise RouteError(f"{name} has no docstring for the summary of {method} {path}.")
        media, answer = _answer(types["return"], name)
        return Operation(
            method=method,
            path=path,
            who=who,
            summary=_summary(function.__doc__),
            parts={part: types[part] for part in parts},
            query=_struct(types.get("query"), name),
            body=bytes if types.get("body") is bytes else _struct(types.get("body"), name),
            answer=answer,
            status=status or (204 if types["return"] is NoneType else 200),
            also=also,
            media=media,
            most=most,
            jobs=jobs,
            function=function,
        )

    return declare


def _answer(annotation: Any, name: str) -> tuple[str, type[msgspec.Struct] | None]:
    """Return the media type and the struct of an answer. Raises `RouteError` if it is of no known kind."""
    if annotation is File:
        return "application/octet-stream", None
    if get_origin(annotation) in {Reply, Encoded}:
        annotation = get_args(annotation)[0]
    return JSON, None if annotation is NoneType else _struct(annotation, name)


def _struct(annotation: Any, name: str) -> type[msgspec.Struct] | None:
    """Return the struct of an annotation; ``Annotated[Struct, …]`` names one that type checkers do not know.

    Raises `RouteError` for any other type.
    """
    kind = get_args(annotation)[-1] if get_origin(annotation) is Annotated else annotation
    if kind is None or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return kind
    raise RouteError(f"{name} has the type {kind} in a place of a struct.")


def _summary(docstring: str) -> str:
    """Return the first sentence of a docstring without its full stop."""
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"\.(?: |$)", paragraph)[0].replace("`", "")


def routes_of(package: ModuleType) -> tuple[Operation[..., Any], ...]:
    """Return the routes of all modules of a package in the order in which they are matched.

    Raises `RouteError` for two of one method and address.
    """
    found: dict[tuple[str, str], Operation[..., Any]] = {}
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Operation):
                other = found.setdefault((re.sub(r"\{\w+", "{", value.path), value.method), value)
                if other is not value:
                    raise RouteError(f"{value.method} {value.path} is declared twice.")
    return tuple(sorted(found.values(), key=lambda operation: operation.order))
