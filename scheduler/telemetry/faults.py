"""Faults of a GPU's hardware, recognised in its readings; pure.

`HARDWARE_XIDS` are the Xid errors after which a GPU must not be used before it was reset, or the machine was
restarted or serviced. They follow the actions in NVIDIA's Xid catalog
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) and in the checks of NVIDIA's Health
Validation (https://docs.nvidia.com/health-validation/reference/checks/xid). Left out are those that a program
causes by itself (13, 31, 43, 45, 68, 109), the record of a repair (63), and the contained memory error (94), which
is among the uncorrected ECC errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.model import Reason
from springtide.scheduler.settings import setting
from springtide.scheduler.telemetry.sample import GpuSample

HARDWARE_XIDS: Mapping[int, str] = MappingProxyType(
    {
        46: "the GPU stopped processing",
        48: "a double-bit ECC error",
        62: "the GPU's internal micro-controller halted",
        64: "a faulty row of its memory could not be replaced",
        74: "an NVLink error",
        79: "the GPU has fallen off the bus",
        95: "an uncontained memory error",
        119: "its system processor (GSP) does not answer",
        120: "an error of its system processor (GSP)",
        140: "an ECC error that it did not recover from",
    }
)
"""Xid errors that mean a fault of the hardware, and what they say."""


@dataclass(frozen=True, slots=True)
class FaultRules:
    """The rules for faults. A GPU that the driver has lost always counts."""

    drain_faulty_gpus: bool = setting(
        True,
        "Drain a GPU of this machine that reports a fault: nothing new starts on it, and its job continues "
        "elsewhere. On a cluster the device plugin does this.",
    )
    fault_xids: frozenset[Annotated[int, Meta(ge=1)]] = setting(
        frozenset(HARDWARE_XIDS), "The Xid errors of NVIDIA's driver that count as a fault."
    )
    fault_ecc_errors: int = setting(
        1,
        "The number of uncorrected ECC errors since the driver was loaded from which each new one counts as a "
        "fault; 0: none does.",
        ge=0,
    )
    slow_node_ratio: Annotated[float, Meta(ge=1.1)] | None = setting(
        1.5,
        "A node is drained if the same jobs took this many times as long on it as on at least two others with "
        "the same GPUs, and chance is ruled out; None: no node is. Only with `drain_faulty_gpus`.",
    )


def fault(before: Reading | None, sample: GpuSample, rules: FaultRules) -> Reason | None:
    """Return the fault that a GPU shows in a sample and did not show in the reading before, None without one.

    Without a reading ``before``, everything that the GPU reports is new. A count that is lower than before began
    anew, because the driver was loaded again.
    """
    if not rules.drain_faulty_gpus:
        return None
    after = sample.reading
    if after.lost and not (before is not None and before.lost):
        return Reason("gpu-lost")
    xid = next((number for number in sample.new_xids if number in rules.fault_xids), None)
    if xid is not None:
        return Reason("gpu-xid", {"xid": xid, "what": HARDWARE_XIDS.get(xid, "")})
    errors = after.ecc_uncorrected or 0
    known = (before.ecc_uncorrected or 0) if before is not None else 0
    new = errors - known if errors >= known else errors
    if new and rules.fault_ecc_errors and errors >= rules.fault_ecc_errors:
        return Reason("gpu-ecc", {"new": new, "errors": errors})
    return None


def remembered(before: Reading | None, after: Reading) -> Reading:
    """Return the reading to compare the next one with, with the last count of errors that was reported."""
    if after.ecc_uncorrected is not None or before is None:
        return after
    return replace(after, ecc_uncorrected=before.ecc_uncorrected)
