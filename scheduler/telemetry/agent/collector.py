"""An agent's data about its node, read anew for each report."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from springtide.scheduler.resources.network_cards import NearestCards
from springtide.scheduler.telemetry import nvml
from springtide.scheduler.telemetry.agent.pod_resources import PodDevices, PodResourcesError
from springtide.scheduler.telemetry.agent.report import (
    MOST_CARDS,
    NodeReport,
    PodGpus,
    ReportedCards,
    ReportedGpu,
    XidEvent,
)
from springtide.scheduler.telemetry.machine import Device
from springtide.scheduler.telemetry.nvml import NvmlReader, pynvml
from springtide.scheduler.telemetry.sample import GpuSample

logger = logging.getLogger(__name__)

XIDS_KEPT = 60.0
"""Time for which an Xid error is in reports, in seconds: several reports, should one be lost."""
LOOK_FOR_GPUS = 60.0
"""Interval at which the node's GPUs are listed again, in seconds."""
SHORTEST_INTERVAL = 1.0
"""Time in which the GPUs are read only once, in seconds."""
NO_GPUS = "NVML finds no GPUs: no driver, or the container runtime gives this pod none."


class Kubelet(Protocol):
    """The requests to the kubelet; implemented by `PodResources`."""

    def assigned(self) -> Sequence[PodDevices]:
        """Return the pods that have devices."""

    def offered(self) -> Mapping[str, Sequence[str]]:
        """Return the ids of devices by resource."""


@dataclass(frozen=True, slots=True)
class _Xid:
    seq: int
    at: float
    gpu: str
    xid: int


class Collector:
    """Reads the GPUs of this machine, and asks the kubelet whose they are. ``clock`` is monotonic.

    ``root`` is the root of the file system. `report` may be called from several threads.
    """

    def __init__(
        self, kubelet: Kubelet, clock: Callable[[], float] = time.monotonic, root: Path = Path("/")
    ) -> None:
        self._root = root
        self._kubelet = kubelet
        self._clock = clock
        self._agent = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._devices: Sequence[Device] = ()
        self._reader: NvmlReader | None = None
        self._listed_at: float | None = None
        self._xids: deque[_Xid] = deque()
        self._seq = 0
        self._last: tuple[float, NodeReport] | None = None
        self._problem = ""

    def report(self) -> NodeReport:
        """Return the present readings; those of the last second if there are any."""
        with self._lock:
            now = self._clock()
            if self._last is None or now - self._last[0] >= SHORTEST_INTERVAL:
                self._last = now, self._read(now)
            return self._last[1]

    def _read(self, now: float) -> NodeReport:
        self._list(now)
        samples = {each.uuid: each for each in self._reader.read()} if self._reader else {}
        self._remember(samples.values(), now)
        problem, resources, pods = "" if self._devices else NO_GPUS, dict[str, str](), list[PodGpus]()
        try:
            resources, pods = self._assignments()
        except PodResourcesError as error:
            problem = f"The kubelet's PodResources API cannot be used: {_plain(str(error))}."
        if problem != self._problem:
            self._problem = problem
            logger.warning("%s", problem or "The GPUs and the pods that hold them can be read again.")
        gpus = tuple(self._gpu(device, samples[device.uuid], resources) for device in self._devices)
        return NodeReport(self._agent, gpus, tuple(pods), problem[:200])

    def _list(self, now: float) -> None:
        """List the GPUs if it is time to; those of an unresponsive driver stay."""
        if self._listed_at is not None and self._devices and now - self._listed_at < LOOK_FOR_GPUS:
            return
        try:
            found = nvml.devices(self._root)
        except pynvml.NVMLError as error:
            logger.warning("The GPUs cannot be listed: %s", error)
            return
        self._listed_at = now
        if [device.uuid for device in found] != [device.uuid for device in self._devices]:
            self._reader = NvmlReader([device.uuid for device in found], self._clock) if found else None
        self._devices = found

    def _remember(self, samples: Iterable[GpuSample], now: float) -> None:
        """Take in the new Xid errors, and forget those of long ago."""
        for sample in samples:
            for xid in sample.new_xids:
                self._xids.append(_Xid(self._seq, now, sample.uuid, xid))
                self._seq += 1
        while self._xids and now - self._xids[0].at > XIDS_KEPT:
            self._xids.popleft()

    def _assignments(self) -> tuple[dict[str, str], list[PodGpus]]:
        """Return the resource of each GPU that the kubelet knows, and the pods with GPUs of this node."""
        known = {device.uuid for device in self._devices}
        pods, resources = [], dict[str, str]()
        assigned = self._kubelet.assigned()
        for by_resource in (self._kubelet.offered(), *(pod.devices for pod in assigned)):
            resources |= {_gpu_of(each): resource for resource, ids in by_resource.items() for each in ids}
        for pod in assigned:
            gpus = {_gpu_of(each): None for ids in pod.devices.values() for each in ids if _gpu_of(each) in known}
            if gpus:
                pods.append(PodGpus(pod.namespace, pod.name, tuple(gpus)))
        return resources, pods

    def _gpu(self, device: Device, sample: GpuSample, resources: Mapping[str, str]) -> ReportedGpu:
        return ReportedGpu(
            uuid=device.uuid,
            name=_plain(device.name),
            memory_mib=device.memory_mib,
            linked=tuple(sorted(device.linked)),
            socket=device.socket,
            resource=resources.get(device.uuid, ""),
            cards=None if device.cards is None else _reported(device.cards),
            reading=sample.reading,
            xids=tuple(XidEvent(each.seq, each.xid) for each in self._xids if each.gpu == device.uuid),
        )


def _reported(cards: NearestCards) -> ReportedCards:
    return ReportedCards(cards.within, cards.names[:MOST_CARDS])


def _gpu_of(device_id: str) -> str:
    """Return the UUID of the GPU in a device's id; a GPU that is shared by time has ids such as ``GPU-…::3``."""
    return device_id.partition("::")[0]


def _plain(text: str) -> str:
    """Return the printable ASCII characters of a text, 150 at most."""
    return "".join(char for char in text if " " <= char <= "~")[:150]
