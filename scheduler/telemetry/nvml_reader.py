"""Readings of GPUs by NVML."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from springtide.scheduler.telemetry.driver import pynvml, text
from springtide.scheduler.telemetry.sample import GpuSample

ALL_LINKS = 0xFFFFFFFF
"""Scope of a counter that is added up over all NVLinks of a GPU."""
KIB = 1024
PCIE_UNIT = 1000
"""Unit of NVML's PCIe throughput, in bytes per second."""


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
        samples = [self._sample(uuid) for uuid in self._uuids]
        self._xids.collect()
        return [self._xids.added_to(sample) for sample in samples]

    def _sample(self, uuid: str) -> GpuSample:
        try:
            return self._readings(uuid, self._handle(uuid))
        except _GpuLostError:
            self._handles.pop(uuid, None)
            self._links.pop(uuid, None)
            return GpuSample(uuid, lost=True)

    def _handle(self, uuid: str) -> Any:
        """Return the GPU's handle. Raises `_GpuLostError` if the driver does not find the GPU."""
        if uuid not in self._handles:
            try:
                self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            except pynvml.NVMLError as error:
                raise _GpuLostError from error
            self._xids.follow(uuid, self._handles[uuid])
        return self._handles[uuid]

    def _readings(self, uuid: str, handle: Any) -> GpuSample:
        memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
        busy = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
        milliwatts = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        processes = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
        received, sent = self._nvlink(uuid, handle)
        return GpuSample(
            uuid,
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

    def added_to(self, sample: GpuSample) -> GpuSample:
        """Return the sample with its GPU's newest Xid error, and those since the reading before."""
        whole = self._whole.get(sample.uuid, sample.uuid)
        xid = self._newest.get(whole)
        return sample if xid is None else replace(sample, xid=xid, new_xids=self._new.get(whole, ()))


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return an answer of NVML, None where the GPU has none. Raises `_GpuLostError`."""
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
