"""A copy of part of the cluster that is kept up to date, and says how far it can be trusted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Generic, TypeVar, overload

import msgspec

from springtide.scheduler.kube.api import Api, Object
from springtide.scheduler.kube.errors import ApiError
from springtide.scheduler.kube.resources import Resource

log = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_WAIT = 0.2
LONGEST_WAIT = 10.0
SHORTEST_WATCH = 1.0
"""Seconds; a watch that ends sooner counts as a failure."""
STALE_AFTER = 60.0
EXPIRED = 410


class _Named(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's word


class _Head(msgspec.Struct):
    metadata: _Named


def _nothing(before: Any, after: Any) -> None:
    """Nobody listens."""


class Mirror(Generic[T]):
    """The objects of one kind that the selectors choose, as they were last told.

    It lists, then watches from there; when the watch breaks it watches again from the last version it heard of,
    and when the server has forgotten that version it lists again and tells the differences. It tries for ever,
    with pauses of `LONGEST_WAIT` seconds at most.

    ``changed(before, after)`` is called for each difference: None before for what is new, None after for what is
    gone; its last state is told before that. ``heard()`` is called when `fresh` may have become true. ``shape`` is
    what objects are read as: a `msgspec.Struct` with the fields that matter, or plain objects if it is left out.
    ``clock`` never goes back.
    """

    @overload
    def __init__(
        self: Mirror[Object],
        api: Api,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        changed: Callable[[Object | None, Object | None], None] = ...,
        heard: Callable[[], None] = ...,
        clock: Callable[[], float] = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        api: Api,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        shape: type[T],
        changed: Callable[[T | None, T | None], None] = ...,
        heard: Callable[[], None] = ...,
        clock: Callable[[], float] = ...,
    ) -> None: ...

    def __init__(
        self,
        api: Api,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        shape: Any = dict[str, Any],
        changed: Callable[[Any, Any], None] = _nothing,
        heard: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._shape = shape
        self._changed = changed
        self._heard = heard
        self._clock = clock
        self._items: dict[tuple[str, str], T] = {}
        self._version = ""
        self._last: float | None = None
        self._task: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why the last attempt to list or watch failed, empty while all is well."""

    # ---------- beginning and end

    async def start(self) -> None:
        """List, and go on watching in the background. Raises `ApiError` if the first list does not work."""
        await self._list()
        self._task = asyncio.get_running_loop().create_task(self._follow(), name=f"mirror {self._resource.plural}")

    async def stop(self) -> None:
        """Stop watching; what is known stays."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ---------- what is known

    @property
    def items(self) -> Mapping[tuple[str, str], T]:
        """All objects, by namespace (empty where there is none) and name."""
        return MappingProxyType(self._items)

    @property
    def seconds_since_event(self) -> float:
        """How long nothing was heard of the server, no bookmark and no end of a watch either."""
        return float("inf") if self._last is None else self._clock() - self._last

    @property
    def fresh(self) -> bool:
        """Whether the copy is so recent that one may act on what is *not* in it."""
        return self.seconds_since_event < max(STALE_AFTER, 2 * self._api.watch_seconds)

    # ---------- keeping up

    async def _follow(self) -> None:
        wait = FIRST_WAIT
        while True:
            began = self._clock()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                self.trouble = ""
            except ApiError as error:
                if error.status == EXPIRED:
                    self._version = ""
                self._say(error)
                wait = max(wait, min(LONGEST_WAIT, error.retry_after or 0.0))
            except Exception:
                log.exception("The mirror of %s broke off and starts anew.", self._resource.plural)
                self._version = ""
            if self._clock() - began >= SHORTEST_WATCH:
                wait = FIRST_WAIT
            else:
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, wait * 2)

    def _say(self, error: ApiError) -> None:
        if not self.trouble:
            log.warning("The mirror of %s: %s (%s)", self._resource.plural, error, error.reason)
        self.trouble = str(error)

    async def _list(self) -> None:
        answer = await self._api.list_raw(
            self._resource, self._namespace, labels=self._labels, fields=self._fields
        )
        found = {_key(raw)[0]: raw for raw in answer.items}
        for key in self._items.keys() - found.keys():
            self._put(key, None)
        for key, raw in found.items():
            self._put(key, raw)
        self._version = answer.version
        self._contact()

    async def _watch(self) -> None:
        events = self._api.watch(
            self._resource,
            self._namespace,
            since=self._version,
            labels=self._labels,
            fields=self._fields,
        )
        async with aclosing(events):
            async for event in events:
                key, version = _key(event.object)
                if event.type != "BOOKMARK":
                    self._put(key, event.object)
                if event.type == "DELETED":
                    self._put(key, None)
                self._version = version
                self._contact()
        self._contact()

    def _put(self, key: tuple[str, str], raw: msgspec.Raw | None) -> None:
        """Note how an object is now, None if it is gone, and tell if that is new."""
        before = self._items.get(key)
        try:
            after: T | None = None if raw is None else msgspec.json.decode(raw, type=self._shape)
            if after is None:
                self._items.pop(key, None)
            else:
                self._items[key] = after
            if before != after:
                self._changed(before, after)
        except Exception:
            log.exception("A change of %s %s could not be taken in.", self._resource.plural, "/".join(key))

    def _contact(self) -> None:
        stale = not self.fresh
        self._last = self._clock()
        if stale:
            self._heard()


def _key(raw: msgspec.Raw) -> tuple[tuple[str, str], str]:
    """Namespace and name of an object, and its version."""
    named = msgspec.json.decode(raw, type=_Head).metadata
    return (named.namespace, named.name), named.resourceVersion
