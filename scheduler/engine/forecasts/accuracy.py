"""The accuracy of the shown forecasts of starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from springtide.scheduler import wire
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.store import StoreError, shown_forecasts
from springtide.scheduler.store.shown_forecasts import ForecastOutcome, ShownForecast

logger = logging.getLogger(__name__)

ROUNDING = 1.0
"""Tolerance in seconds: windows are published in whole seconds."""
COMPARED = 30 * 86_400.0
"""Maximum age of the forecasts compared with actual starts, in seconds."""


class ForecastRecord:
    """Records the forecasts that are shown, and compares them with the starts."""

    def __init__(self, store: StoreThreads, clock: Callable[[], float]) -> None:
        self._threads = store
        self._clock = clock

    async def add(self, starts: Mapping[str, wire.Starts]) -> None:
        """Record the starts that are shown from now on, by job. What cannot be written is left out and logged."""
        forecasts = [
            ShownForecast(job_id, start.at, start.earliest, start.likely, start.latest)
            for job_id, start in starts.items()
            if start.likely is not None
        ]
        if not forecasts:
            return
        try:
            await self._threads.write(self._threads.store.write, shown_forecasts.save, forecasts)
        except StoreError as error:
            logger.warning("Forecasts that are shown were not recorded: %s", error)

    async def accuracy(self) -> wire.ForecastAccuracy:
        """Return the accuracy of the start forecasts of the last `COMPARED` seconds.

        Raises `StoreError`.
        """
        since = self._clock() - COMPARED
        return accuracy(await self._threads.read(shown_forecasts.outcomes, since), since)


def accuracy(outcomes: Sequence[ForecastOutcome], since: float) -> wire.ForecastAccuracy:
    """Return the accuracy of the start forecasts made since ``since``, in seconds since the epoch.

    The error is the distance between the likely start and the real one, the width that of a window with both
    bounds.
    """
    early = sum(1 for each in outcomes if _before(each))
    late = sum(1 for each in outcomes if _after(each))
    errors = [abs(each.started - each.forecast.likely) for each in outcomes]
    widths = [
        each.forecast.latest - each.forecast.earliest
        for each in outcomes
        if each.forecast.latest is not None and each.forecast.earliest is not None
    ]
    return wire.ForecastAccuracy(
        since=since,
        forecasts=len(outcomes),
        jobs=len({each.forecast.job for each in outcomes}),
        inside=len(outcomes) - early - late,
        early=early,
        late=late,
        median_error=median(errors) if errors else None,
        mean_error=fmean(errors) if errors else None,
        mean_width=fmean(widths) if widths else None,
    )


def _before(outcome: ForecastOutcome) -> bool:
    earliest = outcome.forecast.earliest
    return earliest is not None and outcome.started < earliest - ROUNDING


def _after(outcome: ForecastOutcome) -> bool:
    latest = outcome.forecast.latest
    return latest is not None and outcome.started > latest + ROUNDING
