"""The sessions that are open in jobs: how many for each person, and how long without use."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from springtide.hub_extension.api.limits import Slots
from springtide.hub_extension.web.problems import Busy
from springtide.scheduler.executors.session import Session
from springtide.scheduler.refusal import Refusal

SESSIONS: Final = 8
"""Maximum number of open sessions of one person, unless the service is configured otherwise."""
IDLE_S: Final = 3600.0
"""Time after which a session without input and output is closed, unless the service is configured otherwise."""
ATTACH_WITHIN_S: Final = 30.0
"""Time in which the WebSocket of a new session must be opened, in seconds."""


@dataclass(slots=True, eq=False)
class OpenSession:
    """A session, and whose it is: the person ``user``, in a job of the project ``project``."""

    id: str
    session: Session
    user: str
    project: str
    used: float
    attached: bool = False
    slot: ExitStack = field(default_factory=ExitStack)


class Sessions:
    """The open sessions, by id. ``clock`` is a monotonic clock; ``idle`` is in seconds."""

    def __init__(
        self, most: int = SESSIONS, idle: float = IDLE_S, clock: Callable[[], float] | None = None
    ) -> None:
        self.idle = idle
        self._slots = Slots(most)
        self._clock = clock
        self._open: dict[str, OpenSession] = {}

    def now(self) -> float:
        """Return the time on the clock of the limits."""
        return (self._clock or asyncio.get_running_loop().time)()

    def reserve(self, user: str) -> ExitStack:
        """Take one of a person's places, until the result is closed. Raises `Busy` if all are taken."""
        slot = ExitStack()
        slot.enter_context(self._slots.hold(user, self._one_too_many))
        return slot

    def add(self, session: Session, user: str, project: str, slot: ExitStack) -> OpenSession:
        """Keep a new session, which is closed unless its WebSocket is opened soon."""
        opened = OpenSession(secrets.token_urlsafe(24), session, user, project, self.now(), slot=slot)
        self._open[opened.id] = opened
        asyncio.get_running_loop().call_later(ATTACH_WITHIN_S, self._expire, opened)
        return opened

    def _expire(self, opened: OpenSession) -> None:
        if not opened.attached and opened.id in self._open:
            asyncio.ensure_future(self.close(opened)).add_done_callback(lambda done: done.exception())

    def attach(self, session_id: str, user: str) -> OpenSession:
        """Return a person's session for its only WebSocket. Raises `Refusal` 404 or 409."""
        opened = self._open.get(session_id)
        if opened is None or opened.user != user:
            raise Refusal(404, "not_found", "There is no such session.", hint="It may have ended. Open another.")
        if opened.attached:
            raise Refusal(409, "attached", "The session has its connection already.", hint="Open another one.")
        opened.attached = True
        return opened

    async def close(self, opened: OpenSession) -> None:
        """End a session. Idempotent."""
        self._open.pop(opened.id, None)
        opened.slot.close()
        await opened.session.close()

    async def close_all(self) -> None:
        """End all sessions."""
        for opened in list(self._open.values()):
            await self.close(opened)

    def _one_too_many(self) -> Refusal:
        most = self._slots.most
        return Busy(
            "too_many_sessions",
            f"You have {most} terminals and commands open in jobs already, the most that one person may.",
            retry_after=30,
            hint="Close one of them first.",
        )
