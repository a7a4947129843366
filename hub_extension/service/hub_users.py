"""Watch of the hub's users: handles the jobs of users who leave, are renamed, or are in no project any more."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from springtide.hub_extension.web.group_changes import GroupChanges
from springtide.hub_extension.web.hub import Members
from springtide.scheduler.backoff import Backoff
from springtide.scheduler.engine import Engine
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import Lead

log = logging.getLogger("springtide")

LOOK_S: Final = 30.0
"""Interval between two reads of the hub's users, in seconds."""
LONGEST_TRY_S: Final = 300.0
MAX_CONFIRMED: Final = 10_000
"""Maximum number of tokens with a remembered owner."""


class Users(Protocol):
    """The users and groups of the hub. Every method raises `Refusal` if the hub does not answer or refuses."""

    async def members(self, *, fresh: bool = False) -> Members:
        """Return all groups with their members."""

    async def users(self) -> Mapping[str, str]:
        """Return the identities of all users, by name."""

    async def identity(self, user: str) -> str | None:
        """Return the user who has the name now, None if there is none."""


class HubUserWatch:
    """Gives the pool the users' identities: at intervals, and before the first request of each token is answered.

    A name alone does not identify a person: another person may have received it. ``forget`` drops the remembered
    owners of tokens, after a name has passed from one person to another. ``leads``
    returns who administers which project, by the members of the groups; every project is the empty name.
    ``changes`` are those that the pool makes itself: what a read says of their groups may be outdated.
    """

    def __init__(
        self,
        engine: Engine,
        hub: Users,
        forget: Callable[[], None],
        leads: Callable[[Members], Mapping[str, Sequence[Lead]]] = lambda _: {},
        changes: GroupChanges | None = None,
    ) -> None:
        self._changes = changes or GroupChanges()
        self._forget = forget
        self._leads = leads
        self._engine = engine
        self._hub = hub
        self._confirmed: LruCache[bytes, bool] = LruCache(MAX_CONFIRMED)
        self._looking = asyncio.Lock()
        self._changed = asyncio.Event()
        self._changes.done = self.look_soon

    async def confirm(self, user: str, token: str) -> None:
        """Ensure that the pool's records of the name ``user`` belong to the token's owner.

        Raises `Refusal` 503 if the hub does not answer.
        """
        key = hashlib.sha256(f"{user}\0{token}".encode()).digest()
        if self._confirmed.get(key):
            return
        try:
            identity = await self._hub.identity(user)
            if identity is not None and identity != self._engine.identity(user):
                async with self._looking:
                    if identity != self._engine.identity(user):
                        await self._look()
        except Refusal as refusal:
            if refusal.status != 403:
                raise
        self._confirmed.put(key, True)

    def look_soon(self) -> None:
        """Read the users now: the pool has changed groups of the hub."""
        self._changed.set()

    async def run(self) -> None:
        """Read the users at intervals, until cancelled; an error is logged once until a read succeeds again."""
        trying = Backoff(LOOK_S, LONGEST_TRY_S)
        failed = ""
        while True:
            try:
                self._changed.clear()
                async with self._looking:
                    await self._look()
            except Refusal as refusal:
                if refusal.message != failed:
                    failed = refusal.message
                    log.warning("The users of the hub are not known: %s %s", refusal.message, refusal.hint)
                await asyncio.sleep(trying.next_delay())
                continue
            failed = ""
            trying.reset()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK_S)

    async def _look(self) -> None:
        mark = self._changes.mark()
        groups = await self._hub.members(fresh=True)
        users = dict(await self._hub.users())
        for name in self._engine.hub_names() - users.keys():  # a page of a list may miss users while others leave
            identity = await self._hub.identity(name)
            if identity is not None:
                users[name] = identity
        by_project = self._leads(groups)
        leads = {
            project: sorted({lead.name for name in (project, "") for lead in by_project.get(name, ())})
            for project in self._engine.project_parents()
        }
        if await self._engine.follow_hub(Seen(users, groups, leads, self._changes.since(mark))):
            self._forget()
            self._confirmed = LruCache(MAX_CONFIRMED)
