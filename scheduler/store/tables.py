"""The keyed state of the pool: the record of each kind, and its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from sqlalchemy import Boolean, Column, Integer, String, Text

from springtide.scheduler.budgets import BeyondBudget, BudgetUnit, Spent, level_of
from springtide.scheduler.model import PRIORITIES, Amount, Project, RecentUse
from springtide.scheduler.notifications import NotificationChoice
from springtide.scheduler.repeats import Repeat
from springtide.scheduler.store.keyed import Table
from springtide.scheduler.store.ledger import FactKey, Holding, HoldingKey, PoolFact
from springtide.scheduler.wire import WantedChange

POOL = "springtide"
"""Author of what the pool does by itself, in the audit trail and of drains."""


@dataclass(frozen=True, slots=True)
class JobRanges:
    """Ranges of what jobs of a project, and of the projects below it, may ask for; None means no bound.

    ``max_gpus``, ``max_cpus`` and ``max_memory``, in bytes, bound all workers of a job together,
    ``max_time_limit`` is in seconds, ``images`` are patterns. ``jobs_without_gpus`` is how many jobs without GPUs
    run at a time; None is the number of the project above.
    The priorities are those with names unless an admin says otherwise.
    """

    min_priority: int = 0
    max_priority: int = max(PRIORITIES.values())
    max_gpus: int | None = None
    max_time_limit: float | None = None
    images: tuple[str, ...] | None = None
    jobs_without_gpus: int | None = None
    max_cpus: float | None = None
    max_memory: int | None = None


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
class PresetRecord:
    """A preset of a project, or with an empty ``project`` of the pool: options of jobs, as requests have them."""

    project: str
    name: str
    about: str
    options: Mapping[str, Any]
    by: str
    at: float


PresetKey: TypeAlias = tuple[str, str]
"""The project of a preset, empty for the pool, and its name."""


@dataclass(frozen=True, slots=True)
class PersonRecord:
    """A person with a personal build quota, in GPUs: a number, or a table by GPU type."""

    name: str
    build_quota: Amount


@dataclass(frozen=True, slots=True)
class DefaultProject:
    """The project that a person chose for jobs that name none."""

    user: str
    project: str


class HubStanding(StrEnum):
    """Whether a person may have jobs: in a project, in none, or no longer a user of JupyterHub."""

    MEMBER = "member"
    OUTSIDE = "outside"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class HubUser:
    """A user of JupyterHub: ``identity``, the time of creation, differs from those of later users of the name."""

    name: str
    identity: str
    standing: HubStanding = HubStanding.MEMBER


@dataclass(frozen=True, slots=True)
class HubGroup:
    """The members of a project, and the people who lead it itself, when JupyterHub was last read."""

    project: str
    members: tuple[str, ...]
    leads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletedJob:
    """A job that a person deleted at ``at``; it had ``ended`` before.

    ``files`` are the ids of it and its trials whose files are still to be removed. The record is kept as long as
    ended jobs are, and with it how long the job held GPUs.
    """

    job: str
    at: float
    ended: float
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """A node that an admin has drained: nothing new starts there until it is undrained.

    ``finish`` says that the jobs that ran there then may run to their end; without it they were asked to pause.
    ``why`` is what the admin ``by`` gave as the reason, empty if nothing. It ends by itself at ``until``, a time
    of the system clock, unless that is None; the drain of a ``booking`` comes and goes with that.
    """

    node: str
    by: str
    since: float
    why: str = ""
    finish: bool = False
    until: float | None = None
    booking: int | None = None


@dataclass(frozen=True, slots=True)
class BookingRecord:
    """Nodes or GPUs set apart from ``start`` to ``end``, times of the system clock, by the admin ``by``.

    Either ``nodes`` for a maintenance, or ``gpus`` for a ``project``, by which its quota is higher
    meanwhile; those of the projects that it ``lends`` from are lower. ``number`` is that of its entry in the audit
    trail. ``begun``: the nodes are drained, the quotas changed. One that ``repeats`` has its present or next time.
    """

    number: int
    by: str
    start: float
    end: float
    why: str = ""
    nodes: tuple[str, ...] = ()
    project: str = ""
    gpus: Amount = 0
    lends: Mapping[str, Amount] = field(default_factory=dict)
    begun: bool = False
    repeats: Repeat | None = None


@dataclass(frozen=True, slots=True)
class GpuDrainRecord:
    """A GPU that is drained on its own: nothing new starts on it until it is undrained; known by its UUID.

    Otherwise as `DrainRecord`. ``by`` is `POOL` for one that was drained because of its errors, and ``why`` says
    which.
    """

    gpu: str
    by: str
    since: float
    why: str = ""
    finish: bool = False
    until: float | None = None


@dataclass(frozen=True, slots=True)
class FreezeRecord:
    """A frozen project: its jobs and those of the projects inside it neither start nor resume.

    ``finish`` says that those that ran then may run to their end; without it they were asked to pause. ``why`` is
    what ``by`` gave as the reason, empty if nothing. It ends by itself at ``until``, unless that is None.
    """

    project: str
    by: str
    since: float
    why: str = ""
    finish: bool = False
    until: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """The budget of a project, with those inside it, for each month: an ``amount`` in a ``unit``.

    ``beyond`` says what happens once it is spent; ``by`` has set it at ``since``. In the ``month``, such as
    2026-11, the project has held ``gpu_hours`` for ``cost`` so far. ``told`` is the highest of the levels of which
    people were notified in it.
    """

    project: str
    amount: float
    unit: BudgetUnit
    beyond: BeyondBudget
    by: str
    since: float
    month: str = ""
    gpu_hours: float = 0.0
    cost: float = 0.0
    told: int = 0

    @property
    def spent(self) -> float:
        """The spending of the month, in the unit of the budget."""
        return Spent(self.gpu_hours, self.cost).of(self.unit)

    @property
    def level(self) -> int:
        """The highest of the levels that is reached, 0 if none is."""
        return level_of(self.spent, self.amount)

    @property
    def is_over(self) -> bool:
        """Whether the whole budget of the month is spent."""
        return self.spent >= self.amount


class EndingKind(StrEnum):
    """A thing with another value for a time: a person's build quota, an idle rule, or a field of a project."""

    PERSON = "person"
    IDLE_RULE = "idle_rule"
    PARENT = "parent"
    QUOTA = "quota"
    LIMIT = "limit"
    WEIGHT = "weight"
    PRIORITY = "priority"
    BUILD_QUOTA = "build_quota"
    RANGES = "ranges"


