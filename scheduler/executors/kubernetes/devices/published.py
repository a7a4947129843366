"""The GPUs of the cluster's nodes as a driver publishes them in ResourceSlices; pure.

A GPU counts if one node has it, and one claim at a time may have all of it. Others are left out: parts of GPUs
such as MIG devices, GPUs that may be parted, and devices that several nodes reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from kubernetes.utils.quantity import parse_quantity

from springtide.scheduler.executors.kubernetes.objects.api_types import Device, ResourceSlice

DeviceKey: TypeAlias = tuple[str, str]
"""The driver's pool of a device, and the name of the device in it."""

MODEL_ATTRIBUTES: Final = ("productName", "model")
"""Attributes with the model of a GPU; the first that a device has counts."""
WHOLE: Final = "gpu"
"""Value of the attribute ``type`` of whole GPUs, where a driver has that attribute."""
REPELLING: Final = ("NoSchedule", "NoExecute")
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class PublishedGpu:
    """A GPU of a node. ``named_by`` is the attribute with its model, empty if it has none.

    One that is not ``usable`` is tainted, or the driver has not published its pool completely.
    """

    key: DeviceKey
    uuid: str
    model: str
    named_by: str
    memory_mib: int
    usable: bool = True


def newest(slices: Iterable[ResourceSlice]) -> tuple[ResourceSlice, ...] | None:
    """Return the slices of a pool's newest generation; None while some of them are missing, or they contradict."""
    known = list(slices)
    last = max((each.spec.pool.generation for each in known), default=0)
    found = tuple(each for each in known if each.spec.pool.generation == last)
    names = [device.name for each in found for device in each.spec.devices]
    sizes = {each.spec.pool.resource_slice_count for each in found}
    return found if sizes == {len(found)} and len(set(names)) == len(names) else None


def gpus_of_slices(slices: Iterable[ResourceSlice]) -> dict[str, tuple[PublishedGpu, ...]]:
    """Return the GPUs of a complete pool by node."""
    found: dict[str, list[PublishedGpu]] = {}
    for each in slices:
        if each.spec.node_name:
            gpus = (_gpu(each, device) for device in each.spec.devices)
            found.setdefault(each.spec.node_name, []).extend(gpu for gpu in gpus if gpu is not None)
    return {host: tuple(gpus) for host, gpus in found.items()}


def _gpu(of: ResourceSlice, device: Device) -> PublishedGpu | None:
    """Return the GPU that a device is, None if it is left out."""
    texts = {name.removeprefix(f"{of.spec.driver}/"): each.string for name, each in device.attributes.items()}
    shared = bool(device.consumes_counters) or device.allow_multiple_allocations
    if shared or texts.get("type", WHOLE) != WHOLE:
        return None
    named_by = next((name for name in MODEL_ATTRIBUTES if texts.get(name)), "")
    pool = of.spec.pool.name
    return PublishedGpu(
        (pool, device.name),
        texts.get("uuid") or f"{pool}:{device.name}",
        texts.get(named_by, ""),
        named_by,
        _memory_mib(of.spec.driver, device),
        not any(taint.effect in REPELLING for taint in device.taints),
    )


def _memory_mib(driver: str, device: Device) -> int:
    given = device.capacity.get("memory") or device.capacity.get(f"{driver}/memory")
    try:
        return 0 if given is None else int(parse_quantity(given.value)) >> 20
    except ValueError:
        return 0


class PublishedGpus:
    """The GPUs of each node, from the slices of one driver.

    While a pool is incomplete, and once its slices are gone, the GPUs that it had are there and not usable.
    """

    def __init__(self) -> None:
        self._slices: dict[str, dict[str, ResourceSlice]] = {}
        self._known: dict[str, Mapping[str, tuple[PublishedGpu, ...]]] = {}
        self._incomplete: set[str] = set()

    @property
    def incomplete(self) -> frozenset[str]:
        """The driver's pools of which slices are missing."""
        return frozenset(self._incomplete)

    def update(self, before: ResourceSlice | None, after: ResourceSlice | None) -> set[str]:
        """Record the present state of a slice; return the nodes whose GPUs may have changed."""
        pools = set()
        for each, slices in ((before, None), (after, after)):
            if each is not None:
                pools.add(each.spec.pool.name)
                of_pool = self._slices.setdefault(each.spec.pool.name, {})
                if slices is None:
                    of_pool.pop(each.metadata.name, None)
                else:
                    of_pool[each.metadata.name] = each
        return {host for pool in pools for host in self._update_pool(pool)}

    def _update_pool(self, pool: str) -> set[str]:
        hosts = set(self._known.get(pool, ()))
        complete = newest(self._slices[pool].values())
        if complete is None:
            self._incomplete.add(pool)
        else:
            self._incomplete.discard(pool)
            self._known[pool] = gpus_of_slices(complete)
        return hosts | self._known.get(pool, {}).keys()

    def forget(self, host: str) -> None:
        """Drop what the slices of a node that has left the cluster said, as far as they are gone."""
        for pool in [pool for pool, known in self._known.items() if host in known and not self._slices[pool]]:
            del self._known[pool]
            self._incomplete.discard(pool)

    def of(self, host: str) -> tuple[PublishedGpu, ...]:
        """Return the GPUs of a node in the order of their names."""
        found = [
            replace(gpu, usable=False) if pool in self._incomplete else gpu
            for pool, known in self._known.items()
            for gpu in known.get(host, ())
        ]
        return tuple(sorted(found, key=lambda gpu: [_in_order(part) for part in gpu.key]))


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names with numbers by these: ``gpu-2`` before ``gpu-10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]
