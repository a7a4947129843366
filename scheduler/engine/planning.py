"""The planner, and the journal that lets every decision be replayed to the same plan.

A journal entry is a base (a whole snapshot) or what changed since the entry before it, with the time and the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from springtide.scheduler import model
from springtide.scheduler.model import (
    Change,
    Decision,
    Drop,
    Job,
    JobChanged,
    JobRemoved,
    Move,
    NodesChanged,
    Pause,
    Plan,
    ProjectsChanged,
    Reason,
    Reserve,
    SettingsChanged,
    Snapshot,
    Standing,
    Start,
)
from springtide.scheduler.promises import Books
from springtide.scheduler.store.records import DecisionRecord

CHANGES: dict[str, type[Change]] = {
    kind.__name__: kind for kind in (JobChanged, JobRemoved, ProjectsChanged, NodesChanged, SettingsChanged)
}
DECISIONS: dict[str, type[Decision]] = {kind.__name__: kind for kind in (Start, Pause, Move, Reserve, Drop)}
LEAST_CHANGES_PER_BASE = 1_000


class PlannerLike(Protocol):
    """What the engine needs of a planner; see `springtide.scheduler.policy.planner.Planner`."""

    def apply(self, change: Change) -> None:
        """Take note of a change."""

    def plan(self, now: float) -> Plan:
        """What to do now."""

    def reason(self, job_id: str, now: float) -> Reason:
        """Why a waiting job waits."""

    def place(self, job_id: str) -> int | None:
        """Its place in line."""

    def standing(self) -> Mapping[str, Standing]:
        """How projects stand."""


MakePlanner = Callable[[Snapshot], PlannerLike]


class Planning:
    """A planner, the books of all that it was told, and the journal of what it decided."""

    def __init__(self, make: MakePlanner, snapshot: Snapshot, epoch: int, last_decision: int) -> None:
        self.planner = make(snapshot)
        self._epoch = epoch
        self._last = last_decision
        self.books = Books(snapshot)
        self._pending: dict[str, Change] = {}
        self._base: int | None = None
        self._since_base = 0
        self._digest = ""

    def note(self, change: Change) -> None:
        """Tell the planner of a change, and remember it for the journal."""
        self.planner.apply(change)
        self.books.apply(change)
        match change:
            case JobChanged(job):
                key = job.id
            case JobRemoved(job_id):
                key = job_id
            case _:
                key = f"/{type(change).__name__}"
        self._pending.pop(key, None)
        self._pending[key] = change

    def known(self, job_id: str) -> Job | None:
        """The job as the planner knows it."""
        return self.books.jobs.get(job_id)

    def snapshot(self, now: float) -> Snapshot:
        """All that the planner knows."""
        books = self.books
        return Snapshot(
            now,
            tuple(books.nodes.values()),
            tuple(books.projects.values()),
            tuple(books.jobs.values()),
            books.settings,
        )

    def record(self, plan: Plan, now: float) -> DecisionRecord:
        """The journal's entry of a plan that was made with all changes noted so far."""
        self._last += 1
        self._since_base += len(self._pending)
        fresh = self._base is None or self._since_base > max(LEAST_CHANGES_PER_BASE, 2 * len(self.books.jobs))
        snapshot = msgspec.json.encode(self.snapshot(now)) if fresh else None
        changes = _tagged([] if fresh else list(self._pending.values()))
        if fresh:
            self._base, self._since_base, self._digest = self._last, 0, ""
        self._pending = {}
        self._digest = digest(self._digest, snapshot, changes)
        base = self._last if self._base is None else self._base
        return DecisionRecord(
            self._last, now, self._epoch, base, snapshot, changes, encode_plan(plan), self._digest
        )

    @property
    def last_decision(self) -> int:
        """The id of the newest entry."""
        return self._last


def digest(before: str, snapshot: bytes | None, changes: bytes) -> str:
    """Names a snapshot by the base and all changes since."""
    return hashlib.sha256(b"\0".join((before.encode(), snapshot or b"", changes))).hexdigest()


def _tagged(items: Sequence[Change | Decision]) -> bytes:
    return msgspec.json.encode([[type(item).__name__, item] for item in items])


def encode_plan(plan: Plan) -> bytes:
    """A plan as JSON."""
    return b'{"decisions":%s,"wake_at":%s}' % (_tagged(plan.decisions), msgspec.json.encode(plan.wake_at))


def decode_plan(text: bytes) -> Plan:
    """The plan that `encode_plan` wrote."""
    raw: dict[str, Any] = msgspec.json.decode(text)
    decisions = tuple(msgspec.convert(body, DECISIONS[kind]) for kind, body in raw["decisions"])
    return Plan(decisions, raw["wake_at"])


def decode_changes(text: bytes) -> list[Change]:
    """The changes of a journal entry."""
    return [msgspec.convert(body, CHANGES[kind]) for kind, body in msgspec.json.decode(text)]


def replay(records: Sequence[DecisionRecord], make: MakePlanner) -> Plan:
    """Make the last of these decisions again; the first has to be its base.

    Raises `ValueError` if entries are missing or were changed.
    """
    first = records[0]
    if first.snapshot is None:
        raise ValueError(f"Decision {first.id} is not a base.")
    snapshot = msgspec.json.decode(first.snapshot, type=Snapshot)
    planner = make(snapshot)
    known = ""
    for number, record in enumerate(records):
        if record.id != first.id + number or record.base != first.id:
            raise ValueError(f"Decision {first.id + number} is missing.")
        known = digest(known, record.snapshot, record.changes)
        if known != record.digest:
            raise ValueError(f"Decision {record.id} does not belong to its digest.")
        for change in decode_changes(record.changes):
            planner.apply(change)
    return planner.plan(records[-1].at)


def changes_between(before: model.Job | None, after: model.Job | None, job_id: str) -> Change | None:
    """What to tell the planner of a job, None if nothing that it knows has changed."""
    if after is None:
        return None if before is None else JobRemoved(job_id)
    return None if before == after else JobChanged(after)