EndingKey: TypeAlias = tuple[EndingKind, str]
"""What ends, and the project or person, or scope and name of the rule, that it is of."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A change that ends at ``until``, a time of the system clock; then the value ``before`` returns.

    ``refused`` says why that could not return when it was ``tried`` last.
    """

    kind: EndingKind
    subject: str
    until: float
    by: str
    before: Any = None
    refused: str = ""
    tried: float = 0.0

    @property
    def key(self) -> EndingKey:
        """The kind and the subject."""
        return self.kind, self.subject


WorkspaceKey: TypeAlias = tuple[str, str]
"""User and server name of a workspace."""


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """The GPUs reserved for a workspace: indices on ``node``, none for a workspace without GPUs.

    ``gpu_type`` is their type, empty in records of earlier versions. ``uuids`` are these GPUs, whatever they are
    numbered; empty if the node itself chooses them, and in records of earlier versions.
    """

    user: str
    server: str
    node: str
    gpus: tuple[int, ...]
    since: float
    gpu_type: str = ""
    uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IdleRule:
    """The rule for a workspace whose GPUs are not used: durations in seconds, None for never.

    Its owner is notified after ``tell_after`` without use, and it is stopped ``notice`` later.
    """

    tell_after: float | None = None
    notice: float | None = None


