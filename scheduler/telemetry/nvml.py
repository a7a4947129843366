"""What NVML tells: devices, their links and sockets, and who computes on them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from springtide.scheduler.telemetry.machine import Device, Machine, divide

try:
    import pynvml
except ImportError:
    pynvml = None

PCI_DEVICES = Path("/sys/bus/pci/devices")
"""Where the kernel tells about each PCI device.

NVML's own answer would be about the GPU's memory, which is a NUMA node of its own on some machines.
"""

_lock = threading.Lock()
_started = False


def _start() -> bool:
    """Start NVML once; False where there is no driver or no GPU to talk to."""
    global _started  # noqa: PLW0603 - NVML itself is one per process
    with _lock:
        if pynvml is not None and not _started:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                _started = True
    return _started


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _slices(handle: Any) -> list[Any]:
    """The GPU's MIG devices if it is cut into some, else the GPU itself."""
    try:
        if pynvml.nvmlDeviceGetMigMode(handle)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return [handle]
        most = pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except pynvml.NVMLError:
        return [handle]
    found = []
    for index in range(most):
        with suppress(pynvml.NVMLError):
            found.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
    return found


def _linked(handles: Sequence[Any], place: int) -> frozenset[int]:
    found = set()
    for other, handle in enumerate(handles):
        if other != place:
            with suppress(pynvml.NVMLError):
                status = pynvml.nvmlDeviceGetP2PStatus(handles[place], handle, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
                if status == pynvml.NVML_P2P_STATUS_OK:
                    found.add(other)
    return frozenset(found)


def socket_of(bus_id: str, pci_devices: Path = PCI_DEVICES) -> int | None:
    """The NUMA node of the device with this bus id, as NVML writes it; None if the kernel does not tell."""
    domain, _, rest = bus_id.lower().partition(":")
    with suppress(OSError, ValueError):
        node = int((pci_devices / f"{int(domain, 16):04x}:{rest}" / "numa_node").read_text())
        return node if node >= 0 else None
    return None


def _socket(handle: Any) -> int | None:
    with suppress(pynvml.NVMLError):
        return socket_of(_text(pynvml.nvmlDeviceGetPciInfo(handle).busId))
    return None


def devices() -> list[Device]:
    """All GPUs of the machine in the driver's order, MIG devices one by one; none without a driver."""
    if not _start():
        return []
    whole = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    sliced = [(each, _socket(handle)) for handle in whole for each in _slices(handle)]
    handles = [handle for handle, _ in sliced]
    return [
        Device(
            uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
            name=_text(pynvml.nvmlDeviceGetName(handle)),
            memory_mib=pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20,
            linked=_linked(handles, place),
            socket=socket,
        )
        for place, (handle, socket) in enumerate(sliced)
    ]


class NvmlMachine(Machine):
    """Real GPUs."""

    def __init__(self, found: Sequence[Device], build_gpus: int) -> None:
        self.nodes = divide(found, build_gpus, simulated=False)

    def users(self, uuids: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Pids of the processes that compute on these GPUs; none for a GPU that does not tell."""
        found: dict[str, frozenset[int]] = dict.fromkeys(uuids, frozenset())
        for uuid in found:
            with suppress(pynvml.NVMLError):
                handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
                found[uuid] = frozenset(each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return found
