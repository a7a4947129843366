"""Readings of a GPU: a field of `Reading` with a `Metric` declares one value, with its bounds, unit and meaning.

Agents report these values, the store keeps them, and the API, the Prometheus metrics and the pages show them, all
by this declaration. A new value also needs a driver that reads it (`telemetry`) and its column (a migration).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Final, get_args, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import replace

MIB: Final = 1 << 20

Share = Annotated[float, Meta(ge=0, le=1)]
Watts = Annotated[float, Meta(ge=0, le=100_000)]
Celsius = Annotated[int, Meta(ge=-300, le=1000)]
SmallCount = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Rate = Annotated[float, Meta(ge=0, le=1e15)]


class Summary(Enum):
    """The value of a long interval, made from those of shorter ones."""

    MEAN = "mean"
    """Mean over the time in which the GPU reported the value; a whole number stays one."""
    HIGHEST = "highest"
    NEWEST = "newest"


MEAN, HIGHEST, NEWEST = Summary


class Metric(Struct, frozen=True):
    """Meaning of a value of `Reading`, and where it is shown.

    ``gauge`` is the name of its Prometheus gauge, empty if it has none, and ``help`` the gauge's text. ``scale``
    converts the value to the unit of the gauge and the page. ``absent`` is the gauge's value for a GPU that does
    not report it; None leaves such a GPU out. ``words`` is the text in the tooltip of a GPU, with ``{}`` for the
    number, empty if the tooltip leaves the value out; ``positive`` leaves out 0 there. ``most`` is the upper bound
    of the annotated field if it is a whole number, else None.
    """

    help: str
    summary: Summary
    gauge: str = ""
    scale: float = 1
    absent: float | None = None
    words: str = ""
    positive: bool = False
    most: int | None = None


class Reading(Struct, frozen=True, omit_defaults=True):
    """Values that a GPU reports at a moment. None means that it does not report one, which is not the same as 0.

    ``utilization`` is the part of the time in which it computed, from 0 to 1; memory is in bytes, ``power`` in
    watts, ``temperature`` in degrees Celsius, traffic in bytes per second. ``processes`` counts the processes
    that compute on it. ECC errors are counted since the driver was loaded; ``xid`` is the number of the newest Xid
    error since the service was started. ``lost`` means that the driver cannot reach the GPU.
    """

    lost: bool = False
    utilization: Annotated[
        Share | None,
        Metric(
            "Part of the time in which the GPU computed (%)",
            MEAN,
            "DCGM_FI_DEV_GPU_UTIL",
            scale=100,
            words="{} % used",
        ),
    ] = None
    memory_used: Annotated[
        Count | None,
        Metric("Memory in use (MiB)", MEAN, "DCGM_FI_DEV_FB_USED", scale=1 / MIB, words="{} of memory"),
    ] = None
    memory_total: Annotated[Count | None, Metric("Memory (MiB)", NEWEST, scale=1 / MIB)] = None
    power: Annotated[Watts | None, Metric("Power (W)", MEAN, "DCGM_FI_DEV_POWER_USAGE", words="{} W")] = None
    temperature: Annotated[
        Celsius | None, Metric("Temperature (°C)", HIGHEST, "DCGM_FI_DEV_GPU_TEMP", words="{} °C")
    ] = None
    processes: Annotated[
        SmallCount | None, Metric("Processes that compute on the GPU", HIGHEST, "springtide_gpu_processes")
    ] = None
    xid: Annotated[
        Count | None,
        Metric(
            "Number of the newest Xid error, 0 before the first",
            NEWEST,
            "DCGM_FI_DEV_XID_ERRORS",
            absent=0,
            words="Xid error {}",
        ),
    ] = None
    ecc_corrected: Annotated[
        Count | None,
        Metric("Corrected ECC errors since the driver was loaded", NEWEST, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
    ] = None
    ecc_uncorrected: Annotated[
        Count | None,
        Metric(
            "Uncorrected ECC errors since the driver was loaded",
            NEWEST,
            "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
            words="{} uncorrected ECC errors",
            positive=True,
        ),
    ] = None
    nvlink_received: Annotated[
        Rate | None,
        Metric("Received through all NVLinks", MEAN, "springtide_gpu_nvlink_received_bytes_per_second"),
    ] = None
    nvlink_sent: Annotated[
        Rate | None, Metric("Sent through all NVLinks", MEAN, "springtide_gpu_nvlink_sent_bytes_per_second")
    ] = None
    pcie_received: Annotated[
        Rate | None,
        Metric("Received through PCIe (kB/s)", MEAN, "DCGM_FI_DEV_PCIE_RX_THROUGHPUT", scale=1e-3),
    ] = None
    pcie_sent: Annotated[
        Rate | None, Metric("Sent through PCIe (kB/s)", MEAN, "DCGM_FI_DEV_PCIE_TX_THROUGHPUT", scale=1e-3)
    ] = None


def _metrics() -> Iterator[tuple[str, Metric]]:
    """Yield the annotated fields by name, with the bounds of their types."""
    for name, annotation in get_type_hints(Reading, include_extras=True).items():
        for metric in get_args(annotation)[1:]:
            if isinstance(metric, Metric):
                kind, bounds = get_args(get_args(get_args(annotation)[0])[0])
                yield name, replace(metric, most=bounds.le if kind is int else None)


METRICS: Final[Mapping[str, Metric]] = MappingProxyType(dict(_metrics()))
"""The values of `Reading` by name, in the order in which the tooltip of a GPU says them."""
