"""The pool for its administrators: numbers of the last days and of now, projects, and the next days; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from springtide.scheduler import wire, wording
from springtide.scheduler.budgets import month_of
from springtide.scheduler.engine.state.booked import times
from springtide.scheduler.engine.state.endings import value_before
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.views.lending import lent
from springtide.scheduler.engine.views.needs_view import WORDS, idle_while_waiting
from springtide.scheduler.engine.views.report_view import percentile
from springtide.scheduler.gpu_types import gpus_words
from springtide.scheduler.store.ledger import DAY, Account, EndedFact, Place, Sums
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import Ending, EndingKind
from springtide.scheduler.wire import CalendarEntry, PoolNumbers, ProjectHome, Series
from springtide.scheduler.wording import listed, quoted
from springtide.scheduler.workload import Line

DAYS: Final = 30
"""Number of days of a series, with today."""
TREND: Final = 28
"""Number of days of the trend of a project."""
WEEK: Final = 7
"""Number of days of the calendar, and of the use of projects."""

Rows = Mapping[Place, Account]
"""Accounts by the begin of a day, and the values of the fields that they are by."""


@dataclass(frozen=True, slots=True)
class Past:
    """The accounts of the last days: of the whole pool, by GPU type, and by project."""

    pool: Rows
    by_type: Rows
    by_project: Rows


def first_day(now: float) -> int:
    """Return the begin of the earliest day that the page needs: of its series, and of the present month."""
    month = int(month_of(now, UTC).start)
    return min(month // DAY * DAY, _days(now, DAYS)[0])


@dataclass(frozen=True, slots=True)
class Present:
    """The pool as it is now."""

    state: State
    nodes: ObservedNodes
    pool: wire.PoolView
    usage: wire.PoolUsage


def home(present: Present, past: Past, now: float) -> wire.Home:
    """Return what the page shows beside the view of the pool and what needs administrators."""
    state, nodes = present.state, present.nodes
    days = _days(now, DAYS)
    types = sorted({node.gpu_type for node in nodes.all if node.gpus})
    numbers = {"": _numbers(present, past.pool, now, None)}
    if len(types) > 1:
        for name in types:
            of_type: Rows = {
                (at, ()): account for (at, values), account in past.by_type.items() if values == (name,)
            }
            numbers[name] = _numbers(present, of_type, now, name)
    return wire.Home(
        at=now,
        days=[_name(day) for day in days],
        numbers=numbers,
        projects=projects(state, past.by_project, now),
        calendar=calendar(state, nodes, now),
        currency=state.currency,
        idle_since=min((_name(day) for day, _ in state.idle_while_waiting), default=""),
    )


def _days(now: float, number: int) -> list[int]:
    today = int(now // DAY * DAY)
    return [today - DAY * back for back in reversed(range(number))]


def _name(day: int) -> str:
    return wording.day(day, UTC)


def _length(day: int, now: float) -> float:
    """Return how long a day has lasted so far, in seconds."""
    return max(1.0, min(float(DAY), now - day))


def _numbers(present: Present, rows: Rows, now: float, gpu_type: str | None) -> PoolNumbers:
    """Return the numbers of the pool, of one type if that is given."""
    state, pool = present.state, present.pool
    days = _days(now, DAYS)
    accounts = [rows.get((day, ())) or Account() for day in days]
    known = min((at for at, _ in rows), default=days[-1])
    of = [node for node in pool.nodes if gpu_type in (None, node.gpu_type)]
    cells = [cell for node in of for cell in node.gpus]
    held = {cell.uuid for cell in cells if cell.holder is not None and cell.holder.kind != "foreign"}
    readings = [
        each.utilization
        for each in present.usage.gpus
        if each.uuid in held and not each.lost and each.utilization is not None
    ]
    waits = [(percentile(each.waits, 50), percentile(each.waits, 95)) for each in accounts]
    idle = idle_while_waiting(pool)
    return PoolNumbers(
        gpus=len(cells),
        held=Series(
            now=float(len(held)),
            days=[
                each.sums.held / _length(day, now) if day >= known else None
                for day, each in zip(days, accounts, strict=True)
            ],
        ),
        used=Series(
            now=sum(readings) / len(readings) if readings else None,
            days=[_share(each.sums) for each in accounts],
        ),
        wait_p50=Series(now=waits[-1][0], days=[half for half, _ in waits]),
        wait_p95=Series(now=waits[-1][1], days=[most for _, most in waits]),
        idle=Series(
            now=float(sum(number for name, number in idle.items() if gpu_type in (None, name))),
            days=[_idle_on(state, day, gpu_type, now) for day in days],
        ),
        people=Series(
            now=float(len(_people(state, pool, gpu_type))),
            days=[float(each.people) if day >= known else None for day, each in zip(days, accounts, strict=True)],
        ),
    )


def _share(sums: Sums) -> float | None:
    return sums.used / sums.measured if sums.measured else None


def _idle_on(state: State, day: int, gpu_type: str | None, now: float) -> float | None:
    """Return the mean number of GPUs that were idle on a day while jobs waited, None if that was not watched."""
    of_day = [each for each in state.idle_while_waiting.values() if each.day == day]
    found = [each.gpu_seconds for each in of_day if gpu_type in (None, each.gpu_type)]
    return sum(found) / _length(day, now) if found else None


def _people(state: State, pool: wire.PoolView, gpu_type: str | None) -> set[str]:
    """Return who holds GPUs, of one type if that is given; else also whose jobs run or wait without any."""
    holders = (
        cell.holder.user
        for node in pool.nodes
        if gpu_type in (None, node.gpu_type)
        for cell in node.gpus
        if cell.holder is not None
    )
    people = set(holders) - {""}
    if gpu_type is None:
        people |= {job.spec.user for job in state.jobs.values() if job.live is not None or is_waiting(job)}
        people |= {user for user, _ in state.workspaces}
    return people


def is_waiting(job: JobRecord) -> bool:
    """Return whether a job waits for the pool, and not for a person."""
    return not (job.line is Line.NONE or job.state.final or job.state.holds_gpus or job.awaits_person)


def waits_since(job: JobRecord) -> float:
    """Return since when a waiting job waits, in seconds since the epoch."""
    ended = job.attempts[-1].ended if job.attempts else None
    return job.spec.submitted if ended is None else ended


def projects(state: State, rows: Rows, now: float) -> list[ProjectHome]:
    """Return every project, the oldest first, with the numbers of those inside it."""
    tree = _Tree(state)
    days, week, month = _days(now, TREND), _days(now, WEEK)[0], month_of(now, UTC).name
    held: defaultdict[str, Counter[int]] = defaultdict(Counter)
    lately: defaultdict[str, Sums] = defaultdict(Sums)
    costs: defaultdict[str, Sums] = defaultdict(Sums)
    for (at, (project,)), account in rows.items():
        for name in tree.above(project):
            held[name][at] += account.sums.held  # type: ignore[assignment]
            if at >= week:
                lately[name].add(account.sums)
            if _name(at).startswith(month):
                costs[name].add(account.sums)
    longest: dict[str, float] = {}
    for job in state.jobs.values():
        if is_waiting(job):
            for name in tree.above(job.spec.project):
                longest[name] = max(longest.get(name, 0.0), now - waits_since(job))
    lending = _lent_now(state, tree, now)
    return [
        ProjectHome(
            name=name,
            lent=lending.get(name, {}),
            used=_share(lately[name]),
            longest_wait=longest.get(name),
            trend=[held[name][day] / _length(day, now) for day in days],
            cost=costs[name].cost if costs[name].priced else None,
        )
        for name in (each.name for each in sorted(state.projects.values(), key=lambda each: each.project.age))
    ]


class _Tree:
    """The projects that a project is in, itself first."""

    def __init__(self, state: State) -> None:
        self._parents = {name: record.project.parent for name, record in state.projects.items()}
        self._known: dict[str, tuple[str, ...]] = {}

    def above(self, project: str) -> tuple[str, ...]:
        """Return a project and all that it is in; nothing for one that is no more."""
        found = self._known.get(project)
        if found is None:
            found = self._known[project] = tuple(self._walk(project))
        return found

    def _walk(self, project: str) -> Iterator[str]:
        seen, current = set[str](), project if project in self._parents else None
        while current is not None and current not in seen:
            seen.add(current)
            yield current
            current = self._parents.get(current)


def _lent_now(state: State, tree: _Tree, now: float) -> dict[str, dict[str, int]]:
    """Return the unused quota of each project that others hold now, in GPUs by type, as reports define it."""
    at = int(now)
    lots: dict[tuple[int, str, str], tuple[float, float]] = {}
    for holding in state.holdings.values():
        if holding.pieces and (last := holding.pieces[-1].held).project:
            held, beyond = lots.get((at, last.project, last.gpu_type), (0.0, 0.0))
            lots[at, last.project, last.gpu_type] = held + last.gpus, beyond + last.borrowed
    facts = [
        EndedFact(0, each.kind, each.project, each.gpu_type, each.value, float(at), at + 1.0)
        for each in state.pool_facts.values()
    ]
    found: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for (_, project, gpu_type), gpus in lent(lots, facts, (float(at), at + 1.0), 1).items():
        for name in tree.above(project):
            found[name][gpu_type] += gpus
    return {
        name: {gpu_type: whole for gpu_type, gpus in of.items() if (whole := round(gpus))}
        for name, of in found.items()
    }


def calendar(state: State, nodes: ObservedNodes, now: float) -> list[CalendarEntry]:
    """Return what begins or ends within a week, the first one first. Each kind is a source of entries."""
    until = now + WEEK * DAY
    sources: Sequence[Iterable[CalendarEntry]] = (
        _drains(state, nodes),
        _freezes(state),
        _changes(state),
        _bookings(state),
    )
    entries = [entry for source in sources for entry in source if now < entry.at <= until]
    return sorted(entries, key=lambda entry: (entry.at, entry.said))


def _drains(state: State, nodes: ObservedNodes) -> Iterator[CalendarEntry]:
    for record in state.drains.values():
        if record.until is not None and record.booking is None:
            yield _end(record.until, "drain", f"The drain of {record.node} ends.", "pool")
    places = {gpu.uuid: f"GPU {gpu.index} of {node.name}" for node in nodes.all for gpu in node.devices}
    for single in state.gpu_drains.values():
        if single.until is not None and single.gpu in places:
            yield _end(single.until, "drain", f"The drain of {places[single.gpu]} ends.", "pool")


def _freezes(state: State) -> Iterator[CalendarEntry]:
    for record in state.freezes.values():
        if record.until is not None:
            yield _end(record.until, "freeze", f"The freeze of {quoted(record.project)} ends.", "admin")


def _changes(state: State) -> Iterator[CalendarEntry]:
    for each in state.endings.values():
        yield _end(each.until, "change", f"{_what(each)} returns to {value_before(each)}.", _place(each))


def _bookings(state: State) -> Iterator[CalendarEntry]:
    for booking in state.bookings.values():
        if booking.project:
            what = f"The booking of {gpus_words(booking.gpus)} for {quoted(booking.project)}"
        else:
            what = f"The maintenance of {listed(booking.nodes)}"
        for start, end in times(booking):
            yield CalendarEntry(at=start, kind="booking", ends=False, said=f"{what} begins.", page="pool")
            yield _end(end, "booking", f"{what} ends.", "pool")


def _what(ending: Ending) -> str:
    if ending.kind is EndingKind.IDLE_RULE:
        scope, _, name = ending.subject.partition(" ")
        return f"The {WORDS[ending.kind]} of {f'the {scope} {quoted(name)}' if name else 'the pool'}"
    return f"The {WORDS[ending.kind]} of {quoted(ending.subject)}"


def _place(ending: Ending) -> str:
    return "workspaces" if ending.kind is EndingKind.IDLE_RULE else "admin"


def _end(at: float, kind: str, said: str, page: str) -> CalendarEntry:
    return CalendarEntry(at=at, kind=kind, ends=True, said=said, page=page)  # type: ignore[arg-type]
