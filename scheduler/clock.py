"""The clocks of the machine, to distinguish steps of the system clock from the passing of time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MIN_STEP = 1.0
"""Minimum change of the system clock that counts as a step, in seconds."""


def seconds_since_boot() -> float:
    """Return the seconds since the machine was booted, which no setting of the system clock changes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_number() -> int:
    """Return a number of 60 bits that is the same until the machine is booted again."""
    return int(hashlib.sha256(BOOT_ID.read_bytes()).hexdigest()[:15], 16)


@dataclass(frozen=True, slots=True)
class ClockAnchor:
    """The system clock in relation to the boot of the machine.

    ``boot`` names the boot; ``offset`` is the system clock's value at it, in seconds since the epoch.
    """

    boot: int
    offset: float

    def step_to(self, later: ClockAnchor) -> float:
        """Return by how many seconds the system clock was set between two anchors.

        0 for less than `MIN_STEP`, and for anchors of different boots, which cannot be compared.
        """
        step = later.offset - self.offset
        return step if self.boot == later.boot and abs(step) >= MIN_STEP else 0.0


@dataclass(frozen=True, slots=True)
class Clock:
    """The system clock, with a steady one beside it.

    ``wall`` returns seconds since the epoch and may be set by an admin or a time server at any time; ``steady``
    returns seconds since the boot ``boot``.
    """

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = seconds_since_boot
    boot: int = field(default_factory=boot_number)

    def anchor(self) -> ClockAnchor:
        """Return the present relation of the two clocks."""
        return ClockAnchor(self.boot, self.wall() - self.steady())
