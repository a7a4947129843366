"""Requests to the API of a cluster."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from springtide.scheduler.kube.errors import ApiError, error_of
from springtide.scheduler.kube.resources import Resource

Object: TypeAlias = dict[str, Any]
T = TypeVar("T")

CONNECTIONS = 32
"""Requests at a time."""
TIMEOUT = 30.0
"""Seconds after which a request has failed."""
CONNECT = 10.0
PAGE = 500
WATCH = 25.0
"""Seconds after which the server ends a watch; it sends a bookmark before."""
SILENCE = 10.0
"""Seconds beyond that after which a watch without a word is dead."""

LINGER = 0.05
"""Seconds that connections have to say goodbye."""

MERGE = "application/merge-patch+json"
PLAIN: Mapping[str, str] = {"Accept": "application/json", "Accept-Encoding": "identity"}


class Login(ABC):
    """Where the API is and how to prove who we are; readable once loaded."""

    @abstractmethod
    async def load(self) -> None:
        """Read it anew. Raises `ApiError` if that is not possible."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def proxy(self) -> str | None: ...

    @property
    @abstractmethod
    def server_hostname(self) -> str | None: ...

    @abstractmethod
    def tls(self) -> ssl.SSLContext: ...

    @abstractmethod
    async def headers(self) -> Mapping[str, str]:
        """What every request says."""


class _Meta(msgspec.Struct, frozen=True):
    resourceVersion: str = ""  # noqa: N815 - the API's word
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _Meta = _Meta()
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``, and the object's JSON."""

    type: str
    object: msgspec.Raw


class Answer(Generic[T]):
    """What a list gave: the objects as JSON, and the version of the whole to watch from."""

    __slots__ = ("items", "version")

    def __init__(self, items: list[T], version: str) -> None:
        self.items = items
        self.version = version


