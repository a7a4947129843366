"""Reports of the use of the pool: rows of the ledger become a table; pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from types import MappingProxyType

from springtide.scheduler import wire
from springtide.scheduler.engine.state.lineage import Parents
from springtide.scheduler.engine.views.lending import lent
from springtide.scheduler.engine.views.report_highlights import ProjectUse, SpentBudget, notable
from springtide.scheduler.store.ledger import DAY, HOUR, Account, Accounts, EndedFact, FactKind
from springtide.scheduler.wire import ReportBy, report_words
from springtide.scheduler.wording import listed, utc

FIELDS: Mapping[ReportBy, str] = {
    ReportBy.PROJECT: "project",
    ReportBy.PERSON: "user",
    ReportBy.TYPE: "gpu_type",
    ReportBy.KIND: "kind",
}
"""The fields of groups of the ledger that rows are by."""
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
    """The sums of a row; quota and lent in GPU-seconds."""

    account: Account = field(default_factory=Account)
    quota: float | None = 0.0
    has_quota: bool = False
    lent: float = 0.0

    def add_quota(self, gpu_seconds: float | None) -> None:
        """Add to the quota; None is an unlimited one, whose sum is unknown."""
        self.has_quota = True
        self.quota = None if gpu_seconds is None or self.quota is None else self.quota + gpu_seconds


def fields_of(by: Iterable[ReportBy]) -> list[str]:
    """Return the fields of groups that the rows of a report are by."""
    return [FIELDS[each] for each in by if each in FIELDS]


def has_quotas(by: Sequence[ReportBy]) -> bool:
    """Return whether the rows of a report have quotas and lent GPU-hours, as those by project have."""
    return ReportBy.PROJECT in by and not WITHOUT_QUOTA & set(by)


def step_of(by: Iterable[ReportBy]) -> int:
    """Return the length of the intervals of sums that a report needs, in seconds."""
    return HOUR if ReportBy.HOUR in by else DAY


def bounds(by: Sequence[ReportBy], first: date, last: date) -> list[int]:
    """Return the begins of all intervals of a report that differ in its columns of times, and its end."""
    labels, step, end = _Labels(by, ()), step_of(by), begin(last + timedelta(days=1))
    starts = range(begin(first), end, step)
    return [*(at for at in starts if at == starts[0] or labels.times(at) != labels.times(at - step)), end]


def report(
    accounts: Accounts,
    by: Sequence[ReportBy],
    first: date,
    last: date,
    *,
    now: float,
    quota_of: Callable[[str], bool] = lambda _: True,
    parents: Parents = MappingProxyType({}),
    budgets: Sequence[SpentBudget] = (),
    simulated: bool = False,
    currency: str = "",
) -> wire.Report:
    """Return the report from the day ``first`` to the day ``last``, both included, up to ``now``.

    ``quota_of`` says whether the quota and the budget of a project are shown, ``parents`` are those of projects,
    ``budgets`` those of its month, ``simulated`` says that GPUs are simulated now. Costs are in the ``currency``.
    """
    labels = _Labels(by, bounds(by, first, last))
    rows = {labels.of(at, values): _Row(account) for (at, values), account in accounts.rows.items()}
    span = float(begin(first)), min(float(begin(last + timedelta(days=1))), now)
    quotas = [each for each in accounts.facts if each.kind is FactKind.QUOTA and quota_of(each.project)]
    if has_quotas(by):
        _add_quotas(rows, labels, quotas, span)
        for (at, project, gpu_type), seconds in lent(accounts.lots, accounts.facts, span, step_of(by)).items():
            row = rows.get(labels.of(at, labels.values(project, gpu_type))) if quota_of(project) else None
            if row is not None:
                row.lent += seconds
    total = _Row(accounts.total, lent=sum(row.lent for row in rows.values()))
    names = [each.value for each in by]
    shown = [_shown(names, key, rows[key]) for key in sorted(rows)]
    shown_total = _shown((), (), total, with_lent=any(row.has_quota for row in rows.values()))
    budgets = [each for each in budgets if quota_of(each.budget.project)]
    return wire.Report(
        start=first.isoformat(),
        end=last.isoformat(),
        by=list(by),
        rows=shown,
        total=shown_total,
        columns=report_words.columns(shown, currency),
        numbers=report_words.numbers(shown_total, currency),
        notable=notable(_uses(by, rows), parents, budgets, currency) if ReportBy.PROJECT in by else [],
        simulated=simulated,
        currency=currency,
        notes=_notes(accounts, quotas if any(row.has_quota for row in rows.values()) else [], span[0]),
    )


def _uses(by: Sequence[ReportBy], rows: Mapping[Key, _Row]) -> dict[str, ProjectUse]:
    """Return what each project of the rows did; no project is the empty one."""
    found: dict[str, ProjectUse] = {}
    place = by.index(ReportBy.PROJECT)
    for key, row in rows.items():
        use = found.setdefault(key[place], ProjectUse())
        use.held += row.account.sums.held
        use.borrowed += row.account.sums.borrowed
        use.lent += row.lent
        use.has_quota |= row.has_quota
        use.longest_wait = max(use.longest_wait, row.account.waits[-1] if row.account.waits else 0.0)
    return found


def _add_quotas(
    rows: dict[Key, _Row], labels: _Labels, quotas: Iterable[EndedFact], span: tuple[float, float]
) -> None:
    """Add the GPU-seconds of quotas to rows; a project with a quota has one, even if it held nothing."""
    for fact in quotas:
        if fact.value is None or fact.value > 0:
            values = labels.values(fact.project, fact.gpu_type)
            for begun, seconds in labels.parts(max(fact.start, span[0]), min(fact.end, span[1])):
                key = labels.of(begun, values)
                row = rows.get(key)
                if row is None:
                    row = rows[key] = _Row()
                row.add_quota(None if fact.value is None else fact.value * seconds)


class _Labels:
    """The values of rows, each worked out once."""

    def __init__(self, by: Sequence[ReportBy], bounds: Sequence[int]) -> None:
        self._by = by
        self._bounds = bounds
        self._values: dict[tuple[str, str], Key] = {}
        self._times: dict[float, Key] = {}
        self._periods = [each for each in by if each in _FORMATS]
        self._step = step_of(by)
        placed = [*self._periods, *(each for each in by if each not in _FORMATS)]
        self._in_order = itemgetter(*map(placed.index, by)) if len(by) > 1 else tuple

    def of(self, at: float, values: Key) -> Key:
        """Return the values of the row at a time with the ``values`` of `fields_of`."""
        found = self._times.get(at)
        key: Key = self._in_order((*(self.times(at) if found is None else found), *values))
        return key

    def values(self, project: str, gpu_type: str) -> Key:
        """Return the values of the columns of project and GPU type."""
        found = self._values.get((project, gpu_type))
        if found is None:
            values = {ReportBy.PROJECT: project, ReportBy.TYPE: gpu_type}
            found = self._values[project, gpu_type] = tuple(values[each] for each in self._by if each in values)
        return found

    def times(self, at: float) -> Key:
        """Return the values of the columns of times."""
        if not self._periods:
            return ()
        found = self._times.get(at)
        if found is None:
            moment = datetime.fromtimestamp(at // self._step * self._step, UTC)
            found = self._times[at] = tuple(moment.strftime(_FORMATS[each]) for each in self._periods)
        return found

    def parts(self, start: float, end: float) -> Iterable[tuple[float, float]]:
        """Yield the begin of each interval of the report that a span has a part in, and the length of that."""
        if start < end:
            first = bisect_right(self._bounds, start)
            for begun, until in pairwise(self._bounds[first - 1 : bisect_left(self._bounds, end) + 1]):
                yield begun, min(end, until) - max(start, begun)


def _shown(names: Sequence[str], key: Key, row: _Row, *, with_lent: bool = False) -> wire.ReportRow:
    sums, waits = row.account.sums, row.account.waits
    return wire.ReportRow(
        by=dict(zip(names, key, strict=True)),
        gpu_hours_held=sums.held / HOUR,
        gpu_hours_measured=sums.measured / HOUR,
        gpu_hours_used=sums.used / HOUR if sums.measured else None,
        gpu_hours_quota=row.quota / HOUR if row.has_quota and row.quota is not None else None,
        gpu_hours_borrowed=sums.borrowed / HOUR,
        gpu_hours_lent=row.lent / HOUR if row.has_quota or with_lent else None,
        idle_held_hours=sums.idle / HOUR if sums.measured else None,
        jobs=sums.jobs,
        people=row.account.people,
        wait_p50_s=percentile(waits, 50),
        wait_p95_s=percentile(waits, 95),
        pauses=sums.pauses,
        lost_gpu_hours=sums.lost / HOUR,
        cost=sums.cost if sums.priced else None,
    )


def percentile(waits: Sequence[float], percent: int) -> float | None:
    """Return the shortest wait that ``percent`` of the jobs have not exceeded, in seconds; None without jobs."""
    return waits[(len(waits) * percent + 99) // 100 - 1] if waits else None


def _notes(accounts: Accounts, quotas: Sequence[EndedFact], start: float) -> list[str]:
    """Return sentences about what the numbers leave out."""
    total, notes = accounts.total.sums, []
    held, measured = total.held, total.measured
    if held and not measured:
        notes.append("No use of these GPU-hours is measured so far; an hour is added after its end.")
    elif held and measured < 0.99 * held:
        notes.append(
            f"Use was measured for {measured / held:.0%} of the GPU-hours held; an hour is added after its end."
        )
    if total.priced and accounts.unpriced:
        names = listed(sorted(name or "GPUs of no known type" for name in accounts.unpriced))
        notes.append(f"The cost leaves out GPU-hours that had no price, of {names}.")
    known = min((each.start for each in quotas), default=start)
    if known > start + 1.0:
        notes.append(f"Quotas are known since {utc(known)}; GPU-hours of quota begin there.")
    return notes


def begin(day: date) -> int:
    """Return when a day begins in UTC, in seconds since the epoch."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
