"""A cache of part of the cluster, kept current by list and watch, with its freshness."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any, Generic, TypeVar, overload

import msgspec

from springtide.scheduler.backoff import Backoff
from springtide.scheduler.kube.api import Api, Object
from springtide.scheduler.kube.errors import ApiError
from springtide.scheduler.kube.resources import Resource

log = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_DELAY = 0.2
LONGEST_DELAY = 10.0
SHORTEST_WATCH = 1.0
"""Duration below which a watch counts as failed, in seconds."""
STALE_AFTER = 60.0
"""Minimum time without an event after which the cache is stale, in seconds."""
EXPIRED = 410


class _ObjectName(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's word


class _Head(msgspec.Struct):
    metadata: _ObjectName


def _ignore_change(before: Any, after: Any) -> None:
    """Do nothing."""


class Informer(Generic[T]):
    """The objects of one resource that match the selectors, as the server last reported them.

    It lists, then watches from the resource version of the list. A watch that breaks is started again from the
    last version it reported; when the server has dropped that version, or was silent for longer than a watch
    lasts, the informer lists again and reports the differences. It retries without end, with a capped back-off.

    ``on_change(before, after)`` is called for each difference: ``before`` is None for a new object, ``after`` is
    None for a deleted one, whose last state is reported first. ``on_contact()`` is called when `fresh` may have
    become true. ``decode_as`` is the type that objects are decoded to: a `msgspec.Struct` with the fields that are
    needed, or plain objects if it is left out. ``clock`` is monotonic.
    """

    @overload
    def __init__(
        self: Informer[Object],
        api: Api,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        on_change: Callable[[Object | None, Object | None], None] = ...,
        on_contact: Callable[[], None] = ...,
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
        decode_as: type[T],
        on_change: Callable[[T | None, T | None], None] = ...,
        on_contact: Callable[[], None] = ...,
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
        decode_as: Any = dict[str, Any],
        on_change: Callable[[Any, Any], None] = _ignore_change,
        on_contact: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._decode_as = decode_as
        self._on_change = on_change
        self._on_contact = on_contact
        self._clock = clock
        self._items: dict[tuple[str, str], T] = {}
        self._version = ""
        self._last_contact: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing = False

    # ---------- start and stop

    async def start(self) -> None:
        """List, and keep watching in the background. Raises `ApiError` if the first list fails."""
        await self._list()
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"informer of {self._resource.plural}"
        )

    async def stop(self) -> None:
        """Stop watching; `items` stay as they are."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # ---------- the cache

    @property
    def items(self) -> Mapping[tuple[str, str], T]:
        """All objects, by namespace (empty for cluster-scoped ones) and name."""
        return MappingProxyType(self._items)

    @property
    def seconds_since_event(self) -> float:
        """Seconds since the server last sent anything: a list, an event, a bookmark or the end of a watch."""
        return float("inf") if self._last_contact is None else self._clock() - self._last_contact

    @property
    def fresh(self) -> bool:
        """Whether the cache is recent enough to conclude that an object *not* in it does not exist."""
        return self.seconds_since_event < max(STALE_AFTER, 2 * self._api.watch_seconds)

    # ---------- list and watch

    async def _run(self) -> None:
        backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
        while True:
            began, retry_after = self._clock(), 0.0
            try:
                if not self._version or self.seconds_since_event > self._api.watch_seconds:
                    await self._list()
                await self._watch()
                self._failing = False
            except ApiError as error:
                if error.status == EXPIRED:
                    self._version = ""
                self._log_first_failure(error)
                retry_after = error.retry_after or 0.0
            except Exception:
                log.exception("The informer of %s failed and lists again.", self._resource.plural)
                self._version = ""
            if self._clock() - began >= SHORTEST_WATCH:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.next_delay(at_least=retry_after))

    def _log_first_failure(self, error: ApiError) -> None:
        if not self._failing:
            self._failing = True
            log.warning("The informer of %s: %s (%s)", self._resource.plural, error, error.reason)

    async def _list(self) -> None:
        answer = await self._api.list_raw(
            self._resource, self._namespace, labels=self._labels, fields=self._fields
        )
        listed = {_key_and_version(raw)[0]: raw for raw in answer.items}
        for key in self._items.keys() - listed.keys():
            self._update(key, None)
        for key, raw in listed.items():
            self._update(key, raw)
        self._version = answer.version
        self._record_contact()

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
                key, version = _key_and_version(event.object)
                if event.type != "BOOKMARK":
                    self._update(key, event.object)
                if event.type == "DELETED":
                    self._update(key, None)
                self._version = version
                self._record_contact()
        self._record_contact()

    def _update(self, key: tuple[str, str], raw: msgspec.Raw | None) -> None:
        """Store the state of an object, None if it is deleted, and report the difference if there is one."""
        before = self._items.get(key)
        try:
            after: T | None = None if raw is None else msgspec.json.decode(raw, type=self._decode_as)
            if after is None:
                self._items.pop(key, None)
            else:
                self._items[key] = after
            if before != after:
                self._on_change(before, after)
        except Exception:
            log.exception("A change of %s %s could not be processed.", self._resource.plural, "/".join(key))

    def _record_contact(self) -> None:
        was_stale = not self.fresh
        self._last_contact = self._clock()
        if was_stale:
            self._on_contact()


def _key_and_version(raw: msgspec.Raw) -> tuple[tuple[str, str], str]:
    """Return namespace and name of an object, and its resource version."""
    metadata = msgspec.json.decode(raw, type=_Head).metadata
    return (metadata.namespace, metadata.name), metadata.resourceVersion
