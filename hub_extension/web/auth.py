"""Authentication of callers by the hub: by token for programs and by OAuth for browsers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from jupyterhub.services.auth import HubOAuth
from tornado.web import HTTPError, RequestHandler

from springtide.hub_extension.web.caller import EVERY, Caller
from springtide.scheduler.lru_cache import LruCache
from springtide.scheduler.refusal import Refusal

SERVICE: Final = "springtide"
"""Name of the service on the hub."""

ADMIN_SCOPE: Final = "custom:springtide:admin"
"""Scope that makes its holder an administrator of the pool. It counts only without a filter.

`configure` grants it to the hub's administrators; a role of the hub can grant it to other users.
"""

PROJECT_ADMIN_SCOPE: Final = "custom:springtide:project-admin"
"""Scope that makes its holder an administrator of a project, ``…!group=PROJECT``; without a filter, of each."""

READ_SCOPE: Final = "custom:springtide:read"
"""Scope that lets its holder see the jobs of a project, ``…!group=PROJECT``; without a filter, of every one."""

CUSTOM_SCOPES: Final[Mapping[str, Mapping[str, str]]] = {
    ADMIN_SCOPE: {"description": "Administer the pool of GPUs"},
    PROJECT_ADMIN_SCOPE: {"description": "Administer a project of the pool of GPUs"},
    READ_SCOPE: {"description": "See the jobs of a project of the pool of GPUs"},
}
"""Definitions of the scopes for the hub."""

OAUTH_SCOPES: Final = (
    "admin:groups",
    "groups",
    "list:users",
    "admin-ui",
    "delete:servers",
    ADMIN_SCOPE,
    PROJECT_ADMIN_SCOPE,
    READ_SCOPE,
)
"""Scopes that a browser's token inherits from its user if the user has them (``oauth_client_allowed_scopes``).

With them an admin administers the pool on its pages, and changes groups with the admin's own permissions; everyone
stops workspaces with the own permissions.
"""

SERVICE_SCOPES: Final = ("list:groups", "read:groups", "list:users", "read:users", "read:servers")
"""Scopes of the service's own token on the hub."""

STOP_SCOPE: Final = "delete:servers"
"""Scope of the service's own token with which it stops idle workspaces, if the admin has allowed that."""


UNKNOWN_S: Final = 5.0
"""Time for which the hub is not asked again whether it knows a token that it did not know, in seconds."""
MAX_UNKNOWN: Final = 10_000
"""Maximum number of tokens of which is remembered that the hub did not know them."""


class Authenticator(Protocol):
    """Authenticator of requests."""

    async def caller(self, handler: RequestHandler) -> Caller | None:
        """Return the caller; None without good credentials.

        Raises `Refusal`: 403 for a caller who may not use the pool or a browser request without its XSRF
        token, 503 if the hub does not answer.
        """


def is_page_view(method: str, mode: str, destination: str) -> bool:
    """Return whether the browser opens the answer as a page, in a tab of its own.

    ``mode`` and ``destination`` are the headers ``Sec-Fetch-Mode`` and ``Sec-Fetch-Dest``, which scripts cannot
    set. Users' notebooks may share the hub's origin: a request of any other kind may come from one of their
    scripts, which reads the answer. A missing header proves nothing.
    """
    return method == "GET" and mode == "navigate" and destination == "document"


def caller_of(model: Mapping[str, Any], token: str) -> Caller:
    """Return the caller from the hub's model of the user or service that a token belongs to.

    The scopes of the token decide what it may do, not the user's flag ``admin``: an admin's token with fewer
    scopes, such as that of a notebook, administers nothing.
    """
    service = model.get("kind", "user") == "service"
    scopes = model.get("scopes", ())
    return Caller(
        name=model["name"],
        groups=frozenset(() if service else model.get("groups", ())),
        admin=ADMIN_SCOPE in scopes,
        views=_projects_of(READ_SCOPE, scopes),
        administers=_projects_of(PROJECT_ADMIN_SCOPE, scopes),
        hub_admin="admin-ui" in scopes,
        service=service,
        token=token,
    )


