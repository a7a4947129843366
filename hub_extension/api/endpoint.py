"""One request of the API, from its first header to its answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import msgspec
from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPConnection
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, stream_request_body

from springtide.hub_extension.api import intake, permissions
from springtide.hub_extension.api.deleted_jobs import explained
from springtide.hub_extension.api.job_names import answer_for
from springtide.hub_extension.api.routes import (
    Answered,
    Call,
    Encoded,
    File,
    NoQuery,
    Operation,
    Pool,
    Reply,
    Route,
    Who,
)
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.handler import SiteHandler
from springtide.hub_extension.web.peers import account_of_peer
from springtide.hub_extension.web.problems import Busy, unknown_caller
from springtide.scheduler.refusal import Refusal

NOBODY = Caller("")
FORWARDED: Final = ("X-Forwarded-For", "X-Real-Ip", "Forwarded")
"""Headers of requests that came through a proxy."""
OCTETS: Final = "application/octet-stream"
JOB: Final = "/jobs/{id}"
"""The beginning of the addresses of one job."""
PIECE: Final = 256 * 1024
"""Size of the buffer for each reader of a file, in bytes."""
STALLED_S: Final = 60.0
"""Timeout of a file's reader that receives no data, in seconds."""


class RoutedHandler(SiteHandler):
    """Base class of the handlers of one address: admits the methods of its routes, and their callers."""

    def initialize(self, *_arguments: Any, **settings: Any) -> None:
        """Store the ``routes`` of this address by method."""
        super().initialize(**settings)
        self.routes: Mapping[str, Route] = settings["routes"]
        self.caller = NOBODY
        self.allowed = tuple(sorted(self.routes))

    async def prepare(self) -> None:
        """Check the method and the caller."""
        await self.admit(self.route)

    @property
    def route(self) -> Route:
        """The route of the request. Raises `HTTPError` 405 if this address does not have its method."""
        route = self.routes.get(str(self.request.method))
        if route is None:
            raise HTTPError(405)
        return route

    async def admit(self, route: Route) -> None:
        """Identify the caller. Raises `Refusal` 401 or 403 for one whom the route is not for."""
        if route.who is Who.ANYONE or (route.who is Who.LOGGED_IN_OR_OWN and self._is_own()):
            return
        caller = await self.identify()
        if caller is None:
            raise unknown_caller()
        self.caller = caller
        if caller.job is not None and not route.jobs:
            raise Refusal(
                403,
                "forbidden",
                "A program of a job may not do this.",
                hint="Programs of jobs submit, follow and end jobs of their user in their own project.",
            )
        if route.who is Who.ADMINS and not permissions.may_administer(caller):
            raise Refusal(403, "forbidden", "Only administrators of the pool may do this.")
        if route.who is Who.PROJECT_ADMINS and not caller.administers_some:
            raise Refusal(403, "forbidden", "Only administrators of the pool or of a project may do this.")
        if route.who is Who.SPAWNER and not permissions.may_reserve(caller):
            raise Refusal(
                403, "forbidden", "Only the hub itself may do this.", hint="Start a notebook from the hub."
            )

    def _is_own(self) -> bool:
        """Return whether the request comes directly from a process that runs as root or as this one's account."""
        if any(name in self.request.headers for name in FORWARDED):
            return False
        connection: HTTP1Connection = self.request.connection  # type: ignore[assignment]
        return account_of_peer(connection.stream.socket) in {0, os.geteuid()}


