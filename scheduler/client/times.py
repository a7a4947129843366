"""When a job is expected to start, as people say it."""

from __future__ import annotations

from springtide.scheduler import wording
from springtide.scheduler.wire import Forecast, Starts

LATE = 60.0
"""Time after which a start that was expected and has not come is told as late, in seconds."""


def expectation(starts: Starts, now: float, verb: str = "starts") -> str:
    """Return ``Likely starts in about 12 min (between 5 and 40 min).``, or why that is not known."""
    if starts.likely is None:
        return "" if starts.why is None else starts.why.text
    if now - starts.likely > LATE:
        return f"It was expected to {verb.removesuffix('s')} {wording.duration(now - starts.likely)} ago."
    return f"Likely {verb} {moment(starts, now)}."


def prospect(told: Forecast) -> str:
    """Return what to expect of a job that is not submitted; empty if the forecast has none."""
    return "" if told.estimate is None else told.estimate.text


def moment(starts: Starts, now: float) -> str:
    """Return ``in about 12 min (between 5 and 40 min)`` or ``any moment``, of a start with a likely time."""
    assert starts.likely is not None
    first = 0.0 if starts.earliest is None else starts.earliest - now
    return wording.moment(starts.likely - now, first, None if starts.latest is None else starts.latest - now)
