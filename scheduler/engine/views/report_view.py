"""Reports of the use of the pool: rows of the ledger become a table; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from springtide.scheduler import wire
from springtide.scheduler.store.ledger import DAY, HOUR, Accounts, EndedFact, FactKind, Group, Sums
from springtide.scheduler.wire import ReportBy
from springtide.scheduler.wording import listed

OF_GROUP: Mapping[ReportBy, Callable[[Group], str]] = {
    ReportBy.PROJECT: lambda group: group.project,
    ReportBy.PERSON: lambda group: group.user,
    ReportBy.TYPE: lambda group: group.gpu_type,
    ReportBy.KIND: lambda group: group.kind,
}
_FORMATS: Mapping[ReportBy, str] = {
    ReportBy.HOUR: "%Y-%m-%d %H:00",
    ReportBy.DAY: "%Y-%m-%d",
    ReportBy.WEEK: "%G-W%V",
    ReportBy.MONTH: "%Y-%m",
    ReportBy.YEAR: "%Y",
}
"""How a time is shown: the week by its number of ISO 8601."""
WITHOUT_QUOTA = frozenset({ReportBy.PERSON, ReportBy.KIND})
"""What quotas say nothing about."""
Key = tuple[str, ...]


@dataclass(slots=True)
class _Row:
    """What is gathered for a row."""

    sums: Sums = field(default_factory=Sums)
    people: set[str] = field(default_factory=set)
    waits: list[float] = field(default_factory=list)
    quota: float | None = 0.0
    has_quota: bool = False

    def add_quota(self, gpu_seconds: float | None) -> None:
        """Add to the quota; None is an unlimited one, whose sum is unknown."""
        self.has_quota = True
        self.quota = None if gpu_seconds is None or self.quota is None else self.quota + gpu_seconds


def step_of(by: Iterable[ReportBy]) -> int:
    """Return the length of the intervals of sums that a report needs, in seconds."""
    return HOUR if ReportBy.HOUR in by else DAY


def bounds(by: Sequence[ReportBy], first: date, last: date) -> list[int]:
    """Return the begins of all intervals of a report that differ in its columns of times, and its end."""
    labels, step, end = _Labels(by), step_of(by), begin(last + timedelta(days=1))
    starts = range(begin(first), end, step)
    return [*(at for at in starts if at == starts[0] or labels.times(at) != labels.times(at - step)), end]


def report(
    accounts: Accounts, by: Sequence[ReportBy], first: date, last: date, *, now: float, simulated: bool = False
) -> wire.Report:
    """Return the report from the day ``first`` to the day ``last``, both included, up to ``now``.

    ``simulated`` says that GPUs of the pool are simulated now.
    """
    rows: dict[Key, _Row] = {}
    total, labels = _Row(), _Labels(by)
    for each in accounts.sums:
        key = labels.of(each.at, each.group)
        row = rows.get(key)
        if row is None:
            row = rows[key] = _Row()
        row.sums.add(each.sums)
        if each.sums.held:
            row.people.add(each.group.user)
    found: dict[tuple[Key, Group], list[float]] = {}
    for at, group, wait in accounts.waits:
        place = labels.times(at), group
        waits = found.get(place)
        if waits is None:
            waits = found[place] = rows.setdefault(labels.of(at, group), _Row()).waits
        waits.append(wait)
    for row in rows.values():
        total.sums.add(row.sums)
        total.people |= row.people
        total.waits += row.waits
    start, end = float(begin(first)), min(float(begin(last + timedelta(days=1))), now)
    quotas = [each for each in accounts.facts if each.kind is FactKind.QUOTA]
    if ReportBy.PROJECT in by and not WITHOUT_QUOTA & set(by):
        for fact in quotas:
            for begun, seconds in _parts(max(fact.start, start), min(fact.end, end), labels.boundary):
                group = Group(fact.project, "", "", fact.gpu_type)
                if fact.value is None or fact.value > 0:
                    row = rows.setdefault(labels.of(begun, group), _Row())
                    row.add_quota(None if fact.value is None else fact.value * seconds)
    return wire.Report(
        start=first.isoformat(),
        end=last.isoformat(),
        by=list(by),
        rows=[_shown(dict(zip(by, key, strict=True)), rows[key]) for key in sorted(rows)],
        total=_shown({}, total),
        simulated=simulated,
        notes=_notes(accounts, total, quotas if any(row.has_quota for row in rows.values()) else [], start),
    )


class _Labels:
    """The values of rows, each worked out once."""

    def __init__(self, by: Sequence[ReportBy]) -> None:
        self._by = by
        self._times: dict[int, Key] = {}
        self._periods = [each for each in by if each in _FORMATS]
        self._step = step_of(by)

    def of(self, at: float, group: Group) -> Key:
        """Return the values of the row that something is in."""
        times = iter(self.times(at))
        return tuple(next(times) if each in _FORMATS else OF_GROUP[each](group) for each in self._by)

    def times(self, at: float) -> Key:
        """Return the values of the columns of times."""
        if not self._periods:
            return ()
        number = int(at // self._step)
        found = self._times.get(number)
        if found is None:
            moment = datetime.fromtimestamp(number * self._step, UTC)
            found = self._times[number] = tuple(moment.strftime(_FORMATS[each]) for each in self._periods)
        return found

    def boundary(self, at: float) -> float:
        """Return when the interval that a moment is in ends; never if rows are not by time."""
        return (at // self._step + 1) * self._step if self._periods else math.inf


def _parts(start: float, end: float, boundary: Callable[[float], float]) -> Iterable[tuple[float, float]]:
    """Yield the begin and the length of each part of a span that no boundary divides."""
    while start < end:
        stop = min(end, boundary(start))
        yield start, stop - start
        start = stop


def _shown(by: Mapping[ReportBy, str], row: _Row) -> wire.ReportRow:
    sums, waits = row.sums, sorted(row.waits)
    return wire.ReportRow(
        by={each.value: value for each, value in by.items()},
        gpu_hours_held=sums.held / HOUR,
        gpu_hours_measured=sums.measured / HOUR,
        gpu_hours_used=sums.used / HOUR if sums.measured else None,
        gpu_hours_quota=row.quota / HOUR if row.has_quota and row.quota is not None else None,
        gpu_hours_borrowed=sums.borrowed / HOUR,
        idle_held_hours=sums.idle / HOUR if sums.measured else None,
        jobs=sums.jobs,
        people=len(row.people - {""}),
        wait_p50_s=_percentile(waits, 50),
        wait_p95_s=_percentile(waits, 95),
        pauses=sums.pauses,
        lost_gpu_hours=sums.lost / HOUR,
        cost=sums.cost if sums.priced else None,
    )


def _percentile(waits: Sequence[float], percent: int) -> float | None:
    """Return the shortest wait that ``percent`` of the jobs have not exceeded, in seconds; None without jobs."""
    return waits[max(0, math.ceil(len(waits) * percent / 100) - 1)] if waits else None


def _notes(accounts: Accounts, total: _Row, quotas: Sequence[EndedFact], start: float) -> list[str]:
    """Return sentences about what the numbers leave out."""
    held, measured, notes = total.sums.held, total.sums.measured, []
    if held and not measured:
        notes.append("The use of the GPUs was not measured.")
    elif held and measured < 0.99 * held:
        notes.append(
            f"Use was measured for {measured / held:.0%} of the GPU-hours held; an hour is added after its end."
        )
    unpriced = {each.group.gpu_type for each in accounts.sums if each.sums.held - each.sums.priced > 1.0}
    if total.sums.priced and unpriced:
        names = listed(sorted(name or "GPUs of no known type" for name in unpriced))
        notes.append(f"The cost leaves out GPU-hours that had no price, of {names}.")
    known = min((each.start for each in quotas), default=start)
    if known > start + 1.0:
        when = datetime.fromtimestamp(known, UTC)
        notes.append(f"Quotas are known since {when:%Y-%m-%d %H:%M} UTC; GPU-hours of quota begin there.")
    return notes


def begin(day: date) -> int:
    """Return when a day begins in UTC, in seconds since the epoch."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
