"""Requests to the API of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, overload

import aiohttp
import msgspec

from springtide.scheduler.kube.connect import Connection, no_answer
from springtide.scheduler.kube.errors import ApiError, error_of
from springtide.scheduler.kube.resources import Resource
from springtide.scheduler.wording import given

Object: TypeAlias = dict[str, Any]
T = TypeVar("T")

CONCURRENT_REQUESTS = 32
"""Maximum number of requests at a time, watches not counted."""
REQUEST_TIMEOUT = 30.0
"""Time-out of a request, in seconds."""
PAGE = 500
"""Number of objects that a list asks for at a time."""
WATCH_SECONDS = 25.0
"""Time after which the server ends a watch, with a bookmark before the end, in seconds."""
WATCH_OVERDUE = 10.0
"""Time beyond `WATCH_SECONDS` after which a watch that the server has not ended counts as dead, in seconds."""

MERGE_PATCH = "application/merge-patch+json"
ACCEPT: Mapping[str, str] = {"Accept": "application/json", "Accept-Encoding": "identity"}


class _ListMeta(msgspec.Struct, frozen=True):
    resourceVersion: str = ""  # noqa: N815 - the API's word
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``, and the object's JSON."""

    type: str
    object: msgspec.Raw


class RawList(msgspec.Struct, frozen=True):
    """The result of a list: each object as JSON, and the resource version of the list, to watch from."""

    items: list[msgspec.Raw]
    version: str


