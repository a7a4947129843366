"""GPUs by NVML: devices, their links and sockets, the processes that compute on them, and their readings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from springtide.scheduler.gpu_models import DeclaredTypes
from springtide.scheduler.resources.network_cards import PciPlace, nearest_cards
from springtide.scheduler.telemetry.driver import pynvml, start, text
from springtide.scheduler.telemetry.machine import Device, GpuCount, Machine, divide
from springtide.scheduler.telemetry.network_cards import network_cards, pci_place
from springtide.scheduler.telemetry.nvml_reader import NvmlReader
from springtide.scheduler.telemetry.sample import Computing, GpuSample

PCI_DEVICES = "sys/bus/pci/devices"
"""Directory below the root in which the kernel describes each PCI device.

NVML's own answer would be about the GPU's memory, which is a NUMA node of its own on some machines.
"""


def _slices(handle: Any) -> list[Any]:
    """Return the GPU's MIG devices if it is partitioned, else the GPU itself."""
    try:
        if pynvml.nvmlDeviceGetMigMode(handle)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return [handle]
        count = pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except pynvml.NVMLError:
        return [handle]
    slices = []
    for index in range(count):
        with suppress(pynvml.NVMLError):
            slices.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
    return slices


def _linked(handles: Sequence[Any], index: int) -> frozenset[int]:
    """Return the indexes of the devices that NVLink connects with the one at ``index``."""
    linked = set()
    for other, handle in enumerate(handles):
        if other != index:
            with suppress(pynvml.NVMLError):
                status = pynvml.nvmlDeviceGetP2PStatus(handles[index], handle, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
                if status == pynvml.NVML_P2P_STATUS_OK:
                    linked.add(other)
    return frozenset(linked)


def place_of(bus_id: str, root: Path = Path("/")) -> PciPlace:
    """Return where the device with this NVML bus id is, as far as the kernel below ``root`` knows it."""
    domain, _, rest = bus_id.lower().partition(":")
    with suppress(ValueError):
        return pci_place(root / PCI_DEVICES / f"{int(domain, 16):04x}:{rest}")
    return PciPlace()


def _place(handle: Any, root: Path) -> PciPlace:
    with suppress(pynvml.NVMLError):
        return place_of(text(pynvml.nvmlDeviceGetPciInfo(handle).busId), root)
    return PciPlace()


def devices(root: Path = Path("/")) -> list[Device]:
    """Return all GPUs in the driver's order, MIG devices instead of partitioned GPUs; none without driver.

    The kernel is asked below ``root`` where they are, and which network cards are near.
    """
    if not start():
        return []
    whole = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    cards = [(card.name, card.place) for card in network_cards(root)]
    sliced = [(each, place) for handle in whole for place in [_place(handle, root)] for each in _slices(handle)]
    handles = [handle for handle, _ in sliced]
    return [
        Device(
            uuid=text(pynvml.nvmlDeviceGetUUID(handle)),
            name=text(pynvml.nvmlDeviceGetName(handle)),
            memory_mib=pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20,
            linked=_linked(handles, index),
            socket=place.socket,
            cards=nearest_cards(place, cards),
        )
        for index, (handle, place) in enumerate(sliced)
    ]


class NvmlMachine(Machine):
    """A machine with real GPUs."""

    def __init__(
        self, devices: Sequence[Device], build_gpus: GpuCount, types: DeclaredTypes | None = None
    ) -> None:
        self.nodes = divide(devices, build_gpus, types, simulated=False)
        self._reader = NvmlReader([device.uuid for device in devices])

    def samples(self, computing: Sequence[Computing]) -> Sequence[GpuSample]:  # noqa: ARG002 - the GPUs know it
        """Return what each GPU reports."""
        return self._reader.read()

    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Return the pids of the processes that compute on these GPUs; none where NVML does not report them."""
        users: dict[str, frozenset[int]] = dict.fromkeys(uuids, frozenset())
        for uuid in users:
            with suppress(pynvml.NVMLError):
                handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                users[uuid] = frozenset(each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return users
