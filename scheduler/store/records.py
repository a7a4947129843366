"""Records of the store, frozen. The engine keeps the same records in memory.

Times are seconds since the epoch, durations seconds, service GPU-seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from springtide.scheduler.clock import ClockAnchor
from springtide.scheduler.model import (
    PRIORITIES,
    Amount,
    Environment,
    JobState,
    Placement,
    Project,
    Reason,
    Spread,
)
from springtide.scheduler.notifications import Delivery, NotificationChoice


class Asked(StrEnum):
    """What a live attempt was asked to do."""

    PAUSE = "pause"
    KILL = "kill"


class AttemptState(StrEnum):
    """States of an attempt; all but the first three are final."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def live(self) -> bool:
        """Whether the attempt holds its GPUs."""
        return self in LIVE_ATTEMPT


LIVE_ATTEMPT = frozenset({AttemptState.STARTING, AttemptState.RUNNING, AttemptState.PAUSING})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What was submitted; never changes.

    ``seq`` is the sequence number of the job, ``bundle`` the digest of its files, which have
    ``bundle_bytes``. ``time_limit`` and ``grace`` are in seconds; ``grace`` None is the pool's.
    """

    id: str
    seq: int
    user: str
    project: str
    submitted: float
    name: str
    kind: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    image: str | None = None
    bundle: str | None = None
    bundle_bytes: int = 0
    source: str = ""
    key: str | None = None
    workers: int = 1
    gpus: int = 1
    min_workers: int = 1
    priority: int = 50
    preemptible: bool = True
    gpu_types: tuple[str, ...] = ()
    require: str | None = None
    prefer: str | None = None
    rotate: bool = True
    time_limit: float | None = None
    retries: int = 0
    grace: float | None = None
    fastest: Spread | None = None
    """Fastest known placement of similar jobs, at submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt of a job.

    ``created`` is when its start was decided, ``started`` when its processes started. ``asked`` is what it was
    asked to do at ``asked_at``, for the reason ``asked_why``. ``seen`` says that the executor has reported it at
    least once. ``step_before`` is the highest step of the job when it began, ``borrowed`` the number of its GPUs
    that were borrowed then, ``gpu_type`` their type.
    """

    job: str
    number: int
    placement: Placement
    created: float
    why: Reason
    state: AttemptState = AttemptState.STARTING
    seen: bool = False
    asked: Asked | None = None
    asked_at: float | None = None
    asked_why: Reason | None = None
    started: float | None = None
    ended: float | None = None
    ended_why: Reason | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    detail: str = ""
    saved: float | None = None
    resumed_from: float | None = None
    step_before: float | None = None
    borrowed: int = 0
    gpu_type: str = ""

    @property
    def gpus(self) -> int:
        """Number of its GPUs."""
        return sum(len(worker.gpus) for worker in self.placement)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """The changing part of a job.

    ``held`` says that a user has paused it, ``stopping`` why it is being ended for good (``cancel`` or
    ``time-limit``), ``by`` which user asked for either. ``failures`` is the number of attempts that used up a
    retry, ``fruitless`` that of the last attempts in a row that asked to be run again without progress, ``losses``
    that of the last ones in a row that were lost. ``ran`` is the run time of ended attempts, ``served`` their
    GPU-seconds. ``best_step`` is the highest step reported, ``saved_step`` that of the newest checkpoint;
    ``unsaved`` is when a later one did not fit on the disk; ``warned`` says that its time limit was near once.
    """

    state: JobState = JobState.QUEUED
    attempt: int = 0
    held: bool = False
    stopping: str | None = None
    by: str = ""
    reserved: Placement = ()
    not_before: float = 0.0
    failures: int = 0
    fruitless: int = 0
    losses: int = 0
    ran: float = 0.0
    served: float = 0.0
    started: float | None = None
    ended: float | None = None
    reason: Reason | None = None
    exit_code: int | None = None
    error: str = ""
    step: float | None = None
    of: float | None = None
    reported: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    saved: float | None = None
    saved_step: float | None = None
    unsaved: float | None = None
    warned: bool = False
    best_step: float | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job with its latest attempts, oldest first."""

    spec: JobSpec
    standing: JobStanding = JobStanding()
    attempts: tuple[AttemptRecord, ...] = ()

    @property
    def id(self) -> str:
        """The job's id."""
        return self.spec.id

    @property
    def state(self) -> JobState:
        """The job's state."""
        return self.standing.state

    @property
    def live(self) -> AttemptRecord | None:
        """The live attempt, None if there is none."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].state.live else None

    def with_standing(self, **changes: Any) -> JobRecord:
        """Return the job with changed fields of its standing."""
        return JobRecord(self.spec, replace(self.standing, **changes), self.attempts)

    def with_attempt(self, attempt: AttemptRecord) -> JobRecord:
        """Return the job with its last attempt replaced if that has the same number, and appended otherwise."""
        kept = (
            self.attempts[:-1] if self.attempts and self.attempts[-1].number == attempt.number else self.attempts
        )
        return JobRecord(self.spec, self.standing, (*kept[-(KEPT_ATTEMPTS - 1) :], attempt))


KEPT_ATTEMPTS = 100
"""Number of latest attempts of a job in memory; older ones are in the store only."""


@dataclass(frozen=True, slots=True)
class JobRanges:
    """Ranges of what jobs of a project, and of the projects below it, may ask for; None means no bound.

    ``max_gpus`` bounds all workers of a job together, ``max_time_limit`` is in seconds, ``images`` are patterns.
    The priorities are those with names unless an admin says otherwise.
    """

    min_priority: int = 0
    max_priority: int = max(PRIORITIES.values())
    max_gpus: int | None = None
    max_time_limit: float | None = None
    images: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """A project. ``version`` counts its edits, ``colour`` is its index in the palette.

    ``made_group`` says that the hub's group was created for it and is deleted with it. ``ranges`` bound what its
    jobs ask for, beside those of its ancestors.
    """

    project: Project
    version: int = 1
    colour: int = 0
    made_group: bool = False
    ranges: JobRanges = field(default_factory=JobRanges)

    @property
    def name(self) -> str:
        """The project's name."""
        return self.project.name