class Api:
    """Requests to the API of one cluster: plain objects in and out, `ApiError` for every failure.

    At most ``concurrent`` requests run at a time, watches not counted; each has ``timeout`` seconds from the
    moment it is sent. No request is repeated here, except once with fresh credentials after a 401. A write without
    an answer may have been carried out (`ApiError.maybe_applied`). The server ends a watch after
    ``watch_seconds``; ``watch_overdue`` seconds later it counts as dead.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        concurrent: int = CONCURRENT_REQUESTS,
        timeout: float = REQUEST_TIMEOUT,
        watch_seconds: float = WATCH_SECONDS,
        watch_overdue: float = WATCH_OVERDUE,
    ) -> None:
        self.watch_seconds = watch_seconds
        self._connection = connection
        self._timeout = timeout
        self._watch_timeout = watch_seconds + watch_overdue
        self._slots = asyncio.Semaphore(concurrent)

    async def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        await self._connection.close()

    # ---------- reading

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """Return all objects that match the selectors, and the resource version to watch from."""
        answer = await self.list_raw(resource, namespace, labels=labels, fields=fields)
        return [msgspec.json.decode(item) for item in answer.items], answer.version

    async def list_raw(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> RawList:
        """Return the result of `list`, with each object as JSON."""
        items: list[msgspec.Raw] = []
        query = {"limit": str(PAGE), "labelSelector": labels, "fieldSelector": fields}
        while True:
            body = await self._request("GET", resource.path(namespace), query=query)
            page = msgspec.json.decode(body, type=_Page)
            items += page.items or ()
            if not page.metadata.continue_:
                return RawList(items, page.metadata.resourceVersion)
            query["continue"] = page.metadata.continue_

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        since: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield the changes after the resource version ``since``, bookmarks too, for about `watch_seconds`.

        Raises `ApiError`, with status 410 if the version is too old, and with status 0 if the watch is dead.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": f"{max(1, round(self.watch_seconds))}",
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        response = await self._connection.send(
            "GET", resource.path(namespace), query=query, headers=ACCEPT, timeout=self._watch_timeout
        )
        try:
            async with response:
                if response.status >= 300:
                    raise error_of(response.status, await response.read(), response.headers)
                async for line in _lines(response.content):
                    yield _event(line)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error) from error

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Return one object. Raises `ApiError` with status 404 if there is none of this name."""
        return _object(await self._request("GET", resource.path(namespace, name)))

    # ---------- writing

    @overload
    async def create(
        self, resource: Resource, namespace: str | None, body: Object, *, dry_run: bool = ...
    ) -> Object: ...

    @overload
    async def create(
        self, resource: Resource, namespace: str | None, body: Object, *, decode_as: type[T], dry_run: bool = ...
    ) -> T: ...

    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Object,
        *,
        decode_as: Any = Object,
        dry_run: bool = False,
    ) -> Any:
        """Create an object; return it as the type ``decode_as``. A dry run does all but store it.

        Raises `ApiError` with status 409 if there is one of this name.
        """
        query = {"dryRun": "All"} if dry_run else None
        return _decoded(await self._request("POST", resource.path(namespace), query=query, body=body), decode_as)

    async def replace(self, resource: Resource, namespace: str | None, name: str, body: Object) -> Object:
        """Replace an object. Raises `ApiError` with status 409 if ``body`` was made from another version."""
        return _object(await self._request("PUT", resource.path(namespace, name), body=body))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        uid: str | None = None,
        subresource: str = "",
    ) -> Object:
        """Merge ``body`` into an object; a null deletes a field.

        Raises `ApiError` with status 409 or 422 if the object has another uid than ``uid``.
        """
        if uid is not None:
            body = {**body, "metadata": {**body.get("metadata", {}), "uid": uid}}
        path = resource.path(namespace, name, subresource)
        return _object(await self._request("PATCH", path, body=body, content_type=MERGE_PATCH))

    async def patch_status(
        self, resource: Resource, namespace: str | None, name: str, status: Object, *, uid: str | None = None
    ) -> Object:
        """Merge into the status of an object whose resource has the subresource ``status``."""
        return await self.patch(resource, namespace, name, {"status": status}, uid=uid, subresource="status")

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: float | None = None,
    ) -> None:
        """Ask for the deletion of an object and, in the background, of its dependents.

        The object is gone when `get` raises a 404. Raises `ApiError` with status 404 if there is none of this
        name, 409 if it has another uid than ``uid`` or another resource version than ``version``. ``grace`` is the
        grace period in seconds.
        """
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        preconditions = {"uid": uid, "resourceVersion": version}
        if given := {name: value for name, value in preconditions.items() if value is not None}:
            options["preconditions"] = given
        if grace is not None:
            options["gracePeriodSeconds"] = max(0, round(grace))
        await self._request("DELETE", resource.path(namespace, name), body=options)

    # ---------- streams

    async def open_websocket(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket of a subresource. Raises `ApiError`."""
        return await self._connection.open_websocket(path, query=query, protocol=protocol)

    # ---------- underneath

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        headers = {**ACCEPT, "Content-Type": content_type}
        async with self._slots:
            response = await self._connection.send(
                method, path, query=query or {}, headers=headers, body=body, timeout=self._timeout
            )
            try:
                async with response:
                    content = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise no_answer(error) from error
        if response.status >= 300:
            raise error_of(response.status, content, response.headers)
        return content


def connect(
    kubeconfig: Path | None = None,
    *,
    timeout: float = REQUEST_TIMEOUT,
    watch_seconds: float = WATCH_SECONDS,
    watch_overdue: float = WATCH_OVERDUE,
) -> Api:
    """Return a client of the cluster in the kubeconfig file, or of this pod's own cluster for None.

    Nothing is read or connected before the first request. The other arguments are those of `Api`.
    """
    connection = Connection(kubeconfig)
    return Api(connection, timeout=timeout, watch_seconds=watch_seconds, watch_overdue=watch_overdue)


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a stream, of any length; a last line without its end is left out."""
    rest = bytearray()
    async for chunk in content.iter_any():
        rest += chunk
        if b"\n" in chunk:
            *lines, last = rest.split(b"\n")
            rest = bytearray(last)
            for line in lines:
                yield bytes(line)


def _event(line: bytes) -> WatchEvent:
    try:
        event = msgspec.json.decode(line, type=WatchEvent)
    except msgspec.DecodeError as error:
        raise ApiError(0, "Unreadable", f"A line of a watch is not a watch event: {given(line, 200)}") from error
    if event.type == "ERROR":
        raise error_of(500, bytes(event.object), {})
    return event


def _object(body: bytes) -> Object:
    return _decoded(body, Object)


def _decoded(body: bytes, decode_as: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=decode_as)
    except msgspec.DecodeError as error:
        raise ApiError(0, "Unreadable", f"The API's answer is not an object: {given(body, 200)}") from error
