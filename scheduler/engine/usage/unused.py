"""Stretches of time in which a job holds GPUs and hardly uses them; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

UNUSED_BELOW = 0.1
"""Mean utilization of a job's GPUs below which they count as hardly used."""
UNUSED_AFTER = 600.0
"""Duration after which a job is told that it hardly uses its GPUs, in seconds."""
WORKSPACE_USED_FROM = 0.01
"""Utilization of a GPU of a workspace from which the workspace counts as used."""
LONGEST_GAP = 60.0
"""Maximum time without a measurement within a stretch, in seconds; a clock that goes back further ends it, too."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time of hardly used GPUs, from ``since`` to ``end``, in seconds since the epoch.

    ``measured`` is the time that was measured, ``used`` the part of it in which the GPUs computed, in seconds.
    """

    since: float
    end: float
    measured: float
    used: float

    @property
    def length(self) -> float:
        """Duration in seconds."""
        return self.end - self.since

    @property
    def share(self) -> float:
        """Mean utilization, from 0 to 1."""
        return self.used / self.measured


def extended(before: Stretch | None, at: float, seconds: float, utilization: float | None) -> Stretch | None:
    """Return the stretch after the interval of ``seconds`` from ``at``; None once the GPUs are used or unknown."""
    if utilization is None or utilization >= UNUSED_BELOW:
        return None
    if before is None or abs(at - before.end) > LONGEST_GAP:
        before = Stretch(at, at, 0.0, 0.0)
    return Stretch(before.since, at + seconds, before.measured + seconds, before.used + seconds * utilization)


def stretch_of(intervals: Iterable[tuple[float, float, float | None]]) -> Stretch | None:
    """Return the stretch that intervals end with: their begin, seconds and utilization, in the order of time."""
    found = None
    for at, seconds, utilization in intervals:
        found = extended(found, at, seconds, utilization)
    return found