@stream_request_body
class Endpoint(RoutedHandler):
    """Handler of the operations of one address.

    The caller and the size of the body are checked before the body is stored. A refused body is read and discarded
    up to twice the maximum size, so that the sender receives the reason.
    """

    def initialize(self, *, pool: Pool, timed: Callable[[Route, float], None], **settings: Any) -> None:
        """Store the pool; ``timed`` is called with route and duration, in seconds, of every successful call."""
        super().initialize(**settings)
        self.pool = pool
        self.timed = timed
        self._chunks: list[bytes] = []
        self._size = 0
        self._refused: Refusal | None = None
        self._most = pool.max_body

    async def prepare(self) -> None:
        """Check the method, the caller and the headers, before the body is read."""
        route = self.route
        self._most = route.largest(self.pool.max_body)
        assert isinstance(self.request.connection, HTTPConnection)
        self.request.connection.set_max_body_size(3 * self._most)  # type: ignore[attr-defined]
        try:
            await self.admit(route)
            self._check_headers(route)
        except Refusal as refusal:
            self._refused = refusal
            if self._announced() > 2 * self._most:
                raise

    def _check_headers(self, route: Route) -> None:
        if self._announced() > self._most:
            raise self._too_large()
        headers = self.request.headers
        if route.body is None:
            return
        media = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if route.body is bytes:
            if media != OCTETS or headers.get("Content-Encoding", "identity") != "identity":
                raise Refusal(
                    415,
                    "media_type",
                    "The body must be plain bytes.",
                    hint=f"Send it with Content-Type: {OCTETS}.",
                )
            return
        if media != "application/json" or headers.get("Content-Encoding", "identity") != "identity":
            raise Refusal(
                415,
                "media_type",
                "The body must be plain JSON.",
                hint="Send it with Content-Type: application/json.",
            )

    def _announced(self) -> int:
        length = self.request.headers.get("Content-Length", "0")
        return int(length) if length.isdecimal() and length.isascii() else 0

    def _too_large(self) -> Refusal:
        most = self._most
        return Refusal(
            413,
            "too_large",
            f"The request is larger than {most / 2**20:g} MiB ({most} bytes), the most this pool takes.",
            hint="Ask for less at once."
            if most < self.pool.max_body
            else "Keep data in files that the job reads, instead of in its code or arguments.",
        )

    def data_received(self, chunk: bytes) -> None:
        """Store a chunk of the body, or discard it if the request is refused."""
        self._size += len(chunk)
        if self._refused is None and self._size > self._most:
            self._refused = self._too_large()
        if self._refused is None:
            self._chunks.append(chunk)
            return
        self._chunks.clear()
        if self._size > 2 * self._most:
            self.send_error(exc_info=(type(self._refused), self._refused, None))

    async def _answer(self, **parts: str) -> None:
        if self._refused is not None:
            raise self._refused
        route = self.route
        assert isinstance(route, Operation)
        arguments = {name: intake.checked(value, route.parts[name], name) for name, value in parts.items()}
        query = intake.query_of(self.request.query_arguments, route.query or NoQuery)
        if route.query is not None:
            arguments["query"] = query
        if route.body is not None:
            content = b"".join(self._chunks)
            self._chunks.clear()
            arguments["body"] = self._body(content, route.body)
        self._chunks.clear()
        try:
            answer = await route(Call(self.pool, self.caller), **arguments)
        except Refusal as refusal:
            caller = await self.identify_again() if _is_of_rights(refusal) else None
            if caller is None:
                raise await self._explained(refusal, arguments) from None
            self.caller = caller
            answer = await route(Call(self.pool, caller), **arguments)
        await self._send(answer, route.status)
        self.timed(route, self.request.request_time())

    async def _explained(self, refusal: Refusal, arguments: Mapping[str, Any]) -> Refusal:
        """Return a refusal as it is, or for a job that was deleted since the call began, by whom."""
        if not self.route.path.startswith(JOB):
            return refusal
        return await explained(refusal, self.pool, self.caller, arguments["id"])

    @staticmethod
    def _body(content: bytes, kind: type[msgspec.Struct | bytes]) -> msgspec.Struct | bytes:
        return content if issubclass(kind, bytes) else intake.body_of(content, kind)

    get = post = put = patch = delete = _answer

    async def _send(self, answer: Answered, status: int) -> None:
        if isinstance(answer, File):
            with answer.content as content, self.pool.downloads.hold(self.caller.name, self._one_too_many):
                self.set_header("Content-Type", OCTETS)
                self.set_header(
                    "Content-Disposition", f"attachment; filename*=UTF-8''{quote(answer.name, safe='')}"
                )
                await self._send_pieces(content)
        elif answer is None:
            self.set_status(204)
            self.finish()
        else:
            body, status = (answer.body, answer.status) if isinstance(answer, Reply) else (answer, status)
            body = answer_for(body, self.caller)
            self.set_status(status)
            self.set_header("Content-Type", "application/json")
            self.finish(body.json if isinstance(body, Encoded) else msgspec.json.encode(body))

    def compute_etag(self) -> None:
        """Return None: clients store no answers, so none needs a tag."""

    async def _send_pieces(self, content: BinaryIO) -> None:
        """Send a file at its current size, no faster than the reader takes it.

        Closes the connection if the reader takes no data for `STALLED_S` or the file has become shorter.
        """
        left = os.fstat(content.fileno()).st_size
        self.set_header("Content-Length", str(left))
        with contextlib.suppress(StreamClosedError):
            while left:
                piece = await asyncio.to_thread(content.read, min(PIECE, left))
                left -= len(piece)
                self.write(piece)
                try:
                    await asyncio.wait_for(self.flush(), STALLED_S)
                except TimeoutError:
                    piece = b""
                if not piece:
                    self.detach().close()
                    return
            self.finish()

    def _one_too_many(self) -> Refusal:
        most = self.pool.downloads.most
        return Busy(
            "too_many_downloads",
            f"You are fetching {most} outputs already, the most that one person may at a time.",
            retry_after=1,
            hint="Try again when one of them has come.",
        )


def _is_of_rights(refusal: Refusal) -> bool:
    """Return whether projects and rights of the caller may have decided a refusal."""
    return refusal.status in {403, 404} or refusal.code == "missing"
