"""The forecasts of starts that were shown, and when the jobs started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select

from springtide.scheduler.store import schema
from springtide.scheduler.store.rows import Rows

MOST_OUTCOMES = 50_000
"""Maximum number of outcomes that are read, the latest ones."""

_forecasts, _attempts = schema.forecasts, schema.attempts


@dataclass(frozen=True, slots=True)
class ShownForecast:
    """A forecast of a job's start as it was shown at ``at``; all times are in seconds since the epoch.

    ``earliest`` and ``latest`` bound the window; None means that it has no such bound.
    """

    job: str
    at: float
    earliest: float | None
    likely: float
    latest: float | None


@dataclass(frozen=True, slots=True)
class ForecastOutcome:
    """A forecast that was shown, and when the job ``started`` after that, in seconds since the epoch."""

    forecast: ShownForecast
    started: float


_rows = Rows(_forecasts, ShownForecast)


def save(connection: Connection, shown: Sequence[ShownForecast]) -> None:
    """Write forecasts; one of the same job and time is replaced."""
    for each in shown:
        connection.execute(delete(_forecasts).where(_forecasts.c.job == each.job, _forecasts.c.at == each.at))
    _rows.insert(connection, shown)


def drop(connection: Connection, jobs: Sequence[str]) -> None:
    """Delete the forecasts of jobs."""
    connection.execute(delete(_forecasts).where(_forecasts.c.job.in_(jobs)))


def outcomes(connection: Connection, since: float) -> list[ForecastOutcome]:
    """Return the forecasts shown since a time of jobs that have started since, the latest first."""
    started = func.min(_attempts.c.created)
    columns = (_forecasts.c.job, _forecasts.c.at, _forecasts.c.earliest, _forecasts.c.likely, _forecasts.c.latest)
    wanted = (
        select(*columns, started)
        .join(_attempts, (_attempts.c.job == _forecasts.c.job) & (_attempts.c.created >= _forecasts.c.at))
        .where(_forecasts.c.at >= since)
        .group_by(*columns)
        .order_by(_forecasts.c.at.desc(), _forecasts.c.job)
        .limit(MOST_OUTCOMES)
    )
    return [ForecastOutcome(ShownForecast(*row[:5]), row[5]) for row in connection.execute(wanted)]
