"""Times as people say them, and when a job is expected to start."""

from __future__ import annotations

from springtide.scheduler.wire import Forecast, Starts
from springtide.scheduler.wording import count, duration, gpus, listed, quoted

SOON = 10.0
"""Time below which a start is "any moment", in seconds."""
LATE = 60.0
"""Time after which a start that was expected and has not come is told as late, in seconds."""


def expectation(starts: Starts, now: float, verb: str = "starts") -> str:
    """Return ``Likely starts in about 12 min (between 5 and 40 min).``, or why that is not known."""
    if starts.likely is None:
        return "" if starts.why is None else starts.why.text
    if now - starts.likely > LATE:
        return f"It was expected to {verb.removesuffix('s')} {duration(now - starts.likely)} ago."
    return f"Likely {verb} {moment(starts, now)}."


def prospect(told: Forecast) -> str:
    """Return when a job that is not submitted would start, and what would be paused at once."""
    starts = told.job
    if starts is None:
        return ""
    if starts.likely is None:
        return "" if starts.why is None else starts.why.text
    words = f"It would likely start {moment(starts, told.at)}."
    paused = [shift for shift in told.shifts if shift.kind == "paused"]
    if not paused or starts.likely - told.at >= SOON:
        return words
    held = gpus(sum(shift.gpus for shift in paused))
    whose = listed([quoted(name) for name in sorted({shift.project for shift in paused})])
    return f"{words} For it, {count(len(paused), 'job')} of {whose} with {held} would be paused."


def moment(starts: Starts, now: float) -> str:
    """Return ``in about 12 min (between 5 and 40 min)`` or ``any moment``, of a start with a likely time."""
    assert starts.likely is not None
    likely = starts.likely - now
    words = "any moment" if likely < SOON else f"in about {duration(likely)}"
    first = 0.0 if starts.earliest is None else starts.earliest - now
    if starts.latest is None:
        early = "now at the earliest" if first < SOON else f"in {duration(first)} at the earliest"
        return words if likely < SOON else f"{words} ({early})"
    return f"{words}{_range(first, starts.latest - now)}"


def _range(first: float, last: float) -> str:
    early, late = duration(first), duration(last)
    if last < SOON or early == late:
        return ""
    if first < SOON:
        return f" (within {late})"
    number, _, unit = early.partition(" ")
    alike = unit == late.partition(" ")[2]
    return f" (between {number if alike else early} and {late})"