@dataclass(frozen=True, slots=True)
class PersonRecord:
    """A person with a personal build quota, in GPUs: a number, or a table by GPU type."""

    name: str
    build_quota: Amount


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """The GPUs reserved for a workspace: indices on ``node``, none for a workspace without GPUs.

    ``gpu_type`` is their type, empty in records of earlier versions.
    """

    user: str
    server: str
    node: str
    gpus: tuple[int, ...]
    since: float
    gpu_type: str = ""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A recorded event of the stream. ``data`` is JSON."""

    id: int
    at: float
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry of the audit trail: who changed what. ``undone`` says that the change was undone."""

    id: int
    at: float
    who: str
    what: str
    subject: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    undone: bool = False


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision with all that is needed to replay it.

    ``base`` is the id of the latest decision with a ``snapshot``, ``changes`` what changed since the decision
    before; snapshot, changes and plan are JSON. ``digest`` is that of the snapshot the decision was made on.
    """

    id: int
    at: float
    epoch: int
    base: int
    snapshot: bytes | None
    changes: bytes
    plan: bytes
    digest: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """The packed files of a job; ``digest`` is the SHA-256 of ``content``."""

    digest: str
    content: bytes


@dataclass(slots=True)
class WriteBatch:
    """The writes of one transaction. Jobs and attempts are inserted or replaced as a whole.

    ``shifted_jobs`` are jobs whose spec is replaced too, because a step of the system clock has shifted its times.
    ``gpu_types`` are the complete types of the environments that it names, in the pool's order.
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
    workspaces: list[WorkspaceRecord] = field(default_factory=list)
    dropped_workspaces: list[tuple[str, str]] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    notification_choices: list[NotificationChoice] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    audit: list[AuditRecord] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    shifted_jobs: list[JobRecord] = field(default_factory=list)
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
    pool knows, in its order, by environment.
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


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A selection of jobs in an order; a ``viewer`` restricts it to jobs of that user and of ``viewer_projects``.

    ``search`` are words that the name, the user, the project or the id contains; ``since`` is the earliest time of
    submission, ``order`` one of `ORDERS` of ``queries.listing``, reversed with a minus before it.
    """

    states: frozenset[str] = frozenset()
    project: str | None = None
    user: str | None = None
    search: str = ""
    since: float | None = None
    order: str = "newest"
    viewer: str | None = None
    viewer_projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuUse:
    """GPUs that an attempt occupied from ``start`` to ``end``; None means that it still does."""

    project: str
    gpus: int
    start: float
    end: float | None
