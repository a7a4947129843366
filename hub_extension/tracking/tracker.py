"""What forwarding needs of a tracker, whatever its kind."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from springtide.scheduler.wire import Job, Point


@dataclass(frozen=True, slots=True)
class MlflowSettings:
    """An MLflow server: ``uri`` for the service, ``page`` for browsers, neither with a slash at the end.

    ``credentials`` are ``user:password``, or a token, or empty.
    """

    uri: str
    page: str
    credentials: str = ""


@dataclass(frozen=True, slots=True)
class TensorboardSettings:
    """The log directory of a TensorBoard, and its address for browsers, empty if there is none."""

    directory: Path
    page: str = ""


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    """The trackers that reports are forwarded to."""

    mlflow: MlflowSettings | None = None
    tensorboard: TensorboardSettings | None = None


LAST_STEP: Final = (1 << 63) - 1
_OUTSIDE = re.compile(r"[^\w.\- /]")


class TrackerDownError(Exception):
    """The tracker takes nothing at present; the message says why. The same is worth another attempt later."""


class NotTakenError(Exception):
    """The tracker does not take what one job reported; the message says why. Another attempt is of no use."""


class Run(Protocol):
    """The record of one job in a tracker, over all its attempts."""

    @property
    def position(self) -> int:
        """Return the ``seq`` of the last report that the tracker has; 0 if it has none."""

    async def write(self, points: Sequence[Point]) -> None:
        """Add reports, which follow ``position`` in order. Raises `TrackerDownError` or `NotTakenError`."""

    async def settle(self, job: Job) -> None:
        """Record the state of the job, after all its reports. Raises as `write`."""


class Tracker(Protocol):
    """A place that keeps what jobs report. ``name`` is what people call it."""

    name: str

    async def open(self, job: Job) -> Run:
        """Return the record of a job, made unless it exists. Raises `TrackerDownError` or `NotTakenError`."""

    async def address(self, job: Job) -> str | None:
        """Return the address at which a browser shows the job; None if there is none. Raises as `open`."""

    async def close(self) -> None:
        """Release connections."""


def metric_name(name: str) -> str:
    """Return the name of a value as trackers take it: letters, digits and ``_-. /``, and no path outside."""
    cleaned = _OUTSIDE.sub("_", name)
    if posixpath.normpath(cleaned) == cleaned and not cleaned.startswith((".", "/")):
        return cleaned
    return cleaned.replace("/", "_").replace(".", "_")


def whole_step(step: float | None) -> int:
    """Return the step as a signed integer of 64 bits; 0 for a report without one."""
    return 0 if step is None else max(-LAST_STEP, min(LAST_STEP, int(step)))
