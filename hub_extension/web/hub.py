"""Client of the hub's groups: reads the members of projects and changes them in an administrator's own name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from ssl import SSLContext
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse

from springtide.scheduler.engine.store_threads import GO_ON, MAKE_ROOM
from springtide.scheduler.refusal import Refusal

PAGE: Final = 200
PAGED: Final = "application/jupyterhub-pagination+json"
TIMEOUT_S: Final = 20.0
MEMBERS_KEPT_S: Final = 10.0

Members = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Server:
    """A notebook server that runs, starts or stops. Times are seconds since the epoch, None if unknown."""

    name: str
    state: str
    path: str = ""
    since: float | None = None
    last_activity: float | None = None


class Groups(Protocol):
    """Projects, their members and the members' notebook servers.

    Every method raises `Refusal` if the hub does not answer or refuses the request.
    """

    async def members(self, *, fresh: bool = False) -> Members:
        """Return all groups with their members; the result is up to 10 seconds old unless ``fresh``."""

    async def identity(self, user: str) -> str | None:
        """Return what distinguishes the present user of a name from others of the name; None if there is none."""

    async def servers(self, user: str) -> tuple[Server, ...]:
        """Return a user's notebook servers that run, start or stop, by name."""

    async def stop_server(self, user: str, server: str, token: str | None) -> None:
        """Stop a user's notebook server, as the token's owner; None means the service itself."""

    async def create(self, name: str, token: str) -> None:
        """Create an empty group, as the token's owner."""

    async def delete(self, name: str, token: str) -> None:
        """Delete a group, as the token's owner."""

    async def add(self, name: str, user: str, token: str) -> None:
        """Add a user to a group, as the token's owner."""

    async def remove(self, name: str, user: str, token: str) -> None:
        """Remove a user from a group, as the token's owner."""


