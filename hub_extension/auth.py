"""Who is calling: the hub decides, by token for programs and by OAuth for browsers."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from typing import Any, Final, Protocol

from jupyterhub.services.auth import HubOAuth
from tornado.web import HTTPError, RequestHandler

from springtide.hub_extension.caller import Caller
from springtide.scheduler.refusal import Refusal

ADMIN_SCOPE: Final = "custom:springtide:admin"
"""Makes its holder an administrator of the pool without being one of the hub. Only unfiltered does it count."""

OAUTH_SCOPES: Final = ("admin:groups", "list:users", ADMIN_SCOPE)
"""What a browser's token may carry of its user's own rights (``oauth_client_allowed_scopes``), so that an admin
changes groups on the admin page with her own rights; of other users' rights these are no part."""

SERVICE_SCOPES: Final = ("list:groups", "read:groups", "read:users:name", "read:servers")
"""All that the service itself may do on the hub."""


class Authenticator(Protocol):
    """Tells who makes a request."""

    async def caller(self, handler: RequestHandler) -> Caller | None:
        """The caller, None without good credentials.

        Raises `Refusal`: 403 for a caller who may not use the pool or a browser request without its XSRF
        token, 503 if the hub cannot be asked.
        """


def needs_xsrf(method: str, mode: str, site: str) -> bool:
    """Whether a request with a cookie must prove that a page of ours made it.

    Always to change something. To read, unless the browser shows the answer as a page or keeps it from the
    page that asked, as ``Sec-Fetch-Mode`` and ``Sec-Fetch-Site`` tell; users' notebooks share the hub's origin.
    """
    if method not in {"GET", "HEAD"}:
        return True
    return not (mode in {"", "navigate"} or (mode == "no-cors" and site == "same-origin"))


def caller_of(model: Mapping[str, Any], token: str) -> Caller:
    """The caller from the hub's model of a user or service."""
    service = model.get("kind", "user") == "service"
    return Caller(
        name=model["name"],
        groups=frozenset(() if service else model.get("groups", ())),
        admin=model.get("admin") is True or ADMIN_SCOPE in model.get("scopes", ()),
        service=service,
        token=token,
    )


class HubAuthenticator:
    """Asks the hub who a token belongs to, and remembers the answer for at most ``hub_auth.cache_max_age``."""

    def __init__(self, hub_auth: HubOAuth, service_name: str) -> None:
        self._hub = hub_auth
        self._service_name = service_name
        self._asking: dict[tuple[str, str], asyncio.Task[dict[str, Any] | None]] = {}

    async def caller(self, handler: RequestHandler) -> Caller | None:
        """See `Authenticator`. A token in the header goes before a cookie, and needs no XSRF token."""
        given = self._hub.get_token(handler, in_cookie=False)
        if given and hmac.compare_digest(given.encode(), self._hub.api_token.encode()):
            return Caller(self._service_name, service=True, spawner=True)
        token = given or self._hub.get_token(handler)
        if not token:
            return None
        if not given:
            headers = handler.request.headers
            mode, site = headers.get("Sec-Fetch-Mode", ""), headers.get("Sec-Fetch-Site", "")
            if needs_xsrf(str(handler.request.method), mode, site):
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
        return caller_of(model, token)

    async def _model(self, token: str, session_id: str) -> dict[str, Any] | None:
        """The hub's model of the token's owner; requests that come together ask once."""
        key = (token, session_id)
        task = self._asking.get(key)
        if task is None:
            asking = self._hub.user_for_token(token, session_id=session_id, sync=False)
            task = self._asking[key] = asyncio.ensure_future(asking)
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        try:
            return await asyncio.shield(task)
        except HTTPError as error:
            raise Refusal(
                503,
                "hub_away",
                "The hub does not answer, so nobody can be identified.",
                hint="Running jobs go on; try again in a moment.",
            ) from error
