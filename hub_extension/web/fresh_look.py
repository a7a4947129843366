"""A fresh look at callers who are refused: what the hub said about them may be outdated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from jupyterhub.services.auth import HubOAuth
from tornado.web import HTTPError, RequestHandler

from springtide.scheduler.lru_cache import LruCache

EVERY_S: Final = 1.0
"""Least interval between two looks at one token, in seconds: a refused program may repeat its request at once."""
MAX_TOKENS: Final = 10_000
"""Maximum number of tokens with a remembered look."""


class FreshLook:
    """Whether the hub says something else about the owner of a token than it did before.

    ``clock`` returns seconds of any origin.
    """

    def __init__(self, hub_auth: HubOAuth, clock: Callable[[], float]) -> None:
        self._hub = hub_auth
        self._clock = clock
        self._looked: LruCache[bytes, float] = LruCache(MAX_TOKENS)

    async def finds_change(self, handler: RequestHandler) -> bool:
        """Return whether groups or scopes of the caller have changed; if so, all answers of the hub are forgotten.

        A caller who was looked at within `EVERY_S` has not changed, nor has one while the hub does not answer.
        """
        token, session_id = self._hub.get_token(handler), self._hub.get_session_id(handler)
        if not token:
            return False
        key, now = hashlib.sha256(token.encode()).digest(), self._clock()
        last = self._looked.get(key)
        if last is not None and now - last < EVERY_S:
            return False
        self._looked.put(key, now)
        try:
            known = await self._hub.user_for_token(token, session_id=session_id, sync=False)
            present = await self._hub.user_for_token(token, use_cache=False, session_id=session_id, sync=False)
        except HTTPError:
            return False
        if _rights(known) == _rights(present):
            return False
        self._hub.cache.clear()
        return True


def _rights(model: dict[str, Any] | None) -> tuple[frozenset[str], frozenset[str]]:
    found = model or {}
    return frozenset(found.get("groups", ())), frozenset(found.get("scopes", ()))
