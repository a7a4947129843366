"""Queries of the ledger, for reports: the database adds up, and what it has not reached yet is added to that."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, case, func, literal, or_, select, true

from springtide.scheduler.budgets import Spent
from springtide.scheduler.store import codec, ledger_waits, ledger_writing, schema
from springtide.scheduler.store.ledger import (
    DAY,
    HOUR,
    SUMS,
    Account,
    Accounts,
    EndedFact,
    FactKind,
    Group,
    LedgerEntry,
    Lot,
    Place,
    PoolFact,
    Rollup,
    Sums,
    fewest,
    rolled_up,
)
from springtide.scheduler.store.records import GpuUse
from springtide.scheduler.store.tables import Tables

May: TypeAlias = Callable[[str, str], bool]
"""Whether what a person held in a project counts."""
UNPRICED = 1.0
"""GPU-seconds without a price that are taken for the rounding of sums."""
SORTED_AT_ONCE = 16
"""Number of intervals of a query: SQLite sorts their rows in memory, and has fewer to compare."""
OF_PEOPLE = frozenset({"project", "user"})
"""The fields of rows for which the sums by day of each person in each project suffice."""
_sums, _groups = schema.ledger_sums, schema.ledger_groups
Aggregates: TypeAlias = Callable[[Table], Iterable[ColumnElement[Any]]]
"""The aggregates of the sums of a table."""


class Intervals(NamedTuple):
    """The intervals between each of the ``bounds`` and the next, of one or more steps in seconds each.

    Where an interval has whole days or months, their sums are read instead of those of its steps.
    """

    step: int
    bounds: Sequence[int]

    def begin(self, at: float) -> int:
        """Return the begin of the interval that a moment is in."""
        return self.bounds[bisect_right(self.bounds, at) - 1]

    def has(self, at: float) -> bool:
        """Return whether a moment is in one of them."""
        return self.bounds[0] <= at < self.bounds[-1]

    def since(self, at: int) -> Intervals:
        """Return those from the one that a moment is in."""
        return Intervals(self.step, self.bounds[bisect_right(self.bounds, at) - 1 :])

    def steps(self) -> Intervals:
        """Return the same span in intervals of one step."""
        return Intervals(self.step, range(self.bounds[0], self.bounds[-1] + 1, self.step))

    def read(
        self,
        connection: Connection,
        fields: Iterable[str],
        aggregates: Aggregates,
        only: ColumnElement[bool],
    ) -> Iterator[Sequence[Any]]:
        """Yield the begin of an interval, the values of ``fields`` of `Group`, and aggregates of its sums."""
        by = [_groups.c[name] for name in fields]
        are_of_people = self.step == DAY and OF_PEOPLE.issuperset(fields)

        def aggregated(table: Table, at: ColumnElement[Any]) -> Select[Any]:
            joined = table.join(_groups, _groups.c.id == table.c.group)
            return select(at, *by, *aggregates(table)).select_from(joined).where(only)

        if self.bounds[-1] - self.bounds[0] == self.step * (len(self.bounds) - 1):
            table = schema.ledger_people if are_of_people else _sums
            each, length = aggregated(table, table.c.at).group_by(table.c.at, *by), SORTED_AT_ONCE * self.step
            for first in range(self.bounds[0], self.bounds[-1], length):
                own = _between(table, self.step, first, min(first + length, self.bounds[-1]))
                yield from connection.execute(each.where(own)).all()
            return
        for begin, end in pairwise(self.bounds):
            spans = list(fewest(self.step, begin, end))
            table = schema.ledger_people if are_of_people and all(step == DAY for step, *_ in spans) else _sums
            one = aggregated(table, literal(begin)).add_columns(func.count())
            own = or_(*(_between(table, *span) for span in spans))
            yield from (row[:-1] for row in connection.execute(one.where(own).group_by(*by)).all() if row[-1])

    def within(self) -> ColumnElement[bool]:
        """Return the condition that stored sums are of these intervals, each second in one of them."""
        return or_(*(_between(_sums, *span) for span in fewest(self.step, self.bounds[0], self.bounds[-1])))


def _between(table: Table, step: int, start: int, end: int) -> ColumnElement[bool]:
    """Return the condition that sums are of a step, and begin in a span."""
    at = and_(table.c.at >= start, table.c.at < end)
    return and_(table.c.step == step, at) if table is _sums else at


def _sums_of(*names: str) -> Aggregates:
    """Return the aggregates that are these sums."""
    return lambda table: [func.sum(table.c[name]) for name in names]


def _sums_and_people(table: Table) -> Iterator[ColumnElement[Any]]:
    """Yield the sums of rows, and how many people held GPUs."""
    yield from _sums_of(*SUMS)(table)
    yield func.count(_held_by(table).distinct())


def _sums_and_person(table: Table) -> Iterator[ColumnElement[Any]]:
    """Yield the same in rows of one person each, which takes less."""
    yield from _sums_of(*SUMS)(table)
    yield func.max(case((_held_by(table).is_not(None), 1), else_=0))


def _held_by(table: Table) -> ColumnElement[Any]:
    """Return the holder of GPUs; null for none and for unknown people."""
    return case((and_(table.c.held > 0, _groups.c.user != ""), _groups.c.user))


def accounts(
    connection: Connection,
    intervals: Intervals,
    fields: Sequence[str],
    *,
    now: float,
    may: May = lambda *_: True,
    lots: bool = False,
) -> Accounts:
    """Return the accounts in intervals, in rows by ``fields`` of `Group`, of groups that count.

    Everything not in the stored sums yet is added: recent entries, and holdings up to ``now``. With ``lots`` the
    answer has what each project held.
    """
    connection = _as_of_one_moment(connection)
    groups = {int(number): Group(*rest) for number, *rest in connection.execute(select(_groups))}
    recent = _recent(connection, now)
    fresh = [each for each in rolled_up(recent, (intervals.step,)) if intervals.has(each.at)]
    counted = _Counted(connection, intervals, fields, groups, may)
    counted.add_sums()
    counted.add_fresh([each for each in fresh if may(each.group.user, each.group.project)])
    counted.add_waits([each for each in recent if may(each.user, each.project)])
    total, unpriced = counted.totals(fresh)
    start, end = intervals.bounds[0], intervals.bounds[-1]
    return Accounts(
        counted.rows,
        total,
        unpriced,
        _lots(connection, intervals.steps(), fresh) if lots else {},
        [each for each in facts(connection, now) if each.end > start and each.start < end],
    )


def _as_of_one_moment(connection: Connection) -> Connection:
    if connection.dialect.name == "postgresql":  # SQLite reads so anyway
        return connection.execution_options(isolation_level="REPEATABLE READ")
    return connection


class _Counted:
    """The rows of accounts while they are added up."""

    def __init__(
        self,
        connection: Connection,
        intervals: Intervals,
        fields: Sequence[str],
        groups: Mapping[int, Group],
        may: May,
    ) -> None:
        self.rows: defaultdict[Place, Account] = defaultdict(Account)
        self._connection = connection
        self._intervals = intervals
        self._fields = fields
        self._groups = {number: group for number, group in groups.items() if may(group.user, group.project)}
        self._last_group = max(groups, default=0)
        self._only = true() if len(self._groups) == len(groups) else _condition(groups.values(), may)
        self._may = may

    def add_sums(self) -> None:
        """Add the stored sums."""
        first, rows = 1 + len(self._fields), self.rows
        wanted = _sums_and_person if "user" in self._fields else _sums_and_people
        for row in self._intervals.read(self._connection, self._fields, wanted, self._only):
            rows[int(row[0]), tuple(row[1:first])] = Account(Sums(*row[first:-1]), row[-1])

    def add_fresh(self, fresh: Sequence[Rollup]) -> None:
        """Add sums that are not stored yet."""
        people: dict[Place, set[str]] = defaultdict(set)
        for each in fresh:
            place = self._place(each.at, each.group)
            self.rows[place].sums.add(each.sums)
            if each.sums.held and each.group.user:
                people[place].add(each.group.user)
        if people:
            known = self._people_since(min(begin for begin, _ in people))
            for place, names in people.items():
                self.rows[place].people += len(names - known[place])

    def _people_since(self, start: int) -> defaultdict[Place, set[str]]:
        """Return the people that stored sums count in each row from an interval on."""
        found: defaultdict[Place, set[str]] = defaultdict(set)
        fields = [*self._fields, "user"]
        rows = self._intervals.since(start).read(self._connection, fields, _sums_of("held"), self._only)
        for begin, *values, user, held in rows:
            if held > 0:
                found[int(begin), tuple(values)].add(user)
        return found

    def add_waits(self, recent: Sequence[LedgerEntry]) -> None:
        """Add the waits of jobs, sorted in each row."""
        places = {values: at for at, values in enumerate({self._values(each) for each in self._groups.values()})}
        rows = [len(places)] * (self._last_group + 1)
        for number, group in self._groups.items():
            rows[number] = places[self._values(group)]
        for begin, parts in groupby(self._stored_waits(), key=lambda part: self._intervals.begin(part[0])):
            found: list[list[float]] = [[] for _ in range(len(places) + 1)]
            for _, groups, waits in parts:
                for group_number, wait in zip(groups, waits, strict=True):
                    found[rows[group_number]].append(wait)
            for values, at in places.items():
                if found[at]:
                    self.rows[begin, values].waits = found[at]
        for entry in recent:
            if entry.wait is not None and self._intervals.has(entry.start):
                self.rows[self._place(entry.start, entry.group)].waits.append(entry.wait)
        for account in self.rows.values():
            account.waits.sort()

    def _stored_waits(self) -> Iterator[tuple[int, Iterable[int], Iterable[float]]]:
        """Yield when jobs started, the numbers of their groups, and their waits, a part for each day or hour."""
        bounds = self._intervals.bounds
        for day in ledger_waits.read(self._connection, bounds[0], bounds[-1]):
            if self._intervals.step > HOUR:
                yield day.day, day.groups, day.waits
                continue
            by_hour = sorted(zip(day.seconds, day.groups, day.waits, strict=True))
            for hour, rows in groupby(by_hour, key=lambda row: row[0] // HOUR):
                _, groups, waits = zip(*rows, strict=True)
                yield day.day + hour * HOUR, groups, waits

    def totals(self, fresh: Sequence[Rollup]) -> tuple[Account, frozenset[str]]:
        """Return the account of all rows, and the types of which GPUs were held without a price."""
        total, people, unpriced = Account(), set[str](), set[str]()
        by_group = [_sums.c.group, func.max(_sums.c.held - _sums.c.priced), *_sums_of(*SUMS)(_sums)]
        stored = select(*by_group).where(self._intervals.within()).group_by(_sums.c.group)
        rows = self._connection.execute(stored).all()
        known = ((self._groups[row[0]], row[1], Sums(*row[2:])) for row in rows if row[0] in self._groups)
        seen = ((each.group, each.sums) for each in fresh if self._counts(each.group))
        added = ((group, sums.held - sums.priced, sums) for group, sums in seen)
        for group, without_price, sums in chain(known, added):
            total.sums.add(sums)
            if sums.held > 0:
                people.add(group.user)
            if without_price > UNPRICED:
                unpriced.add(group.gpu_type)
        total.people = len(people - {""})
        total.waits = sorted(chain.from_iterable(account.waits for account in self.rows.values()))
        return total, frozenset(unpriced)

    def _counts(self, group: Group) -> bool:
        return self._may(group.user, group.project)

    def _place(self, at: float, group: Group) -> Place:
        return self._intervals.begin(at), self._values(group)

    def _values(self, group: Group | LedgerEntry) -> tuple[str, ...]:
        return tuple(getattr(group, name) for name in self._fields)


def spent(connection: Connection, start: float, end: float, now: float) -> dict[str, Spent]:
    """Return what each project has spent from ``start`` to ``end`` by ``now``; both count from their full hours.

    Present holdings count. Workspaces belong to no project.
    """
    connection = _as_of_one_moment(connection)
    begin, stop = int(start // HOUR) * HOUR, int(min(end, now + HOUR) // HOUR) * HOUR
    found: defaultdict[str, Spent] = defaultdict(Spent)
    if begin < stop:
        whole, named = Intervals(HOUR, (begin, stop)), _groups.c.project != ""
        for _, project, held, cost in whole.read(connection, ["project"], _sums_of("held", "cost"), named):
            found[project] = Spent(held / HOUR, cost)
    for entry in _recent(connection, now):
        seconds = min(entry.end, end, now) - max(entry.start, begin)
        if entry.project and seconds > 0:
            hours = seconds * entry.gpus / HOUR
            found[entry.project] = found[entry.project].plus(Spent(hours, hours * (entry.price or 0.0)))
    return dict(found)


def _condition(groups: Iterable[Group], may: May) -> ColumnElement[bool]:
    """Return the condition that a group counts: whole projects, and single people in others."""
    allowed: dict[str, set[str]] = defaultdict(set)
    refused: set[str] = set()
    for group in groups:
        if may(group.user, group.project):
            allowed[group.project].add(group.user)
        else:
            refused.add(group.project)
    own: dict[str, list[str]] = defaultdict(list)
    for project, people in allowed.items():
        for user in people if project in refused else ():
            own[user].append(project)
    return or_(
        _groups.c.project.in_(sorted(allowed.keys() - refused)),
        *(and_(_groups.c.user == user, _groups.c.project.in_(projects)) for user, projects in own.items()),
    )


def _lots(connection: Connection, steps: Intervals, fresh: Sequence[Rollup]) -> dict[Lot, tuple[float, float]]:
    """Return the GPU-seconds that each project held of each type in each step, and those that were borrowed."""
    found = {(at, project, of): (held, more) for at, project, of, held, more in _stored_lots(connection, steps)}
    for each in fresh:
        if each.group.project:
            lot = each.at, each.group.project, each.group.gpu_type
            held, borrowed = found.get(lot, (0.0, 0.0))
            found[lot] = held + each.sums.held, borrowed + each.sums.borrowed
    return found


def _stored_lots(connection: Connection, steps: Intervals) -> Iterable[Sequence[Any]]:
    if steps.step == DAY:
        table = schema.ledger_lots
        return connection.execute(
            select(table).where(table.c.day >= steps.bounds[0], table.c.day < steps.bounds[-1])
        ).all()
    wanted, named = _sums_of("held", "borrowed"), _groups.c.project != ""
    return steps.read(connection, ["project", "gpu_type"], wanted, named)


def _recent(connection: Connection, now: float) -> list[LedgerEntry]:
    table = schema.ledger
    summed = ledger_writing.mark(connection, ledger_writing.SUMMED)
    return codec.ledger.read(connection, select(table).where(table.c.id > summed)) + _held(connection, now)


def _held(connection: Connection, now: float) -> list[LedgerEntry]:
    return [each for holding in Tables.holdings.load(connection).values() for each in holding.entries(now)]


def gpu_use(connection: Connection, start: float, end: float, now: float) -> list[GpuUse]:
    """Return what attempts held between ``start`` and ``end``; present holdings count until ``now``."""
    table = schema.ledger
    query = select(table.c.project, table.c.gpus, table.c.borrowed, table.c.start, table.c.end).where(
        table.c.project != "", table.c.end > start, table.c.start < end
    )
    ended = [GpuUse(*row) for row in connection.execute(query)]
    present = (
        GpuUse(each.project, each.gpus, each.borrowed, each.start, each.end)
        for each in _held(connection, now)
        if each.project and each.end > start and each.start < end
    )
    return [*ended, *present]


def facts_between(
    connection: Connection, kinds: Collection[FactKind], start: float, end: float, now: float
) -> list[EndedFact]:
    """Return the facts of some kinds that held between ``start`` and ``end``."""
    found = facts(connection, now)
    return [each for each in found if each.kind in kinds and each.end > start and each.start < end]


def facts(connection: Connection, now: float) -> list[EndedFact]:
    """Return all facts of the pool; those that still hold end ``now``."""
    table = schema.ledger_facts
    ended = codec.ledger_facts.read(connection, select(table).order_by(table.c.id))
    return ended + [_until(each, now) for each in Tables.pool_facts.load(connection).values()]


def _until(fact: PoolFact, now: float) -> EndedFact:
    return EndedFact(0, fact.kind, fact.project, fact.gpu_type, fact.value, fact.since, max(now, fact.since))
