"""The ledger of held GPUs: open holdings and present facts as keyed state, closed ones as entries; pure.

A *holding* is what an attempt or a workspace holds now. It consists of pieces: another begins when something of
it changes. Pieces become entries of the ledger when the holding ends, so that no entry ever changes:
an attempt may have ended before the last change, and a step of the system clock shifts open entries. Sums of
entries by hour, day and month are kept for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from msgspec import Struct, structs

HOUR = 3_600
DAY = 86_400
MONTH = 31 * DAY
STEPS = (HOUR, DAY, MONTH)
"""Lengths of the intervals of sums, in seconds: the hours, days and months in UTC; some months are shorter."""
IDLE_BELOW = 0.1
"""Mean utilization in the hours of a holder on a GPU below which they count as idle."""
PAUSED = "paused"
"""How an attempt ends that was paused."""
WORKSPACE = "workspace"
"""Kind of work of a workspace; those of jobs are the members of `Workload`."""


class Group(NamedTuple):
    """What entries are summed up by."""

    project: str
    user: str
    kind: str
    gpu_type: str


class Borrowed(NamedTuple):
    """The span in which a number of an attempt's GPUs were beyond the quota; ``end`` is None until it ends."""

    start: float
    end: float | None
    gpus: int


class Held(Struct, frozen=True, omit_defaults=True):
    """The GPUs held at a moment, by whom and for which kind of work.

    ``borrowed`` of the ``gpus`` are beyond the project's quota, ``nodes`` has the number on each node, ``price``
    is that of a GPU-hour, None if there is none.
    """

    project: str
    user: str
    kind: str
    gpu_type: str
    nodes: Mapping[str, int]
    borrowed: int = 0
    price: float | None = None

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return sum(self.nodes.values())


class Piece(Struct, frozen=True):
    """The GPUs held from ``start`` until the next piece, or the end of the holding."""

    start: float
    held: Held


