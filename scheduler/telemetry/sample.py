"""Measurements as plain data: the sample of one GPU at a moment, and an attempt to measure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from msgspec import Struct

from springtide.scheduler.gpu_reading import Reading


class GpuSample(Struct, frozen=True):
    """Reading of the GPU ``uuid``. A ``simulated`` GPU has the use of its processes.

    ``new_xids`` are the numbers of the Xid errors since the sample before.
    """

    uuid: str
    reading: Reading
    simulated: bool = False
    new_xids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Computing:
    """An attempt that runs here: its ``workers`` descend from the process ``pid`` and hold ``uuids``."""

    pid: int
    uuids: Collection[str]
    workers: int
