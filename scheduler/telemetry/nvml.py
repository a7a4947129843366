"""GPUs by NVML: the library, devices with their links and sockets, computing processes, and readings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.resources.network_cards import PciPlace, nearest_cards
from springtide.scheduler.telemetry.machine import Device, GpuCount, Machine, divide
from springtide.scheduler.telemetry.network_cards import network_cards, pci_place
from springtide.scheduler.telemetry.sample import Computing, GpuSample

try:
    import pynvml
except ImportError:
    pynvml = None

__all__ = ["pynvml", "start", "text"]

_lock = threading.Lock()
_started = False
ALL_LINKS = 0xFFFFFFFF
"""Scope of a counter: the sum over all NVLinks of a GPU."""
KIB = 1024
PCIE_UNIT = 1000
"""Unit of NVML's PCIe throughput, in bytes per second."""
PCI_DEVICES = "sys/bus/pci/devices"
"""Directory below the root in which the kernel describes each PCI device.

NVML's own answer would be about the GPU's memory, which is a NUMA node of its own on some machines.
"""


def start() -> bool:
    """Initialize NVML once; return False if there is no driver or no GPU."""
    global _started  # noqa: PLW0603 - NVML itself is one per process
    with _lock:
        if pynvml is not None and not _started:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                _started = True
    return _started


def text(value: str | bytes) -> str:
    """Return a text of NVML, which some versions of the library return as bytes."""
    return value.decode() if isinstance(value, bytes) else value


class _GpuLostError(Exception):
    """The driver cannot reach the GPU."""


class NvmlReader:
    """Reads the GPUs with these UUIDs. `read` blocks; only one thread may call it at a time."""

    def __init__(self, uuids: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._uuids = tuple(uuids)
        self._clock = clock
        self._handles: dict[str, Any] = {}
        self._xids = _XidEvents()
        self._links: dict[str, tuple[float, int, int]] = {}

    def read(self) -> list[GpuSample]:
        """Return the present readings of each GPU, in the order of the UUIDs."""
        readings = [self._reading(uuid) for uuid in self._uuids]
        self._xids.collect()
        return [self._xids.sample(uuid, reading) for uuid, reading in zip(self._uuids, readings, strict=True)]

    def _reading(self, uuid: str) -> Reading:
        try:
            return self._values(uuid, self._handle(uuid))
        except _GpuLostError:
            self._handles.pop(uuid, None)
            self._links.pop(uuid, None)
            return Reading(lost=True)

    def _handle(self, uuid: str) -> Any:
        """Return the GPU's handle. Raises `_GpuLostError` if the driver does not find the GPU."""
        if uuid not in self._handles:
            try:
                self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            except pynvml.NVMLError as error:
                raise _GpuLostError from error
            self._xids.follow(uuid, self._handles[uuid])
        return self._handles[uuid]

    def _values(self, uuid: str, handle: Any) -> Reading:
        memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
        busy = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
        milliwatts = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        processes = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
        received, sent = self._nvlink(uuid, handle)
        return Reading(
            utilization=None if busy is None else busy.gpu / 100,
            memory_used=None if memory is None else memory.used,
            memory_total=None if memory is None else memory.total,
            power=None if milliwatts is None else milliwatts / 1000,
            temperature=_ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
            processes=None if processes is None else len(processes),
            ecc_corrected=_ecc(handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ecc_uncorrected=_ecc(handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            nvlink_received=received,
            nvlink_sent=sent,
            pcie_received=_pcie(handle, pynvml.NVML_PCIE_UTIL_RX_BYTES),
            pcie_sent=_pcie(handle, pynvml.NVML_PCIE_UTIL_TX_BYTES),
        )

    def _nvlink(self, uuid: str, handle: Any) -> tuple[float | None, float | None]:
        """Return what the NVLinks received and sent since the last reading, in bytes per second."""
        now = self._clock()
        fields = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX)
        found = _ask(pynvml.nvmlDeviceGetFieldValues, handle, [(field, ALL_LINKS) for field in fields])
        if found is None or any(each.nvmlReturn != pynvml.NVML_SUCCESS for each in found):
            return None, None
        received, sent = (each.value.ullVal * KIB for each in found)
        before = self._links.get(uuid)
        self._links[uuid] = now, received, sent
        if before is None or now <= before[0] or received < before[1] or sent < before[2]:
            return None, None
        passed = now - before[0]
        return (received - before[1]) / passed, (sent - before[2]) / passed


class _XidEvents:
    """The Xid errors of each GPU. A partition of a GPU has those of the whole GPU."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}
        self._new: dict[str, tuple[int, ...]] = {}
        self._whole: dict[str, str] = {}
        self._followed: set[str] = set()
        self._events: Any = None
        with suppress(pynvml.NVMLError):
            self._events = pynvml.nvmlEventSetCreate()

    def follow(self, uuid: str, handle: Any) -> None:
        """Collect the Xid errors of a GPU from now on, if it reports any."""
        whole = handle
        with suppress(pynvml.NVMLError):
            whole = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        with suppress(pynvml.NVMLError):
            self._whole[uuid] = name = text(pynvml.nvmlDeviceGetUUID(whole))
            if self._events is not None and name not in self._followed:
                pynvml.nvmlDeviceRegisterEvents(whole, pynvml.nvmlEventTypeXidCriticalError, self._events)
                self._followed.add(name)

    def collect(self) -> None:
        """Take in the errors since the last call."""
        self._new = {}
        if self._followed:
            with suppress(pynvml.NVMLError):
                while True:
                    event = pynvml.nvmlEventSetWait_v2(self._events, 0)
                    uuid = text(pynvml.nvmlDeviceGetUUID(event.device))
                    self._newest[uuid] = event.eventData
                    self._new[uuid] = (*self._new.get(uuid, ()), event.eventData)

    def sample(self, uuid: str, reading: Reading) -> GpuSample:
        """Return the GPU's sample: its reading with its newest Xid error, and those since the reading before."""
        whole = self._whole.get(uuid, uuid)
        xid = self._newest.get(whole)
        if xid is None:
            return GpuSample(uuid, reading)
        return GpuSample(uuid, replace(reading, xid=xid), new_xids=self._new.get(whole, ()))


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return an answer of NVML, None if the GPU has none. Raises `_GpuLostError`."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise _GpuLostError from error
        return None


def _ecc(handle: Any, kind: int) -> int | None:
    found: int | None = _ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_VOLATILE_ECC)
    return found


def _pcie(handle: Any, direction: int) -> float | None:
    found = _ask(pynvml.nvmlDeviceGetPcieThroughput, handle, direction)
    return None if found is None else float(found * PCIE_UNIT)


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
    """Return the indexes of the devices connected by NVLink with the one at ``index``."""
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
        """Return the pids of the processes that compute on these GPUs; none if NVML does not report them."""
        users: dict[str, frozenset[int]] = dict.fromkeys(uuids, frozenset())
        for uuid in users:
            with suppress(pynvml.NVMLError):
                handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                users[uuid] = frozenset(each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return users
