"""What NVML tells: devices, their links, and who computes on them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from springtide.scheduler.telemetry.machine import Device, Machine, divide

try:
    import pynvml
except ImportError:
    pynvml = None

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


def devices() -> list[Device]:
    """All GPUs of the machine in the driver's order, MIG devices one by one; none without a driver."""
    if not _start():
        return []
    whole = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    handles = [each for handle in whole for each in _slices(handle)]
    return [
        Device(
            uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
            name=_text(pynvml.nvmlDeviceGetName(handle)),
            memory_mib=pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20,
            linked=_linked(handles, place),
        )
        for place, handle in enumerate(handles)
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
