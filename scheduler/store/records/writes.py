"""The batch written in one transaction, and the data read at a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from springtide.scheduler.clock import ClockAnchor
from springtide.scheduler.model import Environment
from springtide.scheduler.notifications import Delivery
from springtide.scheduler.store.keyed import Table
from springtide.scheduler.store.ledger import EndedFact, LedgerEntry
from springtide.scheduler.store.records.jobs import AttemptRecord, JobRecord
from springtide.scheduler.store.records.journals import AuditRecord, DecisionRecord, EventRecord
from springtide.scheduler.store.records.sweeps import SweepParameters
from springtide.scheduler.store.tables import Tables


@dataclass(frozen=True, slots=True)
class Bundle:
    """The packed files of a job; ``digest`` is the SHA-256 of ``content``."""

    digest: str
    content: bytes


@dataclass(slots=True)
class WriteBatch:
    """The writes of one transaction. Jobs and attempts are inserted or replaced as a whole.

    ``shifted_jobs`` are jobs whose spec is replaced too, because a step of the system clock has shifted its times.
    ``gpu_types`` are the complete types of its environments, in the pool's order. ``superseded`` are
    ids of failed jobs whose trial gets another, ``marked_jobs`` jobs with other tags or marks, or another key,
    ``respecified_jobs`` those with another owner, project or other options, ``deleted_jobs`` ids of ended ones to
    forget. ``records`` are changes of keyed state
    by table; None removes a record. ``entries`` and ``ended_facts`` are appended to the ledger. ``renamed`` are
    former and new names of people: their jobs and deliveries are changed in this order, before all else.
    """

    new_jobs: list[JobRecord] = field(default_factory=list)
    jobs: list[JobRecord] = field(default_factory=list)
    new_attempts: list[AttemptRecord] = field(default_factory=list)
    attempts: list[AttemptRecord] = field(default_factory=list)
    bundles: list[Bundle] = field(default_factory=list)
    records: Mapping[Table[Any, Any], Mapping[Any, Any]] = field(default_factory=dict)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    audit: list[AuditRecord] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    shifted_jobs: list[JobRecord] = field(default_factory=list)
    sweep_parameters: list[SweepParameters] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    marked_jobs: list[JobRecord] = field(default_factory=list)
    respecified_jobs: list[JobRecord] = field(default_factory=list)
    deleted_jobs: list[str] = field(default_factory=list)
    entries: list[LedgerEntry] = field(default_factory=list)
    ended_facts: list[EndedFact] = field(default_factory=list)
    clock: ClockAnchor | None = None
    next_age: int | None = None
    gpu_types: Mapping[Environment, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Loaded(Tables):
    """The engine's state at a start: unfinished jobs, and the highest number of each journal.

    ``fresh`` is true until the first commit: the configured projects are still to be created. ``clock`` is the
    anchor of the system clock that the times refer to, None in a fresh store. ``gpu_types`` are the types that the
    pool knows, in its order, by environment. ``sweep_parameters`` are those of the unfinished sweeps. ``records``
    are those of keyed state, by table.
    """

    records: Mapping[Table[Any, Any], Mapping[Any, Any]]
    jobs: tuple[JobRecord, ...]
    fresh: bool
    clock: ClockAnchor | None
    next_age: int
    last_job: int
    last_event: int
    last_audit: int
    last_decision: int
    last_entry: int
    last_fact: int
    gpu_types: Mapping[Environment, tuple[str, ...]] = field(default_factory=dict)
    sweep_parameters: tuple[SweepParameters, ...] = ()
