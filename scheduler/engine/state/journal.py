"""The planner with a journal, from which every decision can be replayed to the same plan.

A journal entry is a base (a whole snapshot) or the changes since the entry before it, with the time and the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from springtide.scheduler import model
from springtide.scheduler.history.recent_use import renewed
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
    RecentUse,
    Reserve,
    SettingsChanged,
    Snapshot,
    Standing,
    Start,
    UseChanged,
    UseKey,
)
from springtide.scheduler.promises import Books
from springtide.scheduler.store.records import DecisionRecord

_CHANGES: dict[str, type[Change]] = {
    kind.__name__: kind
    for kind in (JobChanged, JobRemoved, ProjectsChanged, NodesChanged, SettingsChanged, UseChanged)
}
_DECISIONS: dict[str, type[Decision]] = {kind.__name__: kind for kind in (Start, Pause, Move, Reserve, Drop)}
MIN_CHANGES_PER_BASE = 1_000
"""Minimum number of changes between two bases."""


class PlannerLike(Protocol):
    """The planner's interface for the engine; see `springtide.scheduler.policy.planner.Planner`."""

    def apply(self, change: Change) -> None:
        """Take in a change."""

    def take_borrowing(self) -> Mapping[UseKey, int]:
        """Return how many GPUs projects borrow, of those where this may have changed since the last call."""

    def plan(self, now: float) -> Plan:
        """Return what to do now."""

    def reason(self, job_id: str, now: float) -> Reason:
        """Return why a waiting job waits."""

    def position(self, job_id: str) -> int | None:
        """Return the job's place in line, counted from 1."""

    def standing(self) -> Mapping[str, Standing]:
        """Return the standing of each project."""


MakePlanner = Callable[[Snapshot], PlannerLike]


class JournaledPlanner:
    """A planner, the books of the changes sent to it, and the journal of its decisions.

    ``make`` builds a planner from a snapshot, ``epoch`` is the store's, ``last_decision`` the id of the newest
    entry of the journal.
    """

    def __init__(self, make: MakePlanner, snapshot: Snapshot, epoch: int, last_decision: int) -> None:
        self._make = make
        self._epoch = epoch
        self._version = 0
        self.restart(snapshot, last_decision)

    @property
    def version(self) -> int:
        """The number of changes sent to the planner."""
        return self._version

    def restart(self, snapshot: Snapshot, last_decision: int) -> None:
        """Replace the planner by one built from a snapshot; the next journal entry is a base."""
        self._planner = self._make(snapshot)
        self._version += 1
        self.books = Books(snapshot)
        self._last = last_decision
        self._pending: dict[str, Change] = {}
        self._base: int | None = None
        self._since_base = 0
        self._digest = ""

    def apply(self, change: Change) -> None:
        """Apply a change to the planner and keep it for the journal. Raises what the planner raises."""
        self._version += 1
        self._planner.apply(change)
        self.books.apply(change)
        match change:
            case JobChanged(job):
                key = job.id
            case JobRemoved(job_id):
                key = job_id
            case UseChanged(use):
                key = "/use/" + "/".join(map(str, use.key))
            case _:
                key = f"/{type(change).__name__}"
        self._pending.pop(key, None)
        self._pending[key] = change

    def renew_use(self, now: float) -> list[RecentUse]:
        """Send changed recent use to the planner and return it. Raises what the planner raises."""
        half_life = self.books.settings.use_half_life
        changed = renewed(self.books.recent_use, self._planner.take_borrowing(), now, half_life)
        for use in changed:
            self.apply(UseChanged(use))
        return changed

    def plan(self, now: float) -> Plan:
        """Return what to do now. Raises what the planner raises."""
        return self._planner.plan(now)

    def reason(self, job_id: str, now: float) -> Reason | None:
        """Return why a waiting job waits, None for an unknown job. Raises what the planner raises."""
        return None if self.job(job_id) is None else self._planner.reason(job_id, now)

    def position(self, job_id: str) -> int | None:
        """Return a waiting job's place in line, counted from 1. Raises what the planner raises."""
        return self._planner.position(job_id)

    def standing(self) -> Mapping[str, Standing]:
        """Return the standing of each project. Raises what the planner raises."""
        return self._planner.standing()

    def job(self, job_id: str) -> Job | None:
        """Return the job as the planner knows it."""
        return self.books.jobs.get(job_id)

    def snapshot(self, now: float) -> Snapshot:
        """Return all that the planner knows."""
        books = self.books
        return Snapshot(
            now,
            books.all_nodes,
            books.all_projects,
            tuple(books.jobs.values()),
            books.settings,
            tuple(books.recent_use.values()),
        )

    def record_decision(self, plan: Plan, now: float) -> DecisionRecord:
        """Return the journal entry of a plan made with all changes so far."""
        self._last += 1
        self._since_base += len(self._pending)
        limit = max(MIN_CHANGES_PER_BASE, 2 * len(self.books.jobs))
        is_base = self._base is None or self._since_base > limit
        snapshot = msgspec.json.encode(self.snapshot(now)) if is_base else None
        changes = _encode_tagged([] if is_base else list(self._pending.values()))
        if is_base:
            self._base, self._since_base, self._digest = self._last, 0, ""
        self._pending = {}
        self._digest = digest(self._digest, snapshot, changes)
        base = self._last if self._base is None else self._base
        return DecisionRecord(
            self._last, now, self._epoch, base, snapshot, changes, encode_plan(plan), self._digest
        )


def digest(before: str, snapshot: bytes | None, changes: bytes) -> str:
    """Return the digest of a snapshot, from that of the entry before it and the changes since."""
    found = hashlib.sha256(before.encode())
    for part in (b"\0", snapshot or b"", b"\0", changes):
        found.update(part)
    return found.hexdigest()


def _encode_tagged(items: Sequence[Change | Decision]) -> bytes:
    return msgspec.json.encode([[type(item).__name__, item] for item in items])


def encode_plan(plan: Plan) -> bytes:
    """Return a plan as JSON."""
    return b'{"decisions":%s,"wake_at":%s}' % (_encode_tagged(plan.decisions), msgspec.json.encode(plan.wake_at))


def decode_plan(text: bytes) -> Plan:
    """Return the plan that `encode_plan` encoded."""
    raw: dict[str, Any] = msgspec.json.decode(text)
    decisions = tuple(msgspec.convert(body, _DECISIONS[kind]) for kind, body in raw["decisions"])
    return Plan(decisions, raw["wake_at"])


def decode_changes(text: bytes) -> list[Change]:
    """Return the changes of a journal entry."""
    return [msgspec.convert(body, _CHANGES[kind]) for kind, body in msgspec.json.decode(text)]


def replay(records: Sequence[DecisionRecord], make: MakePlanner) -> Plan:
    """Make the last of these decisions again; the first record has to be its base.

    Raises `ValueError` if records are missing or were changed.
    """
    first = records[0]
    if first.snapshot is None:
        raise ValueError(f"Decision {first.id} is not a base: the records must begin with one.")
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


def change_between(before: model.Job | None, after: model.Job | None, job_id: str) -> Change | None:
    """Return the change of a job for the planner, None if the planner sees no difference."""
    if after is None:
        return None if before is None else JobRemoved(job_id)
    return None if before == after else JobChanged(after)
