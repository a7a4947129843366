"""Times as people say them, and when a job is expected to start."""

from __future__ import annotations

from springtide.scheduler.wire import Forecast, Starts

UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
SOON = 10.0
"""What is less than so many seconds away is any moment."""
MOST_NAMED = 3


def duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = max(0, round(seconds))
    for place, (unit, length) in enumerate(UNITS):
        if whole >= length:
            most, rest = divmod(whole, length)
            below = UNITS[place + 1] if place < 2 else None
            more = f" {rest // below[1]} {below[0]}" if below and rest >= below[1] else ""
            return f"{most} {unit}{more}"
    return "0 s"


def expectation(starts: Starts, now: float, verb: str = "starts") -> str:
    """``Likely starts in about 12 min (between 5 and 40 min).``; why not, where it cannot be told."""
    if starts.likely is None:
        return "" if starts.why is None else starts.why.text
    return f"Likely {verb} {moment(starts, now)}."


def prospect(told: Forecast) -> str:
    """When a job that is not submitted would start, and what would be paused at once."""
    starts = told.job
    if starts is None:
        return ""
    if starts.likely is None:
        return "" if starts.why is None else starts.why.text
    words = f"It would likely start {moment(starts, told.at)}."
    paused = [shift for shift in told.shifts if shift.kind == "paused"]
    if not paused or starts.likely - told.at >= SOON:
        return words
    gpus = sum(shift.gpus for shift in paused)
    whose = sorted({shift.project for shift in paused})
    jobs = "a job" if len(paused) == 1 else f"{len(paused)} jobs"
    of = f"{', '.join(whose[:MOST_NAMED])}{' and others' if len(whose) > MOST_NAMED else ''}"
    return f"{words} For it, {jobs} of {of} with {gpus} GPU{'' if gpus == 1 else 's'} would be paused."


def moment(starts: Starts, now: float) -> str:
    """``in about 12 min (between 5 and 40 min)``, ``any moment``; only of a start that is likely at some time."""
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
