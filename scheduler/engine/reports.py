"""Reports of the use of the pool: questions checked, and answers read from the ledger beside the engine's loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

from sqlalchemy import Connection

from springtide.scheduler import wire
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.engine.views import report_view
from springtide.scheduler.engine.views.pool_view import is_simulated
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.queries import ledger
from springtide.scheduler.wire import ReportBy
from springtide.scheduler.wording import given

LONGEST = 3_660
"""Maximum number of days of a report."""
LONGEST_BY_HOUR = 31
"""Maximum number of days of a report by hour."""
MOST_ROWS = 50_000
_DAY = re.compile("(19[7-9][0-9]|2[01][0-9]{2})-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Sight:
    """What a caller may see: the use of a person in a project, and the quota of a project."""

    use: Callable[[str, str], bool]
    quota: Callable[[str], bool]


class Reports:
    """Makes reports of the pool with these nodes, in a thread that reads the store."""

    def __init__(
        self, store: StoreThreads, nodes: ObservedNodes, clock: Callable[[], float], currency: str
    ) -> None:
        self._currency = currency
        self._threads = store
        self._nodes = nodes
        self._clock = clock

    async def report(self, start: str | None, end: str | None, by: str, sight: Sight) -> wire.Report:
        """Return the report from the day ``start`` to the day ``end``, by a list with commas of `wire.ReportBy`.

        Without days it is that of the present month. Raises `Refusal` 422 for an invalid question.
        """
        now = self._clock()
        today = datetime.fromtimestamp(now, UTC).date()
        last = today if end is None else _day(end, "end")
        first = last.replace(day=1) if start is None else _day(start, "start")
        wanted = _columns(by)
        _check_span(first, last, wanted)
        read = partial(made, simulated=is_simulated(self._nodes.all), currency=self._currency)
        found = await self._threads.read(read, wanted, (first, last), now, sight)
        if len(found.rows) > MOST_ROWS:
            raise Refusal(
                422,
                "invalid",
                f"The report has {len(found.rows):,} rows; at most {MOST_ROWS:,} are given.",
                field="by",
                hint="Ask for fewer columns, or for a shorter span.",
            )
        return found


def made(
    connection: Connection,
    by: Sequence[ReportBy],
    days: tuple[date, date],
    now: float,
    sight: Sight,
    *,
    simulated: bool = False,
    currency: str = "",
) -> wire.Report:
    """Return the report from the first to the last of two days, both included, as it is ``now``."""
    first, last = days
    intervals = ledger.Intervals(report_view.step_of(by), report_view.bounds(by, first, last))
    found = ledger.accounts(
        connection,
        intervals,
        report_view.fields_of(by),
        now=now,
        may=sight.use,
        lots=report_view.has_quotas(by),
    )
    return report_view.report(
        found,
        by,
        first,
        last,
        now=now,
        quota_of=sight.quota,
        simulated=simulated,
        currency=currency,
    )


def _day(text: str, field: str) -> date:
    if _DAY.fullmatch(text):
        with suppress(ValueError):
            return date.fromisoformat(text)
    raise Refusal(
        422,
        "invalid",
        f"{given(text)} is not a day.",
        field=field,
        hint="Give year, month and day, such as 2026-01-31.",
    )


def _columns(by: str) -> list[ReportBy]:
    found: list[ReportBy] = []
    for name in filter(None, (part.strip() for part in by.split(","))):
        try:
            column = ReportBy(name)
        except ValueError:
            raise Refusal(
                422,
                "invalid",
                f"A report cannot be by {given(name)}.",
                field="by",
                hint=f"Choose from {', '.join(ReportBy)}.",
            ) from None
        if column not in found:
            found.append(column)
    return found


def _check_span(first: date, last: date, by: Sequence[ReportBy]) -> None:
    days = (last - first).days + 1
    if days < 1:
        raise Refusal(
            422,
            "invalid",
            f"The report would end on {last}, before it starts on {first}.",
            field="end",
            hint="The last day is part of the report; give one that is not before the first.",
        )
    most = LONGEST_BY_HOUR if ReportBy.HOUR in by else LONGEST
    if days > most:
        raise Refusal(
            422,
            "invalid",
            f"The report would have {days:,} days; at most {most:,} are possible"
            f"{' by hour' if ReportBy.HOUR in by else ''}.",
            field="start",
            hint="Ask for a part of it.",
        )