class RuleScope(StrEnum):
    """For whom a rule is: everybody, the members of a project and of those inside it, or one person."""

    POOL = "pool"
    PROJECT = "project"
    PERSON = "person"


RuleKey: TypeAlias = tuple[RuleScope, str]
"""Scope of a rule, and the name of the project or person; the name is empty for the pool."""


@dataclass(frozen=True, slots=True)
class IdleRuleRecord:
    """A rule that an admin has set."""

    scope: RuleScope
    name: str
    tell_after: float | None
    notice: float | None

    @property
    def rule(self) -> IdleRule:
        """The rule without its scope."""
        return IdleRule(self.tell_after, self.notice)


@dataclass(frozen=True, slots=True)
class IdleRecord:
    """The notifications and stops of the workspace whose GPUs were reserved at ``reserved``.

    Times are in seconds since the epoch: ``told`` is when its owner was notified that its GPUs are not used,
    ``stops`` the announced time of its stop, ``kept`` when its owner asked to keep it, ``stopping`` when the hub
    was asked to stop it, ``stopped`` when it was gone. ``gpus`` is the number of its GPUs, ``unused`` the time
    without use when ``told`` or ``stopping`` was set, in seconds.
    """

    user: str
    server: str
    reserved: float
    gpus: int
    told: float | None = None
    stops: float | None = None
    kept: float | None = None
    stopping: float | None = None
    stopped: float | None = None
    unused: float = 0.0

    def shifted(self, step: float) -> IdleRecord:
        """Return the record after the system clock was set by ``step`` seconds."""
        told, stops, kept, stopping, stopped = (
            None if at is None else at + step
            for at in (self.told, self.stops, self.kept, self.stopping, self.stopped)
        )
        return replace(self, told=told, stops=stops, kept=kept, stopping=stopping, stopped=stopped)


@dataclass(frozen=True, slots=True)
class NeedRecord:
    """Something that needs an administrator, ``since`` it was first seen; ``said`` says what, in sentences.

    ``gone`` is when it was no more: it is forgotten some time later, so that what comes and goes is announced
    once. ``told`` is when ``told_by`` notified its owner ``user``; ``left_by`` leaves it until ``left_until``.
    """

    id: str
    kind: str
    since: float
    said: str
    user: str = ""
    job: str = ""
    gone: float | None = None
    told: float | None = None
    told_by: str = ""
    left_until: float | None = None
    left_by: str = ""


REQUESTS_KEPT_FOR = 30 * 86_400.0
"""Time for which a request that has ended is kept, in seconds."""


class RequestState(StrEnum):
    """The state of a person's request."""

    PENDING = "pending"
    APPROVED = "approved"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    OBSOLETE = "obsolete"
    """Its project or job is gone, or its person has left."""


@dataclass(frozen=True, slots=True)
class ChangeRequestRecord:
    """A change that the person ``user`` wants, and ``why``; ``number`` is that of its entry in the audit trail.

    A pending one expires at ``expires``. ``by`` decided it at ``decided``, said ``answer``, and ``granted``
    another change if it is not None. Times are those of the system clock.
    """

    number: int
    user: str
    wanted: WantedChange
    why: str
    at: float
    expires: float
    state: RequestState = RequestState.PENDING
    decided: float | None = None
    by: str = ""
    answer: str = ""
    granted: WantedChange | None = None

    @property
    def pending(self) -> bool:
        """Whether it is undecided."""
        return self.state is RequestState.PENDING

    @property
    def due(self) -> float:
        """When a pending one expires, or one that has ended is forgotten."""
        return self.expires if self.decided is None else self.decided + REQUESTS_KEPT_FOR


@dataclass(frozen=True, slots=True)
class MonthlyReport:
    """The report of a ``month``, such as 2026-10: announced at ``at``, or passed over then as ``empty``."""

    month: str
    at: float
    empty: bool = False


