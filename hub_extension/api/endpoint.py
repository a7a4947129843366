"""One request of the API, from its first header to its answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import msgspec
from tornado.httputil import HTTPConnection
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, stream_request_body

from springtide.hub_extension.api import intake, permissions
from springtide.hub_extension.api.routes import Answered, Call, Encoded, File, Pool, Reply, Route, Who
from springtide.hub_extension.web.caller import Caller
from springtide.hub_extension.web.handler import SiteHandler
from springtide.hub_extension.web.problems import Busy, unknown_caller
from springtide.scheduler.refusal import Refusal

NOBODY = Caller("")
PIECE: Final = 256 * 1024
"""Maximum size of the part of a file that is in memory for each reader, in bytes."""
STALLED_S: Final = 60.0
"""Time after which the connection of a reader who takes no data of a file is closed, in seconds."""


@stream_request_body
class Endpoint(SiteHandler):
    """Handler of the routes of one address.

    The caller and the size of the body are checked before the body is stored. A refused body is read and discarded
    up to twice the maximum size, so that the sender receives the reason.
    """

    def initialize(
        self, *, pool: Pool, routes: Mapping[str, Route], timed: Callable[[Route, float], None], **settings: Any
    ) -> None:
        """Store the routes of this address by method.

        ``timed`` is called with the route and the duration, in seconds, of every successful call.
        """
        super().initialize(**settings)
        self.pool = pool
        self.timed = timed
        self.routes = routes
        self.caller = NOBODY
        self.allowed = tuple(sorted(routes))
        self._chunks: list[bytes] = []
        self._size = 0
        self._refused: Refusal | None = None
        self._most = pool.max_body

    async def prepare(self) -> None:
        """Check the method, the caller and the headers, before the body is read."""
        route = self.routes.get(str(self.request.method))
        if route is None:
            raise HTTPError(405)
        self._most = min(self.pool.max_body, route.most or self.pool.max_body)
        assert isinstance(self.request.connection, HTTPConnection)
        self.request.connection.set_max_body_size(3 * self._most)  # type: ignore[attr-defined]
        try:
            await self._admit(route)
            self._check_headers(route)
        except Refusal as refusal:
            self._refused = refusal
            if self._announced() > 2 * self._most:
                raise

    async def _admit(self, route: Route) -> None:
        if route.who is Who.ANYONE:
            return
        caller = await self.identify()
        if caller is None:
            raise unknown_caller()
        self.caller = caller
        if route.who is Who.ADMINS and not permissions.may_administer(caller):
            raise Refusal(403, "forbidden", "Only administrators of the pool may do this.")
        if route.who is Who.PROJECT_ADMINS and not caller.administers_some:
            raise Refusal(403, "forbidden", "Only administrators of the pool or of a project may do this.")
        if route.who is Who.SPAWNER and not permissions.may_reserve(caller):
            raise Refusal(
                403, "forbidden", "Only the hub itself may do this.", hint="Start a notebook from the hub."
            )

    def _check_headers(self, route: Route) -> None:
        if self._announced() > self._most:
            raise self._too_large()
        headers = self.request.headers
        if route.takes is None:
            return
        media = headers.get("Content-Type", "").partition(";")[0].strip().lower()
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
        route = self.routes[str(self.request.method)]
        assert route.call is not None
        call = Call(
            pool=self.pool,
            caller=self.caller,
            path={
                name: intake.checked(value, (route.parts or {}).get(name, str), name)
                for name, value in parts.items()
            },
            query=intake.query_of(self.request.query_arguments, route.query),
            body=None if route.takes is None else intake.body_of(b"".join(self._chunks), route.takes),
        )
        self._chunks.clear()
        await self._send(await route.call(call), route.status)
        self.timed(route, self.request.request_time())

    get = post = put = patch = delete = _answer

    async def _send(self, answer: Answered, status: int) -> None:
        if isinstance(answer, File):
            with answer.content as content, self.pool.downloads.hold(self.caller.name, self._one_too_many):
                self.set_header("Content-Type", "application/octet-stream")
                self.set_header(
                    "Content-Disposition", f"attachment; filename*=UTF-8''{quote(answer.name, safe='')}"
                )
                await self._send_pieces(content)
        elif answer is None:
            self.set_status(204)
            self.finish()
        else:
            body, status = (answer.body, answer.status) if isinstance(answer, Reply) else (answer, status)
            self.set_status(status)
            self.set_header("Content-Type", "application/json")
            self.finish(body.json if isinstance(body, Encoded) else msgspec.json.encode(body))

    def compute_etag(self) -> None:
        """Return None: no answer is to be stored, so none is asked for again by its tag."""

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