def _projects_of(scope: str, scopes: Iterable[str]) -> frozenset[str]:
    """Return the projects that a scope is granted for: those of its filters ``!group=``; `EVERY` without one."""
    prefix = f"{scope}!group="
    named = {granted.removeprefix(prefix) for granted in scopes if granted.startswith(prefix)} - {EVERY}
    return frozenset(named | ({EVERY} if scope in scopes else set()))


class HubAuthenticator:
    """Authenticator that asks the hub for a token's owner.

    Answers are cached for at most ``hub_auth.cache_max_age`` seconds. ``confirm`` is called with the name and
    the token of a person before anything is done by that name. ``knows`` returns whether the hub knows a token,
    ``failing`` the refusal while the hub cannot say whose tokens are.
    """

    def __init__(
        self,
        hub_auth: HubOAuth,
        service_name: str,
        confirm: Callable[[str, str], Awaitable[None]],
        knows: Callable[[str], Awaitable[bool]],
        failing: Callable[[], Awaitable[Refusal]],
    ) -> None:
        self._hub = hub_auth
        self._confirm = confirm
        self._knows = knows
        self._failing = failing
        self._service_name = service_name
        self._unknown: LruCache[bytes, float] = LruCache(MAX_UNKNOWN)
        self._asking: dict[tuple[str, str], asyncio.Task[dict[str, Any] | None]] = {}

    async def caller(self, handler: RequestHandler) -> Caller | None:
        """See `Authenticator`. A token in the header takes precedence over a cookie.

        A cookie alone is not sufficient: ``handler.check_xsrf_cookie`` checks what must accompany it.
        """
        given = self._hub.get_token(handler, in_cookie=False)
        if given and hmac.compare_digest(given.encode(), self._hub.api_token.encode()):
            return Caller(self._service_name, service=True, spawner=True)
        token = given or self._hub.get_token(handler)
        if not token:
            return None
        if not given:
            handler.check_xsrf_cookie()
        model = await self._model(token, self._hub.get_session_id(handler))
        if model is None:
            return None
        if not self._hub.check_scopes(self._hub.access_scopes, model):
            raise Refusal(
                403,
                "no_access",
                f"{model['name']}'s token does not give access to the pool.",
                hint="It needs the scope " + " or ".join(sorted(self._hub.access_scopes)) + ".",
            )
        caller = caller_of(model, token)
        if not caller.service:
            await self._confirm(caller.name, token)
        return caller

    async def _model(self, token: str, session_id: str) -> dict[str, Any] | None:
        """Return the hub's model of the token's owner; concurrent requests with one token ask the hub once."""
        key = (token, session_id)
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.ensure_future(self._identified(token, session_id))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(task)

    async def _identified(self, token: str, session_id: str) -> dict[str, Any] | None:
        """Return the hub's model of the token's owner.

        A hub whose database cannot be written refuses tokens as if it did not know them.
        """
        model = await self._asked(token, session_id)
        if model is None and await self._is_known(token):
            self._forget_refusals()
            model = await self._asked(token, session_id)
        return model

    async def _asked(self, token: str, session_id: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] | None = await self._hub.user_for_token(token, session_id=session_id, sync=False)
        except HTTPError as error:
            raise await self._failing() from error
        return found

    async def _is_known(self, token: str) -> bool:
        """Return whether the hub knows a token that it has refused. Raises `Refusal` 503 without an answer."""
        key, now = hashlib.sha256(token.encode("utf8", "replace")).digest(), asyncio.get_running_loop().time()
        asked = self._unknown.get(key)
        if asked is not None and now - asked < UNKNOWN_S:
            return False
        try:
            known = await self._knows(token)
        except Refusal:
            self._forget_refusals()
            raise
        if not known:
            self._unknown.put(key, now)
        return known

    def _forget_refusals(self) -> None:
        """Ask the hub again about the tokens that it has refused."""
        cache = self._hub.cache
        for key in [key for key, model in cache.values.items() if model is None]:
            del cache.values[key], cache.timestamps[key]
