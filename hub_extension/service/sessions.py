"""The WebSocket of a session in a job, with a bound for what waits in each direction."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import Any, ClassVar, Final

import msgspec
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.endpoint import RoutedHandler
from springtide.hub_extension.api.open_sessions import OpenSession
from springtide.hub_extension.api.permissions import Action
from springtide.hub_extension.api.routes import Pool, Route, Who
from springtide.hub_extension.web.handler import SiteHandler
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import SessionEnd, TerminalSize
from springtide.scheduler.wire.sessions import BEAT_S, MAX_FRAME, SILENCE_S, SUBPROTOCOL, WINDOW, Channel
from springtide.scheduler.wording import exactly

log = logging.getLogger("springtide")

VIOLATION: Final = 1008
"""Code of the close frame after a message that the protocol does not allow."""
MAX_CONTROL: Final = 200
"""Maximum size of a message that is no input, in bytes."""
LONGEST_NUMBER: Final = 7
"""Maximum number of digits of a confirmation."""


class SessionHandler(RoutedHandler, WebSocketHandler):
    """Handler of the WebSocket of one session. The permission is checked again every ``recheck`` seconds."""

    ROUTE: ClassVar = Route(
        method="GET",
        path="/sessions/{id}",
        who=Who.LOGGED_IN,
        summary="Open the WebSocket of a session that the caller has started in a job",
        parts={"id": str},
        status=101,
        media="application/octet-stream",
    )

    def initialize(self, *, pool: Pool, recheck: float, **settings: Any) -> None:
        """Store the pool, and the interval of the permission check, in seconds."""
        super().initialize(**settings)
        self.pool = pool
        self.recheck = recheck
        self.opened: OpenSession | None = None
        self.room = WINDOW
        self.confirmed = asyncio.Event()
        self.input: deque[bytes] = deque()
        self.waiting = 0
        self.arrived = asyncio.Event()
        self.heard = 0.0
        self.task: asyncio.Task[None] | None = None

    @property
    def max_message_size(self) -> int:
        """The maximum size of a message, in bytes."""
        return MAX_FRAME + 1

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """Return the protocol of sessions if the client speaks it."""
        return SUBPROTOCOL if SUBPROTOCOL in subprotocols else None

    def check_origin(self, origin: str = "") -> bool:  # type: ignore[override]  # noqa: ARG002
        """Return True: `prepare` has checked the origin."""
        return True

    async def prepare(self) -> None:
        """Check method, origin and caller."""
        SiteHandler.check_origin(self)
        await super().prepare()

    async def get(self, id: str) -> None:  # noqa: A002 - as the part of the path
        """Take over a session of the caller's. Raises `Refusal` if there is none."""
        offered = [each.strip() for each in self.request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        if self.request.headers.get("Upgrade", "").lower() != "websocket" or SUBPROTOCOL not in offered:
            raise Refusal(
                400, "no_websocket", "This address is a WebSocket.", hint=f"Its subprotocol is {SUBPROTOCOL}."
            )
        self.opened = self.pool.sessions.attach(id, self.caller.name)
        try:
            await super().get(id)
        finally:
            if self.ws_connection is None:
                await self.pool.sessions.close(self.opened)

    def open(self, *_arguments: str, **_named: str) -> None:
        """Begin to pass on input and output."""
        self.task = asyncio.ensure_future(self._serve())
        self.task.add_done_callback(_log_failure)

    async def _serve(self) -> None:
        """Pass on input and output until the program has ended, the client is gone, or may not stay."""
        opened = self._session()
        work = [asyncio.ensure_future(part()) for part in (self._pass_output, self._pass_input, self._watch)]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            end = next((found for each in done if (found := each.result()) is not None), SessionEnd())
            with suppress(WebSocketClosedError):
                await self._send(Channel.END, msgspec.json.encode(end))
            self.close(1000)
        except WebSocketClosedError:
            pass
        finally:
            for each in work:
                each.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await self.pool.sessions.close(opened)

    def _session(self) -> OpenSession:
        assert self.opened is not None
        return self.opened

    async def _send(self, channel: Channel, content: bytes) -> None:
        await self.write_message(bytes([channel]) + content, binary=True)

    async def _pass_output(self) -> SessionEnd | None:
        """Send output as far as the client takes it; return the end of the program."""
        opened = self._session()
        while (piece := await opened.session.read()) is not None:
            stream, data = piece
            opened.used = self.pool.sessions.now()
            while self.room < len(data):
                self.confirmed.clear()
                await self.confirmed.wait()
            self.room -= len(data)
            await self._send(Channel(stream), data)
        return opened.session.end

    async def _pass_input(self) -> SessionEnd | None:
        """Send input to the program as far as it takes it, and confirm that to the client."""
        session = self._session().session
        while True:
            while not self.input:
                self.arrived.clear()
                await self.arrived.wait()
            data = self.input.popleft()
            await session.write(data)
            self.waiting -= len(data)
            await self._send(Channel.TAKEN, b"%d" % len(data))

    async def _watch(self) -> SessionEnd:
        """Return why the session ends: it is idle, its client is silent, or its person may not stay."""
        sessions, opened = self.pool.sessions, self._session()
        self.heard = sessions.now()
        while True:
            await asyncio.sleep(min(BEAT_S, self.recheck, sessions.idle))
            await self._send(Channel.TAKEN, b"0")
            if sessions.now() - self.heard >= SILENCE_S:
                return SessionEnd(reason="The client has been silent for too long.")
            if sessions.now() - opened.used >= sessions.idle:
                return SessionEnd(reason=f"Nothing was typed or shown for {exactly(sessions.idle)}.")
            if not await self._may_stay(opened):
                return SessionEnd(reason="You may not be in this job any more.")

    async def _may_stay(self, opened: OpenSession) -> bool:
        """Return whether the caller may still be here; while the hub does not answer, the permission is kept."""
        try:
            caller = await self.identify()
        except Refusal as refusal:
            return refusal.status == 503
        return caller is not None and permissions.may(caller, Action.ENTER, opened.project, opened.user)

    async def on_message(self, message: str | bytes) -> None:
        """Take a message of the client; close the connection after one that the protocol does not allow."""
        try:
            content = b"" if isinstance(message, str) else message
            await self._take(Channel(int.from_bytes(content[:1] or b"\xff")), content[1:])
        except (ValueError, msgspec.DecodeError):
            self.close(VIOLATION, "This message is not allowed.")

    async def _take(self, channel: Channel, content: bytes) -> None:
        """Take a message. Raises `ValueError` or `msgspec.DecodeError` for one that is not allowed."""
        opened = self._session()
        self.heard = self.pool.sessions.now()
        if channel is Channel.INPUT:
            self.waiting += len(content)
            if self.waiting > WINDOW or len(self.input) > WINDOW:
                raise ValueError
            opened.used = self.pool.sessions.now()
            self.input.append(content)
            self.arrived.set()
        elif channel is Channel.SIZE and len(content) <= MAX_CONTROL:
            await opened.session.resize(msgspec.json.decode(content, type=TerminalSize))
        elif channel is Channel.TAKEN and content.isdigit() and len(content) <= LONGEST_NUMBER:
            self.room += int(content)
            if self.room > WINDOW:
                raise ValueError
            self.confirmed.set()
        else:
            raise ValueError

    def on_close(self) -> None:
        """End the session: the client is gone."""
        if self.task is not None:
            self.task.cancel()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("A session in a job failed", exc_info=error)
