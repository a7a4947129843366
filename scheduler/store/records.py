"""What the store keeps, as frozen records.

The engine holds the same records in memory: what is committed and what is known are one thing.
Times are seconds since the epoch, durations seconds, service GPU-seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from springtide.scheduler.model import JobState, Placement, Project, Reason, Spread


class Asked(StrEnum):
    """What the engine has asked of a live attempt."""

    PAUSE = "pause"
    KILL = "kill"


class AttemptState(StrEnum):
    """Where an attempt stands; all but the first three are ends."""

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
    """What was asked for; never changes. ``seq`` numbers accepted jobs, ``bundle`` is the digest of its files."""

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
    """How those sat that were like it and ran fastest, as far as that was known when it was submitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One attempt. ``created`` is when its start was decided, ``started`` when its processes were.

    ``asked`` is what it was asked to do and ``asked_why`` the reason; ``seen`` tells that the executor has
    reported it at least once. ``step_before`` is the furthest step of the job when it began, ``borrowed`` how many
    of its GPUs its project held beyond its quota then.
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

    @property
    def gpus(self) -> int:
        """GPUs it holds, or held."""
        return sum(len(worker.gpus) for worker in self.placement)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """How a job stands.

    ``held`` means that its user paused it; ``stopping`` is why it is being ended for good (``cancel`` or
    ``time-limit``). ``failures`` used up retries, ``fruitless`` counts the last attempts that asked to be run
    again without having got anywhere, ``losses`` the last attempts in a row that were lost. ``ran`` is the wall
    time and ``served`` the GPU-seconds of ended attempts.
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
    best_step: float | None = None


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job: its spec, its standing, and its latest attempts, oldest first."""

    spec: JobSpec
    standing: JobStanding = JobStanding()
    attempts: tuple[AttemptRecord, ...] = ()

    @property
    def id(self) -> str:
        """The job's id."""
        return self.spec.id

    @property
    def state(self) -> JobState:
        """Where the job stands."""
        return self.standing.state

    @property
    def live(self) -> AttemptRecord | None:
        """Its live attempt."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].state.live else None

    def with_standing(self, **changes: Any) -> JobRecord:
        """The same job with fields of its standing changed."""
        return JobRecord(self.spec, replace(self.standing, **changes), self.attempts)

    def with_attempt(self, attempt: AttemptRecord) -> JobRecord:
        """The same job with its last attempt replaced, or a new one added."""
        kept = (
            self.attempts[:-1] if self.attempts and self.attempts[-1].number == attempt.number else self.attempts
        )
        return JobRecord(self.spec, self.standing, (*kept[-(KEPT_ATTEMPTS - 1) :], attempt))


KEPT_ATTEMPTS = 100
"""Attempts of a job that are kept at hand; older ones stay in the store."""


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """A project, the version that edits are based on, and its place in the palette.

    ``made_group`` tells that the hub's group of its name was made for it, and goes with it.
    """

    project: Project
    version: int = 1
    colour: int = 0
    made_group: bool = False

    @property
    def name(self) -> str:
        """The project's name."""
        return self.project.name


@dataclass(frozen=True, slots=True)
class PersonRecord:
    """A person with a build quota of her own."""

    name: str
    build_quota: int


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """GPUs reserved for a build notebook. ``gpus`` are indices on ``node``; none for a notebook without."""

    user: str
    server: str
    node: str
    gpus: tuple[int, ...]
    since: float


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event that can be resumed from. ``data`` is JSON."""

    id: int
    at: float
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Who changed what. ``undone`` tells that it was taken back."""

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
    """One decision, replayable: the base it builds on (an earlier decision's id, or its own), what changed
    since the last one, the time, and the plan; each as JSON. ``digest`` names the snapshot it was made on.
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
    """The files of a job, packed; ``digest`` names the content."""

    digest: str
    content: bytes


@dataclass(slots=True)
class Batch:
    """All the writes of one transaction. Jobs and attempts are inserted or replaced as a whole."""

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
    audit: list[AuditRecord] = field(default_factory=list)
    undone: list[int] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
    next_age: int | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """All that the engine needs to go on: the unfinished, and where the counters stand."""

    projects: tuple[ProjectRecord, ...]
    people: tuple[PersonRecord, ...]
    workspaces: tuple[WorkspaceRecord, ...]
    jobs: tuple[JobRecord, ...]
    fresh: bool
    """True until anything was ever written: projects are still to be seeded."""
    next_age: int
    last_job: int
    last_event: int
    last_audit: int
    last_decision: int


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs. ``viewer`` restricts to jobs of that user and of ``viewer_projects``; None sees all."""

    states: frozenset[str] = frozenset()
    project: str | None = None
    user: str | None = None
    viewer: str | None = None
    viewer_projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """GPUs that an attempt held: for the tide chart. ``end`` None means that it still does."""

    project: str
    gpus: int
    start: float
    end: float | None