@dataclass(frozen=True, slots=True)
class IdleWhileWaiting:
    """The GPU-seconds of a type, on a ``day`` that begins then, that were idle while jobs waited for as many."""

    day: int
    gpu_type: str
    gpu_seconds: float


class Tables:
    """All kinds of keyed state.

    The committed state and its transactions derive from this class: each table is an attribute with their records.
    """

    __slots__ = ()

    projects = Table[str, ProjectRecord](
        "projects",
        ProjectRecord,
        Column("name", String(64), primary_key=True),
        Column("age", Integer, nullable=False),
        Column("colour", Integer, nullable=False),
        Column("version", Integer, nullable=False),
        Column("made_group", Boolean, nullable=False),
        Column("body", Text, nullable=False),
        Column("ranges", Text, nullable=False, server_default="{}"),
        fields={"age": "project.age", "body": "project"},
        order="project.age",
    )
    people = Table[str, PersonRecord](
        "people",
        PersonRecord,
        Column("name", String(255), primary_key=True),
        Column("build_quota", Text, nullable=False),
        by_person=True,
    )
    default_projects = Table[str, DefaultProject](
        "default_projects", DefaultProject, key=("user",), by_person=True
    )
    notification_choices = Table[str, NotificationChoice](
        "notification_choices",
        NotificationChoice,
        Column("user", String(255), primary_key=True),
        Column("body", Text, nullable=False),
        body="body",
        by_person=True,
    )
    workspaces = Table[WorkspaceKey, WorkspaceRecord](
        "workspaces", WorkspaceRecord, key=("user", "server"), defaults={"gpu_type": "", "uuids": "[]"}
    )
    idle_rules = Table[RuleKey, IdleRuleRecord]("idle_rules", IdleRuleRecord, key=("scope", "name"))
    idle_records = Table[WorkspaceKey, IdleRecord]("idle_workspaces", IdleRecord, key=("user", "server"))
    drains = Table[str, DrainRecord]("drains", DrainRecord, key=("node",))
    bookings = Table[int, BookingRecord]("bookings", BookingRecord, key=("number",))
    gpu_drains = Table[str, GpuDrainRecord]("gpu_drains", GpuDrainRecord, key=("gpu",))
    freezes = Table[str, FreezeRecord]("freezes", FreezeRecord, key=("project",))
    budgets = Table[str, BudgetRecord]("budgets", BudgetRecord, key=("project",))
    presets = Table[PresetKey, PresetRecord](
        "presets", PresetRecord, key=("project", "name"), lengths={"name": 64}
    )
    endings = Table[EndingKey, Ending]("endings", Ending, key=("kind", "subject"))
    hub_users = Table[str, HubUser]("hub_users", HubUser, key=("name",))
    hub_groups = Table[str, HubGroup]("hub_groups", HubGroup, key=("project",), defaults={"leads": "[]"})
    deleted_jobs = Table[str, DeletedJob]("deleted_jobs", DeletedJob, key=("job",))
    needs = Table[str, NeedRecord]("needs", NeedRecord, key=("id",))
    change_requests = Table[int, ChangeRequestRecord]("change_requests", ChangeRequestRecord, key=("number",))
    monthly_reports = Table[str, MonthlyReport]("monthly_reports", MonthlyReport, key=("month",))
    idle_while_waiting = Table[tuple[int, str], IdleWhileWaiting](
        "idle_while_waiting", IdleWhileWaiting, key=("day", "gpu_type")
    )
    recent_use = Table[tuple[str, str, bool], RecentUse](
        "recent_use", RecentUse, key=("project", "gpu_type", "own"), urgent=False
    )
    holdings = Table[HoldingKey, Holding]("holdings", Holding, key=("job", "attempt", "user", "server"))
    pool_facts = Table[FactKey, PoolFact]("pool_facts", PoolFact, key=("kind", "project", "gpu_type"))


TABLES: tuple[Table[Any, Any], ...] = tuple(each for each in vars(Tables).values() if isinstance(each, Table))
"""All tables of keyed state."""
