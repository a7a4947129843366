"""What one GPU reports at a moment, as plain data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuSample:
    """Readings of the GPU ``uuid``. None means that the GPU does not report it, which is not the same as 0.

    ``utilization`` is the part of the time in which it computed, from 0 to 1; memory is in bytes, ``power`` in
    watts, ``temperature`` in degrees Celsius, traffic in bytes per second. ``processes`` counts the processes
    that compute on it. ECC errors are counted since the driver was loaded; ``xid`` is the number of the newest Xid
    error since the service was started, ``new_xids`` are those since the reading before. ``lost`` says that the
    driver cannot reach the GPU any more. Of a ``simulated`` GPU the readings are those of the processes that hold
    it.
    """

    uuid: str
    simulated: bool = False
    lost: bool = False
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    temperature: int | None = None
    processes: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    xid: int | None = None
    new_xids: tuple[int, ...] = ()
    nvlink_received: float | None = None
    nvlink_sent: float | None = None
    pcie_received: float | None = None
    pcie_sent: float | None = None


@dataclass(frozen=True, slots=True)
class Computing:
    """An attempt that runs here: its ``workers`` descend from the process ``pid`` and hold ``uuids``."""

    pid: int
    uuids: Collection[str]
    workers: int