HoldingKey: TypeAlias = tuple[str, int, str, str]
"""Job and attempt; or user and server of a workspace, for which job and attempt are empty and 0."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The GPUs that a live attempt or a workspace has held so far.

    ``since`` is when the GPUs of a workspace were reserved, 0 for an attempt. ``wait`` is the time from the
    submission of the job to its first start, in seconds, if that is the start of this attempt.
    """

    job: str
    attempt: int
    user: str
    server: str
    since: float
    wait: float | None
    pieces: tuple[Piece, ...]

    def held_from(self, start: float, held: Held) -> Holding:
        """Return the holding after a change of its GPUs."""
        last = self.pieces[-1] if self.pieces else None
        if last is None:
            return replace(self, pieces=(Piece(start, held),))
        if last.held == held:
            return self
        if start <= last.start:
            return replace(self, pieces=(*self.pieces[:-1], Piece(last.start, held)))
        return replace(self, pieces=(*self.pieces, Piece(start, held)))

    def shifted(self, step: float) -> Holding:
        """Return the holding after the system clock was set by ``step`` seconds."""
        return replace(self, pieces=tuple(Piece(each.start + step, each.held) for each in self.pieces))

    def renamed(self, old: str, new: str) -> Holding:
        """Return the holding of an attempt after its owner got another name."""
        pieces = tuple(
            Piece(each.start, structs.replace(each.held, user=new) if each.held.user == old else each.held)
            for each in self.pieces
        )
        return replace(self, pieces=pieces) if pieces != self.pieces else self

    def borrowed(self, end: float | None = None) -> tuple[Borrowed, ...]:
        """Return when GPUs were borrowed if the holding ends at ``end``; None: it goes on."""
        lasting = [each for each in self.pieces if end is None or each.start < end]
        found: list[Borrowed] = []
        for number, piece in enumerate(lasting):
            gpus, start = piece.held.borrowed, piece.start
            until = lasting[number + 1].start if number + 1 < len(lasting) else end
            if found and (found[-1].end, found[-1].gpus) == (start, gpus):
                found[-1] = found[-1]._replace(end=until)
            elif gpus:
                found.append(Borrowed(start, until, gpus))
        return tuple(found)

    def entries(self, end: float, *, ended: str = "", lost: float = 0.0, first_id: int = 0) -> list[LedgerEntry]:
        """Return the entries of the holding if it ends at ``end``; ``first_id`` is the id of the first of them."""
        lasting = [each for each in self.pieces if each.start < end]
        found = []
        for number, piece in enumerate(lasting):
            is_last = piece is lasting[-1]
            held = piece.held
            found.append(
                LedgerEntry(
                    id=first_id + number,
                    job=self.job,
                    attempt=self.attempt,
                    user=held.user,
                    server=self.server,
                    project=held.project,
                    kind=held.kind,
                    gpu_type=held.gpu_type,
                    nodes=held.nodes,
                    gpus=held.gpus,
                    borrowed=held.borrowed,
                    price=held.price,
                    start=piece.start,
                    end=end if is_last else lasting[number + 1].start,
                    wait=self.wait if number == 0 else None,
                    ended=ended if is_last else "",
                    lost=lost if is_last else 0.0,
                )
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """GPUs that were held from ``start`` to ``end`` without a change.

    The first entry of a job's first start has its ``wait``, the last one of each attempt the state in which it
    ``ended``, and the GPU-seconds that are ``lost`` with it: those since its last known checkpoint.
    """

    id: int
    job: str
    attempt: int
    user: str
    server: str
    project: str
    kind: str
    gpu_type: str
    nodes: Mapping[str, int]
    gpus: int
    borrowed: int
    price: float | None
    start: float
    end: float
    wait: float | None = None
    ended: str = ""
    lost: float = 0.0

    @property
    def group(self) -> Group:
        """What the entry is summed up by."""
        return Group(self.project, self.user, self.kind, self.gpu_type)


class FactKind(StrEnum):
    """Facts of the pool: numbers of GPUs, and the price of a GPU-hour.

    Projects with others inside have an ``OWN_QUOTA``: the part of their quota that no project inside has.
    """

    QUOTA = "quota"
    OWN_QUOTA = "own-quota"
    LIMIT = "limit"
    GPUS = "gpus"
    BUILD_GPUS = "build-gpus"
    PRICE = "price"


FactKey: TypeAlias = tuple[FactKind, str, str]
"""Kind of a fact, the project and the GPU type; the project is empty for facts of the whole pool."""


@dataclass(frozen=True, slots=True)
class PoolFact:
    """A fact that holds ``since`` a moment; None is an unlimited quota, or no limit."""

    kind: FactKind
    project: str
    gpu_type: str
    value: float | None
    since: float

    def shifted(self, step: float) -> PoolFact:
        """Return the fact after the system clock was set by ``step`` seconds."""
        return replace(self, since=self.since + step)


@dataclass(frozen=True, slots=True)
class EndedFact:
    """A fact that held from ``start`` to ``end``."""

    id: int
    kind: FactKind
    project: str
    gpu_type: str
    value: float | None
    start: float
    end: float


@dataclass(slots=True)
class Sums:
    """Sums over an interval, in GPU-seconds unless noted.

    GPUs were ``held``, for ``borrowed`` of it beyond quotas, and for ``priced`` of it at a price, which comes to
    ``cost``. They have reported their utilization for ``measured``, computed for ``used``, and were ``idle``.
    ``jobs`` is how many jobs started for the first time, ``pauses`` how many attempts ended paused, ``lost`` the
    time of paused and lost attempts since their last known checkpoint.
    """

    held: float = 0.0
    borrowed: float = 0.0
    priced: float = 0.0
    cost: float = 0.0
    measured: float = 0.0
    used: float = 0.0
    idle: float = 0.0
    jobs: int = 0
    pauses: int = 0
    lost: float = 0.0

    def add(self, other: Sums) -> None:
        """Add other sums to these."""
        self.held += other.held
        self.borrowed += other.borrowed
        self.priced += other.priced
        self.cost += other.cost
        self.measured += other.measured
        self.used += other.used
        self.idle += other.idle
        self.jobs += other.jobs
        self.pauses += other.pauses
        self.lost += other.lost


SUMS = tuple(Sums.__dataclass_fields__)
values_of = attrgetter(*SUMS)
"""Return the values of sums in the order of `SUMS`."""


@dataclass(frozen=True, slots=True)
class Rollup:
    """The sums of a group in the ``step`` seconds from ``at``."""

    step: int
    at: int
    group: Group
    sums: Sums = field(default_factory=Sums)


Place: TypeAlias = tuple[int, tuple[str, ...]]
"""A row of accounts: the begin of its interval, and the values that all groups in it have in common."""
Lot: TypeAlias = tuple[int, str, str]
"""The begin of an hour or a day, a project and a GPU type."""


@dataclass(slots=True)
class Account:
    """A row of accounts: its ``sums``, and how many ``people`` held GPUs.

    ``waits`` are those of jobs for their first start, in seconds, the shortest first.
    """

    sums: Sums = field(default_factory=Sums)
    people: int = 0
    waits: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Accounts:
    """What the ledger says of a span, up to now.

    ``total`` is the account of all rows together. ``unpriced`` are the GPU types of which GPUs were held without a
    price. ``lots`` have the GPU-seconds that each project held and borrowed of a type, whoever asks.
    """

    rows: dict[Place, Account]
    total: Account
    unpriced: frozenset[str]
    lots: dict[Lot, tuple[float, float]]
    facts: list[EndedFact]


def begin_of(step: int, at: float) -> int:
    """Return when the hour, day or month that a moment is in begins."""
    return _month(int(at // DAY))[0] if step == MONTH else int(at // step) * step


def end_of(step: int, at: float) -> int:
    """Return when the hour, day or month that a moment is in ends."""
    return _month(int(at // DAY))[1] if step == MONTH else (int(at // step) + 1) * step


@lru_cache(4_096)
def _month(day: int) -> tuple[int, int]:
    """Return when the month of a day begins and ends; ``day`` is its number since the epoch."""
    first = datetime.fromtimestamp(day * DAY, UTC).replace(day=1)
    after = (first + timedelta(days=31)).replace(day=1)
    return int(first.timestamp()), int(after.timestamp())


def fewest(step: int, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield spans that make up one of whole ``step``s, each with the longest step that divides it."""
    longer = next((each for each in STEPS if each > step), None)
    first = end if longer is None else end_of(longer, start - 1)
    last = start if longer is None else begin_of(longer, end)
    if longer is None or first >= last:
        spans: list[tuple[int, int, int]] = [(step, start, end)]
    else:
        spans = [(step, start, first), *fewest(longer, first, last), (step, last, end)]
    yield from (span for span in spans if span[1] < span[2])


def rolled_up(entries: Sequence[LedgerEntry], steps: Iterable[int] = STEPS) -> list[Rollup]:
    """Return the sums of entries in intervals of these lengths."""
    found: dict[tuple[int, int, Group], Sums] = {}
    for step in steps:
        for entry in entries:
            _add_parts(found, entry, step)
    return [Rollup(step, at, group, sums) for (step, at, group), sums in found.items()]


def _add_parts(found: dict[tuple[int, int, Group], Sums], entry: LedgerEntry, step: int) -> None:
    """Add the part of an entry in each interval to the sums of that."""
    group, gpus, borrowed, price = entry.group, entry.gpus, entry.borrowed, entry.price
    first, last = begin_of(step, entry.start), begin_of(step, entry.end)
    for at, until in _intervals(step, first, last):
        seconds = max(0.0, min(entry.end, until) - max(entry.start, at))
        ends = at == last and (entry.ended == PAUSED or entry.lost)
        if not (seconds or ends or at == first):
            continue
        sums = found.get((step, at, group))
        if sums is None:
            sums = found[step, at, group] = Sums()
        held = seconds * gpus
        sums.held += held
        sums.borrowed += seconds * borrowed
        if price is not None:
            sums.priced += held
            sums.cost += held / HOUR * price
        if at == first:
            sums.jobs += entry.wait is not None
        if ends:
            sums.pauses += entry.ended == PAUSED
            sums.lost += entry.lost


def _intervals(step: int, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each interval, from one that begins at ``first`` to one at ``last``."""
    while first <= last:
        until = end_of(step, first)
        yield first, until
        first = until
