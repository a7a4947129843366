"""Leader election among services of one pool. A lease elects; it does not fence: the epoch in the store does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from springtide.scheduler.backoff import Backoff
from springtide.scheduler.kube.api import Api, Object
from springtide.scheduler.kube.errors import ApiError
from springtide.scheduler.kube.resources import LEASES

DURATION = 15.0
"""Time without renewal after which the lease may be taken over, in seconds."""
RETRY = 2.0
"""Longest time between two attempts to take a lease, in seconds."""
NOT_FOUND = 404
CONFLICT = 409


class LeaseLostError(Exception):
    """Another process holds the lease now, or it could not be renewed in time."""


class Lease:
    """The Lease object ``name`` of a namespace, held or waited for by this process as ``holder``, a unique name.

    Another holder's lease has expired when this process has seen no change of it for its duration; the times in
    the object are not compared, because clocks differ. ``now`` is the wall clock, which is written to the object,
    ``clock`` is monotonic. ``duration`` is in seconds.
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
        self._lease: Object | None = None
        self._renewed = 0.0
        self._seen_version = ""
        self._seen_at = 0.0

    # ---------- acquisition

    async def acquire(self, on_waiting: Callable[[str], None] = lambda _: None) -> None:
        """Wait until this process holds the lease; call ``on_waiting`` with the holder, once for each holder.

        Raises `ApiError` if the API refuses permanently, for instance because the account may not use leases.
        """
        delay = min(RETRY, self._duration / 5)
        backoff = Backoff(delay, delay, factor=1.0)
        waited_for = ""
        while True:
            try:
                holder = await self.try_acquire()
                if holder is None:
                    return
                if holder != waited_for:
                    waited_for = holder
                    on_waiting(holder)
            except ApiError as error:
                if not error.transient and error.status != CONFLICT:
                    raise
            await asyncio.sleep(backoff.next_delay())

    async def try_acquire(self) -> str | None:
        """Take the lease if it is free or expired; return None if this process holds it now, else the holder.

        Raises `ApiError`, with status 409 if another process took it at the same time.
        """
        lease = await self._read()
        if lease is None:
            await self._create()
            return None
        if lease["metadata"]["resourceVersion"] != self._seen_version:
            self._seen_version, self._seen_at = lease["metadata"]["resourceVersion"], self._clock()
        spec = lease.get("spec", {})
        holder = str(spec.get("holderIdentity") or "")
        duration = float(spec.get("leaseDurationSeconds") or self._duration)
        if holder in ("", self._holder) or self._clock() - self._seen_at >= duration:
            await self._write(lease)
            return None
        return holder

    # ---------- renewal

    async def renew_until_lost(self) -> None:
        """Renew the lease without end. Raises `LeaseLostError` once this process no longer holds it."""
        backoff = Backoff(self._duration / 15, self._duration / 10)
        delay = self._duration / 3
        while True:
            await asyncio.sleep(delay)
            if await self._renew_in_time():
                backoff.reset()
                delay = self._duration / 3
            else:
                delay = backoff.next_delay()

    async def _renew_in_time(self) -> bool:
        """Renew the lease once; return whether that succeeded. A request ends with the lease, at the latest."""
        left = self._renewed + self._duration - self._clock()
        try:
            async with asyncio.timeout(max(0.0, left)):
                return await self.renew()
        except TimeoutError:
            raise LeaseLostError(
                f"The lease {self._name} could not be renewed for {self._duration:g} s."
            ) from None

    async def renew(self) -> bool:
        """Renew the lease once; return False if the API failed. Raises `LeaseLostError` if another holds it."""
        try:
            lease = await self._read()
            if lease is None:
                raise LeaseLostError(f"The lease {self._name} was deleted.")
            if lease.get("spec", {}).get("holderIdentity") != self._holder:
                raise LeaseLostError(f"The lease {self._name} is held by another service now.")
            await self._write(lease)
        except ApiError:
            return False
        return True

    async def release(self) -> None:
        """Give the lease up, if this process holds it, so that the next holder need not wait for its expiry."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        lease["spec"]["holderIdentity"] = ""
        try:
            await self._api.replace(LEASES, self._namespace, self._name, lease)
        except ApiError:
            return  # it expires

    # ---------- the object

    async def _read(self) -> Object | None:
        try:
            return await self._api.get(LEASES, self._namespace, self._name)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def _create(self) -> None:
        began = self._clock()
        body: Object = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec({}),
        }
        self._lease = await self._api.create(LEASES, self._namespace, body)
        self._renewed = began

    async def _write(self, lease: Object) -> None:
        began = self._clock()
        body = {**lease, "spec": self._spec(lease.get("spec", {}))}
        self._lease = await self._api.replace(LEASES, self._namespace, self._name, body)
        self._renewed = began

    def _spec(self, before: Object) -> Object:
        now = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        renewal = before.get("holderIdentity") == self._holder
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "acquireTime": before.get("acquireTime", now) if renewal else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (bool(before) and not renewal),
        }
