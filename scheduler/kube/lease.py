"""Who of several equal services is at work. It elects; it does not fence."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from springtide.scheduler.kube.api import Api, Object
from springtide.scheduler.kube.errors import ApiError
from springtide.scheduler.kube.resources import LEASES

DURATION = 15.0
"""Seconds without renewal after which the lease may be taken."""
RETRY = 2.0
CONFLICT = 409


class LeaseLostError(Exception):
    """Somebody else is at work now, or it could not be renewed in time."""


class Lease:
    """The lease ``name`` of a namespace, as ``holder`` (unique to this process) holds it or waits for it.

    Whether another's lease has run out is told by how long it has not changed while we looked, not by what it
    says: clocks differ. ``now`` is the wall clock that is written down, ``clock`` the one that never goes back.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        holder: str,
        *,
        duration: float = DURATION,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._holder = holder
        self._duration = duration
        self._now = now
        self._clock = clock
        self._held: Object | None = None
        self._renewed = 0.0

    async def acquire(self, waiting: Callable[[str], None] = lambda _: None) -> None:
        """Wait until it is ours; ``waiting`` is told who has it, once for each holder.

        Raises `ApiError` if the API refuses for good, for instance because leases are forbidden to us.
        """
        told = ""
        seen, since = "", self._clock()
        while True:
            try:
                found = await self._read()
                if found is None:
                    await self._make()
                    return
                if found["metadata"]["resourceVersion"] != seen:
                    seen, since = found["metadata"]["resourceVersion"], self._clock()
                spec = found.get("spec", {})
                holder = spec.get("holderIdentity") or ""
                patience = float(spec.get("leaseDurationSeconds") or self._duration)
                if holder in ("", self._holder) or self._clock() - since >= patience:
                    await self._write(found)
                    return
                if holder != told:
                    told = holder
                    waiting(holder)
            except ApiError as error:
                if not error.passing and error.status != CONFLICT:
                    raise
            await asyncio.sleep(min(RETRY, self._duration / 5))

    async def keep(self) -> None:
        """Renew it for ever. Raises `LeaseLostError` when it is not ours any more."""
        while True:
            await asyncio.sleep(self._duration / 3)
            while not await self._renew():
                if self._clock() - self._renewed >= self._duration:
                    raise LeaseLostError(f"The lease {self._name} could not be renewed for {self._duration:g} s.")
                await asyncio.sleep(self._duration / 15)

    async def release(self) -> None:
        """Give it up, if it is ours, so that the next need not wait."""
        held, self._held = self._held, None
        if held is None:
            return
        held["spec"]["holderIdentity"] = ""
        try:
            await self._api.replace(LEASES, self._namespace, self._name, held)
        except ApiError:
            return  # it runs out by itself

    async def _renew(self) -> bool:
        try:
            found = await self._read()
            if found is None:
                raise LeaseLostError(f"The lease {self._name} was deleted.")
            if found.get("spec", {}).get("holderIdentity") != self._holder:
                raise LeaseLostError(f"The lease {self._name} is held by another service now.")
            await self._write(found)
        except ApiError:
            return False
        return True

    async def _read(self) -> Object | None:
        try:
            return await self._api.get(LEASES, self._namespace, self._name)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _make(self) -> None:
        began = self._clock()
        body: Object = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec({}),
        }
        self._held = await self._api.create(LEASES, self._namespace, body)
        self._renewed = began

    async def _write(self, found: Object) -> None:
        began = self._clock()
        body = {**found, "spec": self._spec(found.get("spec", {}))}
        self._held = await self._api.replace(LEASES, self._namespace, self._name, body)
        self._renewed = began

    def _spec(self, before: Object) -> Object:
        now = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        ours = before.get("holderIdentity") == self._holder
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "acquireTime": before.get("acquireTime", now) if ours else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (bool(before) and not ours),
        }
