"""What is written in one transaction, and what is read at a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from springtide.scheduler.clock import ClockAnchor
from springtide.scheduler.model import Environment, RecentUse
from springtide.scheduler.notifications import Delivery, NotificationChoice
from springtide.scheduler.store.records.idle import IdleRecord, IdleRule, RuleKey
from springtide.scheduler.store.records.jobs import AttemptRecord, JobRecord
from springtide.scheduler.store.records.journals import AuditRecord, DecisionRecord, EventRecord
from springtide.scheduler.store.records.pool import (
    DrainRecord,
    GpuDrainRecord,
    HubUser,
    PersonRecord,
    ProjectRecord,
    WorkspaceRecord,
)
from springtide.scheduler.store.records.sweeps import SweepParameters


@dataclass(frozen=True, slots=True)
class Bundle:
    """The packed files of a job; ``digest`` is the SHA-256 of ``content``."""

    digest: str
    content: bytes


@dataclass(slots=True)
class WriteBatch:
    """The writes of one transaction. Jobs and attempts are inserted or replaced as a whole.

    ``shifted_jobs`` are jobs whose spec is replaced too, because a step of the system clock has shifted its times.
    ``gpu_types`` are the complete types of the environments that it names, in the pool's order. ``superseded`` are
    ids of failed jobs whose trial gets another, ``tagged_jobs`` jobs with other tags, ``given_jobs`` those with
    another owner. ``default_projects`` are those that people chose, by user; None removes a choice.
    ``idle_rules`` and ``idle_records``, by user and server, are replaced, or removed by None. ``renamed`` are
    former and new names of people, changed in order before all else; ``hub_users`` by name are replaced, or
    removed by None, ``hub_groups`` are the members of projects.
    """

    new_jobs: list[JobRecord] = field(default_factory=list)
    jobs: list[JobRecord] = field(default_factory=list)
    new_attempts: list[AttemptRecord] = field(default_factory=list)
    attempts: list[AttemptRecord] = field(default_factory=list)
    bundles: list[Bundle] = field(default_factory=list)
    projects: list[ProjectRecord] = field(default_factory=list)
    dropped_projects: list[str] = field(default_factory=list)
    people: list[PersonRecord] = field(default_factory=list)
    dropped_people: list[str] = field(default_factory=list)
    default_projects: Mapping[str, str | None] = field(default_factory=dict)
    workspaces: list[WorkspaceRecord] = field(default_factory=list)
    dropped_workspaces: list[tuple[str, str]] = field(default_factory=list)
    drains: list[DrainRecord] = field(default_factory=list)
    dropped_drains: list[str] = field(default_factory=list)
    gpu_drains: list[GpuDrainRecord] = field(default_factory=list)
    dropped_gpu_drains: list[str] = field(default_factory=list)
    idle_rules: Mapping[RuleKey, IdleRule | None] = field(default_factory=dict)
    idle_records: Mapping[tuple[str, str], IdleRecord | None] = field(default_factory=dict)
    recent_use: list[RecentUse] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    hub_users: Mapping[str, HubUser | None] = field(default_factory=dict)
    hub_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    events: list[EventRecord] = field(default_factory=list)
    notification_choices: list[NotificationChoice] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    audit: list[AuditRecord] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    shifted_jobs: list[JobRecord] = field(default_factory=list)
    sweep_parameters: list[SweepParameters] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    tagged_jobs: list[JobRecord] = field(default_factory=list)
    given_jobs: list[JobRecord] = field(default_factory=list)
    clock: ClockAnchor | None = None
    next_age: int | None = None
    gpu_types: Mapping[Environment, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The engine's state at a start: unfinished jobs, and the highest number of each journal.

    ``fresh`` is true until the first commit: the configured projects are still to be created. ``clock`` is the
    anchor of the system clock that the times refer to, None in a fresh store. ``gpu_types`` are the types that the
    pool knows, in its order, by environment. ``sweep_parameters`` are those of the unfinished sweeps,
    ``default_projects`` the projects that people chose, by user.
    """

    projects: tuple[ProjectRecord, ...]
    people: tuple[PersonRecord, ...]
    workspaces: tuple[WorkspaceRecord, ...]
    jobs: tuple[JobRecord, ...]
    fresh: bool
    clock: ClockAnchor | None
    next_age: int
    last_job: int
    last_event: int
    last_audit: int
    last_decision: int
    notification_choices: tuple[NotificationChoice, ...] = ()
    gpu_types: Mapping[Environment, tuple[str, ...]] = field(default_factory=dict)
    sweep_parameters: tuple[SweepParameters, ...] = ()
    drains: tuple[DrainRecord, ...] = ()
    default_projects: Mapping[str, str] = field(default_factory=dict)
    gpu_drains: tuple[GpuDrainRecord, ...] = ()
    idle_rules: Mapping[RuleKey, IdleRule] = field(default_factory=dict)
    idle_records: tuple[IdleRecord, ...] = ()
    recent_use: tuple[RecentUse, ...] = ()
    hub_users: tuple[HubUser, ...] = ()
    hub_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
