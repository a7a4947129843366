"""Events of train jobs in the cluster: what happened to their jobs, each thing once, with a count."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from springtide.hub_extension.train_jobs.happenings import Happening
from springtide.hub_extension.train_jobs.kinds import kind_of
from springtide.hub_extension.train_jobs.status import time_of
from springtide.scheduler.kube import EVENTS, Api, ApiError, Object

log = logging.getLogger(__name__)

COMPONENT: Final = "springtide"
BURST: Final = 25
"""Number of events of a train job that may come at once."""
REFILL_S: Final = 60.0
"""Interval of the others, in seconds; those in between are left out."""
LONGEST_NAME: Final = 200
CONFLICT: Final = 409


class Announcer:
    """Writes events. One that cannot be written is left out: they are for people, and nothing depends on them.

    ``clock`` returns seconds since the epoch.
    """

    def __init__(self, api: Api, *, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._spent: dict[str, float] = {}

    async def announce(self, about: Object, happenings: Iterable[Happening]) -> None:
        """Write what happened to the job of a train job."""
        for happening in happenings:
            if not self._take(about["metadata"]["uid"]):
                return
            try:
                await self._write(about, happening)
            except ApiError as error:
                log.info("An event of train job %s could not be written: %s", about["metadata"]["name"], error)
                return

    def forget(self, uid: str) -> None:
        """Forget a train job that is gone."""
        self._spent.pop(uid, None)

    def _take(self, uid: str) -> bool:
        now = self._clock()
        until = max(self._spent.get(uid, now), now) + REFILL_S
        if until - now > BURST * REFILL_S:
            return False
        self._spent[uid] = until
        return True

    async def _write(self, about: Object, happening: Happening) -> None:
        event = _event(about, happening, time_of(self._clock()))
        namespace = event["metadata"]["namespace"]
        try:
            await self._api.create(EVENTS, namespace, event)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
        else:
            return
        known = await self._api.get(EVENTS, namespace, event["metadata"]["name"])
        again = {"count": int(known.get("count") or 1) + 1, "lastTimestamp": event["lastTimestamp"]}
        await self._api.patch(EVENTS, namespace, event["metadata"]["name"], again)


def _event(about: Object, happening: Happening, now: str | None) -> Object:
    """Return an event of a train job, with a name that is equal for all of the same text."""
    metadata, kind = about["metadata"], kind_of(about)
    said = "\0".join((metadata["uid"], happening.reason, happening.text))
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENTS.api_version,
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name'][:LONGEST_NAME].rstrip('.-')}.{digest}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {
            "apiVersion": kind.resource.api_version,
            "kind": kind.name,
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": "Warning" if happening.warning else "Normal",
        "reason": happening.reason,
        "message": happening.text,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