class HubGroups:
    """The groups of a running hub, through its REST API.

    ``token`` is the service's own and is used for reading (scopes ``list:groups``, ``read:groups``,
    ``list:users``, ``read:users``, ``read:servers``), and to stop idle workspaces if the admin has allowed that
    (scope ``delete:servers``). Other changes are made with the caller's token, so that the hub checks the caller's
    permissions; ``changed`` is called after each. If the hub's authenticator decides about groups (``managed``),
    the hub makes and deletes them itself. ``full_disk`` returns which disk of the pool is full, in a sentence,
    empty if none is.
    """

    def __init__(
        self,
        api_url: str,
        token: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        tls: SSLContext | None = None,
        full_disk: Callable[[], Awaitable[str]],
        changed: Callable[[], None] = lambda: None,
        managed: bool = False,
    ) -> None:
        self._managed = managed
        self._full_disk = full_disk
        self._api_url = api_url.rstrip("/")
        self._token = token
        self._clock = clock
        self._tls = tls
        self._changed = changed
        self._known: Members = {}
        self._known_at = float("-inf")
        self._changed_at = float("-inf")
        self._reading = asyncio.Lock()

    async def members(self, *, fresh: bool = False) -> Members:
        """See `Groups`."""
        asked = self._clock()
        async with self._reading:
            since = asked if fresh else asked - MEMBERS_KEPT_S
            if self._known_at < since or self._known_at <= self._changed_at:
                read_at = self._clock()
                self._known = await self._read()
                self._known_at = read_at
            return self._known

    async def knows(self, token: str) -> bool:
        """Return whether the hub knows a token of anybody's. Raises `Refusal` 503 if it gives no answer.

        A hub whose database cannot be written answers a request with the token as if it did not know it; this one,
        with the service's own token, it answers with an error.
        """
        response = await self._ask("GET", f"authorizations/token/{quote(token, safe='')}", self._token, None)
        if response.code in {401, 403} or response.code >= 500:
            raise await self.failing()
        return response.code == 200

    async def failing(self) -> Refusal:
        """Return the refusal of all requests while the hub does not know even the service's own token."""
        full = await self._full_disk()
        if full:
            message = f"{full} So the hub cannot check tokens and identifies no one."
            return Refusal(503, "hub_away", f"{message} {GO_ON}", hint=MAKE_ROOM)
        return Refusal(
            503,
            "hub_away",
            "The hub cannot check tokens and identifies no one: it may be starting, or its database"
            " may be full, damaged or read-only.",
            hint="Running jobs continue; try again in a moment, or ask an admin.",
        )

    async def users(self) -> dict[str, str]:
        """Return the identities of all users, by name: when each was created, which a rename does not change."""
        users = await self._pages("users", "The hub does not list its users.")
        return {user["name"]: _identity(user) for user in users}

    async def identity(self, user: str) -> str | None:
        """See `Groups`: the time at which the user was created."""
        response = await self._ask("GET", f"users/{quote(user, safe='')}", self._token, None)
        if response.code == 404:
            return None
        if response.code != 200:
            raise await self._refused(response)
        return _identity(msgspec.json.decode(response.body))

    async def servers(self, user: str) -> tuple[Server, ...]:
        """See `Groups`. A user whom the hub does not know has no servers."""
        response = await self._ask("GET", f"users/{quote(user, safe='')}", self._token, None)
        if response.code == 404:
            return ()
        if response.code != 200:
            raise await self._refused(response)
        servers: dict[str, Any] = msgspec.json.decode(response.body)["servers"]
        return tuple(_server(name, servers[name]) for name in sorted(servers) if not servers[name].get("stopped"))

    async def stop_server(self, user: str, server: str, token: str | None) -> None:
        """See `Groups`. It is no error if it has stopped already."""
        path = f"users/{quote(user, safe='')}/" + (f"servers/{quote(server, safe='')}" if server else "server")
        response = await self._ask("DELETE", path, self._token if token is None else token, None)
        if not 200 <= response.code < 300 and response.code != 404:
            raise await self._refused(response, "The hub does not let this token stop the workspace.")

    async def create(self, name: str, token: str) -> None:
        """See `Groups`. It is no error if the group exists already."""
        if not self._managed:
            await self._change("POST", f"groups/{quote(name, safe='')}", token, {}, fine={409})

    async def delete(self, name: str, token: str) -> None:
        """See `Groups`. It is no error if the group does not exist."""
        if not self._managed:
            await self._change("DELETE", f"groups/{quote(name, safe='')}", token, None, fine={404})

    async def add(self, name: str, user: str, token: str) -> None:
        """See `Groups`."""
        await self._change("POST", f"groups/{quote(name, safe='')}/users", token, {"users": [user]})

    async def remove(self, name: str, user: str, token: str) -> None:
        """See `Groups`."""
        await self._change("DELETE", f"groups/{quote(name, safe='')}/users", token, {"users": [user]})

    async def _read(self) -> Members:
        groups = await self._pages("groups")
        return {group["name"]: tuple(sorted(group.get("users", ()))) for group in groups}

    async def _pages(
        self, what: str, denied: str = "The hub does not let the pool list its groups."
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        offset: int | None = 0
        while offset is not None:
            response = await self._ask("GET", f"{what}?offset={offset}&limit={PAGE}", self._token, None)
            if response.code != 200:
                raise await self._refused(response, denied)
            page = msgspec.json.decode(response.body)
            found += page["items"]
            following = page["_pagination"]["next"]
            offset = None if following is None else int(following["offset"])
        return found

    async def _change(
        self,
        method: str,
        path: str,
        token: str,
        body: dict[str, Any] | None,
        fine: frozenset[int] | set[int] = frozenset(),
    ) -> None:
        response = await self._ask(method, path, token, body)
        self._changed_at = self._clock()
        self._changed()
        if not 200 <= response.code < 300 and response.code not in fine:
            raise await self._refused(response)

    async def _ask(self, method: str, path: str, token: str, body: dict[str, Any] | None) -> HTTPResponse:
        request = HTTPRequest(
            f"{self._api_url}/{path}",
            method=method,
            headers={"Authorization": f"token {token}", "Accept": PAGED, "Content-Type": "application/json"},
            body=None if body is None else msgspec.json.encode(body),
            allow_nonstandard_methods=True,
            request_timeout=TIMEOUT_S,
            follow_redirects=False,
            ssl_options=self._tls,
        )
        try:
            return await AsyncHTTPClient().fetch(request, raise_error=False)
        except OSError as error:
            raise _away() from error

    async def _refused(
        self, response: HTTPResponse, denied: str = "The hub does not let this token change groups."
    ) -> Refusal:
        """Return the refusal of the hub in words.

        A hub whose database cannot be written refuses every token: then the token's rights are not the cause.
        """
        if response.code == 599:
            return _away()
        is_denied = response.code in {401, 403}
        if (is_denied or response.code >= 500) and not await self._knows_service():
            return await self.failing()
        if response.code >= 500:
            return _away()
        if is_denied:
            return Refusal(
                403,
                "hub_refused",
                denied,
                hint="Use the admin page as an administrator of the hub, or a token with scope admin:groups.",
            )
        return Refusal(
            422,
            "hub_refused",
            f"The hub refused: {_said(response)}.",
            hint="People are known to the hub once they have logged in or an administrator has added them.",
        )

    async def _knows_service(self) -> bool:
        """Return whether the hub knows the service's own token."""
        return (await self._ask("GET", "user", self._token, None)).code == 200


def _server(name: str, about: Mapping[str, Any]) -> Server:
    pending = about.get("pending")
    state = "stopping" if pending == "stop" else "running" if about.get("ready") else "starting"
    return Server(
        name,
        state,
        path=str(about.get("url") or ""),
        since=_moment(about.get("started")),
        last_activity=_moment(about.get("last_activity")),
    )


def _identity(user: Mapping[str, Any]) -> str:
    """Return when a user was created. Raises `Refusal` 403 if the service may not read it."""
    created = user.get("created")
    if not created:
        message = "The hub does not let the pool read when its users were created."
        raise Refusal(403, "hub_refused", message, hint="The service needs the scopes list:users and read:users.")
    return str(created)


def _moment(text: str | None) -> float | None:
    """Return a time of the hub in seconds since the epoch."""
    return None if not text else datetime.fromisoformat(text).timestamp()


def _away() -> Refusal:
    return Refusal(
        503,
        "hub_away",
        "The hub does not answer, so the projects of users are unknown.",
        hint="Running jobs continue; try again in a moment.",
    )


def _said(response: HTTPResponse) -> str:
    """Return the message of the hub's answer, or its status code if there is no message."""
    try:
        return str(msgspec.json.decode(response.body)["message"])[:300].rstrip(". ")
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"status {response.code}"
