"""Readers of the metrics by their accounts in the cluster, as Prometheus has one. Needs the extra ``kubernetes``.

The cluster says whose a token is, and whether that account may get the path ``/metrics``, as controllers of the
cluster ask it: a ClusterRole with ``nonResourceURLs: [/metrics]`` gives the right.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from springtide.scheduler.kube import Api, ApiError
from springtide.scheduler.kube.resources import ACCESS_REVIEWS_OF_OTHERS, TOKEN_REVIEWS, Resource
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wording import LONG_GIVEN, given

log = logging.getLogger("springtide")

PATH: Final = "/metrics"
KNOWN_S: Final = 60.0
"""Time for which a right holds, in seconds."""
REFUSED_S: Final = 5.0
"""Time for which a refusal holds, in seconds."""
MAX_KNOWN: Final = 256
"""Maximum number of tokens whose answers are remembered."""
MAX_TOKEN: Final = 8192
"""Length of the longest token that the cluster is asked about, in characters."""
FORBIDDEN: Final = 403

_TOKEN: Final = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
"""The shape of the cluster's tokens, which those of hubs do not have."""


class _Answer(NamedTuple):
    until: float
    account: str
    allowed: bool


class Scrapers:
    """The accounts of a cluster that may read the metrics. ``clock`` returns seconds."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[bytes, _Answer] = {}
        self._asking = asyncio.Lock()
        self._warned = False

    async def admits(self, token: str) -> bool:
        """Return whether the token's account may read the metrics, False for a token that is not the cluster's.

        Raises `Refusal`: 403 for an account that may not, 503 if the cluster does not answer.
        """
        if len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
            return False
        digest = hashlib.sha256(token.encode()).digest()
        async with self._asking:
            answer = self._known.get(digest)
            if answer is None or answer.until <= self._clock():
                answer = await self._ask(token)
                self._known = {known: each for known, each in self._known.items() if each.until > self._clock()}
                if len(self._known) < MAX_KNOWN:
                    self._known[digest] = answer
        if answer.account and not answer.allowed:
            raise Refusal(
                403,
                "forbidden",
                f"The account {given(answer.account, LONG_GIVEN)} may not read the metrics.",
                hint=f"Bind a ClusterRole with nonResourceURLs: [{PATH}] and verbs: [get] to it.",
            )
        return answer.allowed

    async def _ask(self, token: str) -> _Answer:
        """Ask the cluster about a token. An empty account: the cluster does not know it, or may not be asked."""
        refused = self._clock() + REFUSED_S
        try:
            status = await self._review(TOKEN_REVIEWS, "TokenReview", {"token": token})
            user = status.get("user", {})
            if not status.get("authenticated") or not user.get("username"):
                return _Answer(refused, "", allowed=False)
            asked = {
                "user": user["username"],
                "uid": user.get("uid", ""),
                "groups": user.get("groups", []),
                "extra": user.get("extra", {}),
                "nonResourceAttributes": {"path": PATH, "verb": "get"},
            }
            status = await self._review(ACCESS_REVIEWS_OF_OTHERS, "SubjectAccessReview", asked)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise Refusal(
                    503, "cluster_away", "The cluster does not answer, so this account cannot be identified."
                ) from error
            if not self._warned:
                log.warning("Accounts of the cluster cannot read the metrics: %s", error.message)
                self._warned = True
            return _Answer(refused, "", allowed=False)
        allowed = bool(status.get("allowed"))
        return _Answer(self._clock() + KNOWN_S if allowed else refused, user["username"], allowed)

    async def _review(self, resource: Resource, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": resource.api_version, "kind": kind, "spec": spec}
        answer = await self._api.create(resource, None, body)
        status: dict[str, Any] = answer.get("status", {})
        return status
