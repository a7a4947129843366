"""Checks of the GPUs that a driver for dynamic resource allocation publishes. Needs the extra ``kubernetes``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.scheduler.executors.kubernetes.devices.claimed import ClaimedDevices
from springtide.scheduler.executors.kubernetes.devices.published import PublishedGpus
from springtide.scheduler.executors.kubernetes.objects.api_types import ResourceClaim, ResourceSlice
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiError
from springtide.scheduler.kube.resources import DEVICE_CLASSES
from springtide.scheduler.wording import count, gpus, listed, plural

CHECK: Final = "published GPUs"
NOT_FOUND: Final = 404
FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True)
class Devices:
    """What a driver publishes; ``whole`` and ``devices`` are the numbers of GPUs and of all its devices."""

    published: PublishedGpus
    nodes: Sequence[str] = ()
    whole: int = 0
    devices: int = 0


async def read_devices(api: Api, settings: KubernetesSettings) -> Devices:
    """Return what the driver of the settings publishes; nothing without a DeviceClass. Raises `ApiError`."""
    published = PublishedGpus()
    if settings.device_class is None:
        return Devices(published)
    found, _ = await api.list(RESOURCE_SLICES, None, fields=f"spec.driver={settings.device_driver}")
    slices = [msgspec.convert(each, ResourceSlice) for each in found]
    for each in slices:
        published.update(None, each)
    nodes = sorted({each.spec.node_name for each in slices} - {""})
    whole = sum(len(published.of(node)) for node in nodes)
    return Devices(published, nodes, whole, sum(len(each.spec.devices) for each in slices))


async def read_claims(api: Api, settings: KubernetesSettings) -> ClaimedDevices:
    """Return who has the driver's devices; empty without a DeviceClass. Raises `ApiError`."""
    claimed = ClaimedDevices(settings.device_driver, settings.pool, settings.claim_namespaces)
    if settings.device_class is not None:
        found, _ = await api.list(RESOURCE_CLAIMS)
        for each in found:
            claimed.update(None, msgspec.convert(each, ResourceClaim))
    return claimed


async def devices(api: Api, settings: KubernetesSettings) -> AsyncIterator[Finding]:
    """Check the DeviceClass, and that the driver publishes whole GPUs completely."""
    name, driver = settings.device_class, settings.device_driver
    if name is None:
        return
    try:
        known = await read_devices(api, settings)
    except ApiError as error:
        if error.status == NOT_FOUND:
            yield problem(
                CHECK,
                "The cluster has no ResourceSlices of the version resource.k8s.io/v1.",
                "Upgrade it to Kubernetes 1.34 or newer, or leave kubernetes.device_class out.",
            )
        else:
            yield problem(
                CHECK, f"The ResourceSlices cannot be listed: {error}", "Install the chart with rbac.create."
            )
        return
    async for finding in _device_class(api, name):
        yield finding
    if not known.devices:
        yield problem(
            CHECK,
            f"The driver {driver} has published no device.",
            "Install it on the nodes with GPUs, or correct kubernetes.device_driver.",
        )
        return
    incomplete = sorted(known.published.incomplete)
    if incomplete:
        yield problem(
            CHECK,
            f"The driver {driver} has not published all slices of {listed(incomplete)}: nothing starts there.",
            "Look at its pods on these nodes, and at kubectl get resourceslices.",
        )
    left_out = known.devices - known.whole
    if left_out and not incomplete:
        yield note(
            CHECK,
            f"{count(left_out, 'device')} of {driver} {plural(left_out, 'does', 'do')} not count: parts of GPUs, "
            "or GPUs that may be parted or shared.",
            "The pool gives out whole GPUs of a driver; MIG slices need the device plugin.",
        )
    if known.whole:
        where = count(len(known.nodes), "node")
        yield ok(CHECK, f"{driver} publishes {gpus(known.whole)} on {where}; pods claim them by {name}.")


async def _device_class(api: Api, name: str) -> AsyncIterator[Finding]:
    try:
        await api.get(DEVICE_CLASSES, None, name)
    except ApiError as error:
        if error.status == FORBIDDEN:
            yield note(CHECK, f"This account may not read the DeviceClass {name}.", "Look at it as an admin.")
        elif error.status == NOT_FOUND:
            yield problem(
                CHECK,
                f"There is no DeviceClass {name}: no pod can claim a GPU.",
                "Install the driver with its classes, or correct kubernetes.device_class.",
            )
        else:
            yield problem(CHECK, f"The DeviceClass {name} cannot be read: {error}", "Check the API server.")
