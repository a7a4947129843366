"""Forecasts of a job not started when it was expected: they are wider, and in the end withdrawn; pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from springtide.scheduler import wire
from springtide.scheduler.engine import messages
from springtide.scheduler.engine.views import job_view
from springtide.scheduler.forecast import SPREAD

MOST_MISSES: Final = 3
"""Number of missed forecasts from which on a start is not expected sooner than it has been for."""
LEAST_TIME: Final = 60.0
"""Time after which a forecast can be missed, in seconds."""


class Expectation(NamedTuple):
    """When a waiting job was first expected to start, until when it should have, and how often it did not.

    ``first`` is when its first forecast was made, ``due`` the end of the one that counts, both in seconds since
    the epoch.
    """

    first: float
    due: float
    missed: int = 0


def widened(before: Expectation | None, start: wire.Starts) -> tuple[wire.Starts, Expectation | None]:
    """Return a start as it may be shown, and the expectation from then on.

    Once a forecast was missed, the latest start is as far away as the first forecast is old; after `MOST_MISSES` a
    likely start that is nearer is unknown.
    """
    if start.likely is None:
        return start, before
    if before is None:
        return start, Expectation(start.at, _due(start))
    if start.at > before.due:
        before = before._replace(due=_due(start), missed=before.missed + 1)
    if not before.missed:
        return start, before
    wrong = start.at - before.first
    if before.missed >= MOST_MISSES and start.likely - start.at < wrong:
        why = job_view.reason(messages.starts_unknown("missed"))
        return replace(start, earliest=None, likely=None, latest=None, why=why), before
    latest = None if start.latest is None else max(start.latest, float(round(start.at + wrong)))
    return replace(start, latest=latest), before


def _due(start: wire.Starts) -> float:
    """Return when a start is missed; one without a latest time at a multiple of its likely wait."""
    likely = start.at if start.likely is None else start.likely
    latest = start.at + SPREAD * (likely - start.at) if start.latest is None else start.latest
    return max(latest, start.at + LEAST_TIME)