class Api:
    """The API of one cluster; plain objects in and out, `ApiError` for whatever does not work.

    At most ``connections`` requests run at a time, watches not counted; each has ``timeout`` seconds from its turn
    on. Nothing is tried again here, except once with a fresh login after a 401. A write that had no answer may
    have happened (`ApiError.perhaps_done`). The server ends a watch after ``watch`` seconds; after ``silence``
    seconds more without a word it is taken for dead.
    """

    def __init__(
        self,
        login: Login,
        *,
        connections: int = CONNECTIONS,
        timeout: float = TIMEOUT,
        watch: float = WATCH,
        silence: float = SILENCE,
    ) -> None:
        self.watch_seconds = watch
        self._login = login
        self._silence = silence
        self._turns = asyncio.Semaphore(connections)
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT)
        self._opening = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections; the next request would open new ones."""
        sessions, self._session, self._watches = (self._session, self._watches), None, None
        for session in sessions:
            if session is not None:
                await session.close()
                await asyncio.sleep(LINGER)

    # ---------- reading

    async def list(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        """All objects that the selectors choose, and the version to watch from."""
        answer = await self.list_raw(resource, namespace, labels=labels, fields=fields)
        return [msgspec.json.decode(item) for item in answer.items], answer.version

    async def list_raw(
        self, resource: Resource, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Answer[msgspec.Raw]:
        """Like `list`, with each object as JSON."""
        found: list[msgspec.Raw] = []
        query = {"limit": str(PAGE), "labelSelector": labels, "fieldSelector": fields}
        while True:
            body = await self._request("GET", resource.path(namespace), query=query)
            page = msgspec.json.decode(body, type=_Page)
            found += page.items or ()
            if not page.metadata.continue_:
                return Answer(found, page.metadata.resourceVersion)
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
        """What happens after the version ``since``, bookmarks too, for about `watch_seconds`.

        Raises `ApiError`, with status 410 if the version is too old, and with status 0 if nothing is heard.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": f"{max(1, round(self.watch_seconds))}",
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT, sock_read=self.watch_seconds + self._silence)
        session = await self._open(watching=True)
        try:
            async with session.get(
                self._url(resource.path(namespace), query),
                headers=await self._login.headers(),
                timeout=timeout,
                proxy=self._login.proxy,
                server_hostname=self._login.server_hostname,
            ) as response:
                if response.status == 401:
                    await self._login.load()
                if response.status >= 300:
                    raise error_of(response.status, await response.read(), response.headers)
                async for line in _lines(response.content):
                    yield _event(line)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unanswered(error) from error

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object; `ApiError` with status 404 if there is none."""
        return _object(await self._request("GET", resource.path(namespace, name)))

    # ---------- writing

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """Make an object; `ApiError` with status 409 if one of that name is there."""
        return _object(await self._request("POST", resource.path(namespace), body=body))

    async def replace(
        self, resource: Resource, namespace: str | None, name: str, body: Object, *, part: str = ""
    ) -> Object:
        """Put an object in the place of what is there; 409 if that is not the version ``body`` was made from."""
        return _object(await self._request("PUT", resource.path(namespace, name, part), body=body))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        uid: str | None = None,
        part: str = "",
    ) -> Object:
        """Merge ``body`` into an object (a null deletes); 409 or 422 if it is not the one with this uid."""
        if uid is not None:
            body = {**body, "metadata": {**body.get("metadata", {}), "uid": uid}}
        path = resource.path(namespace, name, part)
        return _object(await self._request("PATCH", path, body=body, content_type=MERGE))

    async def patch_status(
        self, resource: Resource, namespace: str | None, name: str, status: Object, *, uid: str | None = None
    ) -> Object:
        """Merge into the status of an object, where that is a part of its own."""
        return await self.patch(resource, namespace, name, {"status": status}, uid=uid, part="status")

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        grace: float | None = None,
    ) -> None:
        """Ask for an object to be deleted; what depends on it follows.

        404 if there is none, 409 if it is not the one with this uid. It is gone when it is not found any more.
        """
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = max(0, round(grace))
        await self._request("DELETE", resource.path(namespace, name), body=options)

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
        session = await self._open()
        data = None if body is None else msgspec.json.encode(body)
        for last in (False, True):
            try:
                async with (
                    self._turns,
                    session.request(
                        method,
                        self._url(path, query or {}),
                        data=data,
                        headers={**await self._login.headers(), "Content-Type": content_type},
                        timeout=self._timeout,
                        proxy=self._login.proxy,
                        server_hostname=self._login.server_hostname,
                    ) as response,
                ):
                    answer = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unanswered(error) from error
            if response.status == 401 and not last:
                await self._login.load()
                continue
            if response.status >= 300:
                raise error_of(response.status, answer, response.headers)
            break
        return answer

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        given = {name: value for name, value in query.items() if value}
        return f"{self._login.url}{path}?{urlencode(given)}" if given else f"{self._login.url}{path}"

    async def _open(self, *, watching: bool = False) -> aiohttp.ClientSession:
        async with self._opening:
            if self._session is None or self._watches is None:
                await self._login.load()
                tls = self._login.tls()
                self._session, self._watches = (
                    aiohttp.ClientSession(
                        connector=aiohttp.TCPConnector(limit=0, ssl=tls), headers=PLAIN, read_bufsize=1 << 20
                    )
                    for _ in range(2)
                )
        return self._watches if watching else self._session


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, however long; a last one without its end is left out."""
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
        raise ApiError(0, "Unreadable", f"A watch said what is no event: {line[:200]!r}") from error
    if event.type == "ERROR":
        raise error_of(500, bytes(event.object), {})
    return event


def _object(body: bytes) -> Object:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict):
        raise ApiError(0, "Unreadable", f"The API's answer is no object: {body[:200]!r}")
    return found


def _unanswered(error: Exception) -> ApiError:
    if isinstance(error, TimeoutError):
        return ApiError(0, "Timeout", "The cluster's API did not answer in time.")
    return ApiError(0, "Unreachable", f"The cluster's API cannot be reached: {error or type(error).__name__}.")
