"""The devices that ResourceClaims have been allocated, and by whom; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from springtide.scheduler.executors.kubernetes.devices.published import DeviceKey
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.objects.api_types import ResourceClaim
from springtide.scheduler.executors.kubernetes.slots import PodName

T = TypeVar("T")


def devices_of(claim: ResourceClaim, driver: str) -> tuple[DeviceKey, ...]:
    """Return the devices of a driver that a claim has for itself."""
    if claim.status.allocation is None:
        return ()
    results = claim.status.allocation.devices.results
    return tuple((each.pool, each.device) for each in results if each.driver == driver and not each.admin_access)


def consumers_of(claim: ResourceClaim) -> tuple[PodName, ...]:
    """Return the pods that use a claim."""
    uses = claim.status.reserved_for
    return tuple((claim.metadata.namespace, each.name) for each in uses if each.resource == "pods")


def owner_of(claim: ResourceClaim) -> str:
    """Return who has the devices of a claim: its first pod, else the claim itself."""
    first = next(iter(consumers_of(claim)), (claim.metadata.namespace, claim.metadata.name))
    return "/".join(first)


@dataclass(frozen=True, slots=True)
class Holding:
    """The devices of a claim, with the pods that use it; ``owner`` is who has them."""

    claim: str
    devices: tuple[DeviceKey, ...]
    pods: tuple[PodName, ...]
    owner: str
    is_own: bool


class ClaimedDevices:
    """The claims with devices of one driver.

    Those with the label of the ``pool`` in one of ``namespaces`` are of its jobs and workspaces, all others
    foreign.
    """

    def __init__(self, driver: str, pool: str, namespaces: Collection[str]) -> None:
        self._driver = driver
        self._pool = pool
        self._namespaces = frozenset(namespaces)
        self._of_device: dict[DeviceKey, Holding] = {}
        self._of_pod: dict[PodName, Holding] = {}

    def update(self, before: ResourceClaim | None, after: ResourceClaim | None) -> bool:
        """Record the present state of a claim; return whether that of any device may have changed."""
        was, now = (self._holding(claim) for claim in (before, after))
        if was == now:
            return False
        if was is not None:
            _leave(self._of_device, was.devices, was.claim)
            _leave(self._of_pod, was.pods, was.claim)
        if now is not None:
            self._of_device |= dict.fromkeys(now.devices, now)
            self._of_pod |= dict.fromkeys(now.pods, now)
        return True

    def _holding(self, claim: ResourceClaim | None) -> Holding | None:
        """Return what a claim has, None if it has no devices."""
        devices = () if claim is None else devices_of(claim, self._driver)
        if claim is None or not devices:
            return None
        meta = claim.metadata
        is_own = meta.labels.get(names.POOL) == self._pool and meta.namespace in self._namespaces
        return Holding(meta.uid, devices, consumers_of(claim), owner_of(claim), is_own)

    def foreign_owner(self, device: DeviceKey) -> str:
        """Return who outside the pool has a device, empty if it is free."""
        found = self._of_device.get(device)
        return "" if found is None or found.is_own else found.owner

    def is_held(self, device: DeviceKey) -> bool:
        """Return whether anybody has a device."""
        return device in self._of_device

    def of_pod(self, pod: PodName) -> tuple[DeviceKey, ...]:
        """Return the devices of a job's or workspace's pod, none before its claim is allocated."""
        found = self._of_pod.get(pod)
        return () if found is None or not found.is_own else found.devices


def _leave(known: dict[T, Holding], of: Iterable[T], claim: str) -> None:
    """Remove what a claim had, unless another one has it by now."""
    for each in of:
        if each in known and known[each].claim == claim:
            del known[each]
