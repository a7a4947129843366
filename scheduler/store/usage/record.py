"""Measured use of a GPU over an interval, by one holder."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

FINE = 10
MINUTE = 60
HOUR = 3_600
DAY = 86_400
KEPT = {FINE: DAY, MINUTE: 31 * DAY}
"""Seconds for which intervals of a length are kept; those of an hour are kept for good."""


class UsageKey(NamedTuple):
    """The GPU and its holder: a job, a workspace, something ``foreign`` to the pool, or nobody.

    ``kind`` is ``job``, ``workspace``, ``foreign`` or empty; ``server`` is the name of a workspace, ``user`` and
    ``project`` are those of the holder.
    """

    gpu: str
    kind: str = ""
    job: str = ""
    user: str = ""
    server: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """Use of one GPU by one holder in the ``step`` seconds from ``at``, which is in seconds since the epoch.

    ``seconds`` is how long it was measured. None means that the GPU does not report it: ``utilization`` is a mean
    from 0 to 1; ``memory_used`` is a mean, ``memory_peak`` the highest value, in bytes; ``power`` is a mean in
    watts, ``temperature`` the highest in degrees Celsius, ``processes`` the highest number. ECC errors and the Xid
    error are the newest values, traffic is a mean in bytes per second.
    """

    step: int
    at: int
    gpu: str
    kind: str = ""
    job: str = ""
    user: str = ""
    server: str = ""
    project: str = ""
    simulated: bool = False
    seconds: int
    utilization: float | None = None
    memory_used: int | None = None
    memory_peak: int | None = None
    memory_total: int | None = None
    power: float | None = None
    temperature: int | None = None
    processes: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    xid: int | None = None
    nvlink_received: float | None = None
    nvlink_sent: float | None = None
    pcie_received: float | None = None
    pcie_sent: float | None = None

    @property
    def key(self) -> UsageKey:
        """The GPU and its holder."""
        return UsageKey(self.gpu, self.kind, self.job, self.user, self.server, self.project)


COLUMNS = tuple(field.name for field in fields(UsageRecord))


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Use over a span, of what ``key`` names; its other fields are empty.

    ``held`` and ``used`` are GPU-seconds: ``used`` is the part of ``measured`` in which the GPUs computed, and
    ``measured`` the part of ``held`` in which they reported that. ``memory_peak`` is the most that one GPU had in
    use, in bytes.
    """

    key: UsageKey
    held: float
    measured: float
    used: float
    memory_peak: int | None
    simulated: bool
