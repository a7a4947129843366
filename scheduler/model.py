"""The terms of Springtide, as data types; ``docs/glossary.md`` explains them.

Quantities: GPUs are whole numbers, times are seconds since the epoch (or since the start of a simulation),
durations are seconds, service is GPU-seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from springtide.scheduler.resources.network_cards import NearestCards
from springtide.scheduler.resources.per_gpu import UNSPECIFIED, PerGpu
from springtide.scheduler.settings import setting

PREEMPTIBLE_BELOW = 100
"""Priority from which on jobs are not preemptible by default."""

PRIORITIES: Mapping[str, int] = {"train": 50, "high": 75, "critical": 100}
"""Job priorities that have names."""

Amount: TypeAlias = int | Mapping[str, int | None] | None
"""A number of GPUs, None for no bound: of the only GPU type of the pool, or a table by GPU type.

`springtide.scheduler.gpu_types` returns the number for one type.
"""


class JobState(StrEnum):
    """The state of a job. The last three are final."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether the state is final."""
        return self in FINAL

    @property
    def holds_gpus(self) -> bool:
        """Whether the job has a live attempt, and so holds GPUs."""
        return self in LIVE


FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
LIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.PAUSING})

CANCEL: Final = "cancel"
"""Why a job ends for good: it was cancelled."""
TIME_LIMIT: Final = "time-limit"
"""Why a job ends for good: it has reached its time limit."""
CANCELLING: Final = "cancelling"
"""The shown state of a cancelled job, until its processes have ended."""
ENDING: Final = "ending"
"""The shown state of a job beyond its time limit, until its processes have ended."""
STOPPING: Final[Mapping[str, str]] = MappingProxyType({CANCEL: CANCELLING, TIME_LIMIT: ENDING})
"""The shown states of pausing jobs that end for good, by why they do."""
UNFINISHED: Final = ("queued", "starting", "running", "pausing", *STOPPING.values(), "paused")
"""The shown states of unfinished jobs, in which lists are filtered and searched."""
SHOWN_STATES: Final = (*UNFINISHED, *(state.value for state in JobState if state in FINAL))
"""The states in which people see jobs, in which lists are filtered and searched."""


class Environment(StrEnum):
    """The use of a node. A train job never runs on a build node."""

    BUILD = "build"
    TRAIN = "train"


class Order(StrEnum):
    """The order of the jobs of one project with equal priority."""

    FIRST_COME = "first-come"
    LEAST_SERVED = "least-served"


class Surplus(StrEnum):
    """The rule for GPUs beyond quotas: by priority and weight of projects, or by least GPU time of jobs."""

    FAIR = "fair"
    LEAST_SERVED = "least-served"


class Span(NamedTuple):
    """A time from ``start`` to before ``end``, in seconds."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the node reports it. ``index`` counts from 0 within its node; ``cards`` are near it."""

    uuid: str
    index: int
    name: str = ""
    memory_mib: int = 0
    simulated: bool = False
    cards: NearestCards | None = None


WITHIN_NODES = ("island", "socket")
"""Topology levels that group the GPUs of a node, the tightest first."""


class Closure(StrEnum):
    """Why a node of a cluster takes nothing new, besides drains of the pool; the words follow “is”."""

    NOT_READY = "not ready"
    LEAVING = "about to be removed"
    CORDONED = "cordoned"
    SET_ASIDE = "set aside for a time, as it did not take a pod"


class Node(msgspec.Struct, frozen=True):
    """A machine with GPUs, or the part of one that serves an environment.

    ``labels`` name its topology domains (``{"rack": "r1"}``). ``islands`` groups GPU indices by the fastest link
    between them; empty means that all are alike. ``sockets`` groups them by processor socket; empty means one, or
    unknown. ``available`` is false while the node is lost or drained: no attempt starts there, running ones may
    continue. ``devices`` has ``gpus`` entries, or none if only counts matter (scenarios). ``taken`` are indices of
    GPUs used outside the pool, or drained; ``takers`` says by what, if it has a name. ``limits`` describes to
    users how jobs there are limited. On clusters ``resource`` is the extended resource of its GPUs, or begins the
    names of the templates by which pods claim them, ``group`` its node group, ``closure`` why the cluster has
    closed it, ``closed_since`` since when in seconds since the epoch, if that is known. Each GPU comes with
    ``per_gpu``. In the times ``closed`` nothing runs on the node.
    """

    name: str
    gpus: int
    gpu_type: str = ""
    environment: Environment = Environment.TRAIN
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    islands: tuple[tuple[int, ...], ...] = ()
    sockets: tuple[tuple[int, ...], ...] = ()
    available: bool = True
    devices: tuple[Gpu, ...] = ()
    taken: frozenset[int] = frozenset()
    takers: Mapping[int, str] = msgspec.field(default_factory=dict)
    limits: str = ""
    resource: str = ""
    per_gpu: PerGpu = UNSPECIFIED
    group: str = ""
    closure: Closure | None = None
    closed_since: float | None = None
    closed: tuple[Span, ...] = ()

    def groups(self, level: str) -> tuple[tuple[int, ...], ...]:
        """Return the GPU indices by group of a level of `WITHIN_NODES`; empty if the groups are unknown."""
        return {"island": self.islands, "socket": self.sockets}.get(level, ())


@dataclass(frozen=True, slots=True)
class AmountsAtTime:
    """The quota and the limit of a project at one time."""

    span: Span
    quota: Amount
    limit: Amount


@dataclass(frozen=True, slots=True)
class Project:
    """A project of the project tree.

    ``quota`` None means unlimited, ``limit`` None means no limit. ``age`` orders projects: the smaller is the
    older. ``build_quota`` is the number of GPUs of each member for notebooks. In a table of GPU types a type left
    out has quota 0, no limit and build quota 0. Quota and limit are others at the times ``at_times``, the first
    that fits.
    """

    name: str
    parent: str | None = None
    quota: Amount = 0
    limit: Amount = None
    weight: float = 1.0
    priority: int = 100
    age: int = 0
    build_quota: Amount = 0
    at_times: tuple[AmountsAtTime, ...] = ()


class UseKey(NamedTuple):
    """A project and a GPU type: with all projects below, or with ``own`` only the jobs of a parent itself."""

    project: str
    gpu_type: str
    own: bool


class RecentUse(msgspec.Struct, frozen=True):
    """The GPU time that a project had beyond its quota of a type until ``at``, in GPU-seconds.

    Half of it is forgotten in each half-life (`Settings.use_half_life`). It has ``borrowed`` GPUs since.
    """

    project: str
    gpu_type: str = ""
    own: bool = False
    gpu_seconds: float = 0.0
    borrowed: int = 0
    at: float = 0.0

    @property
    def key(self) -> UseKey:
        """The project and GPU type of the record."""
        return UseKey(self.project, self.gpu_type, self.own)


@dataclass(frozen=True, slots=True)
class Worker:
    """The placement of one worker: ``gpus`` are indices on ``node``, as its GPUs are numbered at present.

    ``uuids`` identify these GPUs, in the same order, whatever their numbers; empty if the node itself chooses
    them, and in decisions, which are about places.
    """

    rank: int
    node: str
    gpus: tuple[int, ...]
    uuids: tuple[str, ...] = field(default=(), compare=False)


Placement: TypeAlias = tuple[Worker, ...]


class Spread(NamedTuple):
    """The tightest topology level that holds all workers of a job, and the number of their nodes.

    The level is one of `WITHIN_NODES`, ``"node"``, a label of the nodes, or ``""`` if only the pool holds them.
    """

    level: str
    nodes: int


class BlockScope(StrEnum):
    """The jobs that a block concerns."""

    POOL = "pool"
    """All jobs: an admission policy, a quota of the namespace, a full disk."""
    IMAGE = "image"
    """Those that run in the image of the block's name."""
    USER = "user"
    """Those of the person of the block's name."""


class Block(NamedTuple):
    """An obstacle outside of jobs that blocks attempts; equal for all that it blocks.

    ``name`` distinguishes it from others of its scope. ``checkable``: the executor can check whether it still
    blocks a job without a start of the job.
    """

    scope: BlockScope
    name: str
    checkable: bool = False


class HomeAccess(StrEnum):
    """How the pods of an attempt have the home of its user."""

    USUAL = ""
    """As its notebooks have it, or not at all if there is none."""
    READ_ONLY = "read-only"
    ONE_NODE = "one-node"
    """Left out, because one node only can attach its volume."""
    LEFT_OUT = "left-out"
    """Left out, because the administrator has set so."""


class Checkpoint(NamedTuple):
    """A checkpoint that was recognised among a job's files.

    ``path`` is relative to the working directory, or from the root; ``size`` is in bytes, ``written`` the time of
    its last write, ``by`` the framework that writes such checkpoints.
    """

    path: str
    size: int
    written: float
    by: str


class Phase(StrEnum):
    """The part of a job's state that the policy needs."""

    WAITING = "waiting"
    """Requests to run: queued, or paused by the scheduler."""
    RUNNING = "running"
    """Has a live attempt that was not asked to stop (starting or running)."""
    PAUSING = "pausing"
    """Has an attempt that was asked to stop; it holds its GPUs until its processes have ended."""
    HELD = "held"
    """Paused by its user; requests no GPUs until resumed."""


class Job(msgspec.Struct, frozen=True):
    """A job as the policy sees it: the request, and the state.

    ``gpu_types`` are the accepted types, in the job's order of preference; empty means all, in the pool's order.
    All workers of a job are on GPUs of one type. ``require`` and ``prefer`` name a topology level (a label of the
    nodes, or ``"island"``, ``"socket"`` or ``"node"``) that has to, or should, hold the whole gang. ``per_gpu`` is
    its request with each GPU. ``rotate`` false excludes a pause for an equal job that had less service. In
    seconds, ``time_limit`` is its longest total run time, ``expected`` an estimate of it for forecasts, and
    ``usual_runtime`` the median of similar jobs at submission; ``fastest`` is their fastest known spread.

    ``placement`` is held while running or pausing. ``reserved`` is one set aside for the job, which starts there
    once those GPUs are free. ``started`` is when the live attempt started, ``saved`` when the job last wrote a
    checkpoint, ``served`` the GPU-seconds of its ended attempts, ``not_before`` the end of its back-off.
    ``sweep_served`` are those of its sweep's other trials when it last waited, for order and rotation only.
    ``turn``: the job has the turn, or started in it; ``last_turn`` is when it last did so. ``avoid`` are the nodes
    on which it must not start now; the planner fills it in.
    """

    id: str
    project: str
    name: str = ""
    user: str = ""
    priority: int = 50
    preemptible: bool = True
    workers: int = 1
    gpus: int = 1
    min_workers: int = 1
    submitted: float = 0.0
    gpu_types: tuple[str, ...] = ()
    require: str | None = None
    prefer: str | None = None
    per_gpu: PerGpu = UNSPECIFIED
    rotate: bool = True
    time_limit: float | None = None
    expected: float | None = None
    fastest: Spread | None = None
    usual_runtime: float | None = None
    phase: Phase = Phase.WAITING
    placement: Placement = ()
    reserved: Placement = ()
    started: float | None = None
    saved: float | None = None
    served: float = 0.0
    sweep_served: float = 0.0
    not_before: float = 0.0
    attempts: int = 0
    turn: bool = False
    last_turn: float | None = None
    avoid: frozenset[str] = frozenset()

    @property
    def need(self) -> int:
        """Number of GPUs that it needs to start."""
        return self.gpus * self.min_workers

    @property
    def attained(self) -> float:
        """GPU-seconds of ended attempts that count for order and rotation."""
        return self.served + self.sweep_served

    @property
    def held_gpus(self) -> int:
        """Number of GPUs that the live attempt holds."""
        return len(self.placement) * self.gpus

    def served_by(self, now: float) -> float:
        """Return the GPU-seconds of all attempts, the live one included."""
        return self.served + (0.0 if self.started is None else max(0.0, now - self.started) * self.held_gpus)

    def is_renewed(self, other: Job) -> bool:
        """Return whether the other record is this job with at most another usual run time or last checkpoint."""
        return structs.replace(self, usual_runtime=other.usual_runtime, saved=other.saved) == other

    def worked_by(self, now: float) -> float:
        """Return the seconds of work done in all attempts, counted with all workers."""
        return self.served_by(now) / (self.workers * self.gpus)

    def latest_end(self, now: float) -> float:
        """Return the latest time at which the time limit ends the job if it runs from now on, or infinity.

        The limit is for all attempts together; service of fewer workers counts as if all had run.
        """
        if self.time_limit is None:
            return math.inf
        ran = self.served / (self.workers * self.gpus)
        return (now if self.started is None else self.started) + max(0.0, self.time_limit - ran)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the policy.

    ``gpu_types`` is the pool's order of GPU types, the cheapest first; types that it does not name follow, in the
    order of the names of their nodes.
    """

    order: Order = setting(
        Order.LEAST_SERVED,
        "The order of the jobs of one project with equal priority: older first, or first the one that had "
        "less GPU time so far and, judging by similar jobs, needs less.",
    )
    min_runtime: float = setting(
        0.0,
        "The time for which a started job is not paused for others.",
        unit="seconds",
        ge=0,
        service_default=30.0,
    )
    grace: float = setting(
        30.0,
        "The time between the request to a job to pause, or to end for good, and its kill.",
        unit="seconds",
        ge=0,
        le=3600,
    )
    surplus: Surplus = Surplus.FAIR
    gpu_types: tuple[str, ...] = ()
    use_half_life: float = setting(
        86_400.0,
        "The time in which half of the GPU time beyond its quota that a project had is forgotten. Of equal "
        "projects the one that had less goes first.",
        unit="seconds",
        ge=60,
    )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The complete input of a decision: unfinished jobs and train nodes only; projects in any order."""

    now: float
    nodes: tuple[Node, ...]
    projects: tuple[Project, ...]
    jobs: tuple[Job, ...]
    settings: Settings = Settings()
    recent_use: tuple[RecentUse, ...] = ()


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A job was submitted or changed; replaces its previous record."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobRemoved:
    """A job ended."""

    job_id: str


@dataclass(frozen=True, slots=True)
class ProjectsChanged:
    """The complete new set of projects."""

    projects: tuple[Project, ...]


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """The complete new set of train nodes."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """New settings."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class UseChanged:
    """The new recent use of a project."""

    use: RecentUse


Change: TypeAlias = JobChanged | JobRemoved | ProjectsChanged | NodesChanged | SettingsChanged | UseChanged


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job was started, paused or moved, or why it waits: a code and the values of its sentence.

    `springtide.scheduler.sentences.render` turns it into text, and is the only place that does.
    """

    code: str
    params: Mapping[str, str | int | float | tuple[str, ...] | None] = field(default_factory=dict)


class Alternative(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the pool with which alone a waiting job runs in the next plan to rest.

    Its JSON has the changes: jobs that end or are withdrawn, by id; new quotas and limits of projects, as a
    scenario has them; the number of new nodes, like the largest of an accepted type.
    """

    remove_jobs: tuple[str, ...] = ()
    quota: Mapping[str, Amount] = msgspec.field(default_factory=dict)
    limit: Mapping[str, Amount] = msgspec.field(default_factory=dict)
    add_nodes: int = 0

    @property
    def size(self) -> int:
        """The number of jobs, projects and nodes that it changes."""
        return len(self.remove_jobs) + len(self.quota) + len(self.limit) + self.add_nodes


class StartsIf(msgspec.Struct, frozen=True):
    """The changes that let a waiting job start: alternatives, the smallest first.

    ``impossible``: the pool as it is can never run the job.
    """

    alternatives: tuple[Alternative, ...] = ()
    impossible: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start an attempt of a waiting job on free GPUs. It fulfils the job's reservation, if there is one.

    ``turn``: the job has the turn.
    """

    job: str
    placement: Placement
    reason: Reason
    turn: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Ask the job's attempt to save and stop, for the job ``beneficiary`` (which gets a `Reserve`)."""

    job: str
    beneficiary: str | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Move:
    """Pause a running job and start it again on ``placement``: other GPUs, more, or fewer workers.

    ``placement`` is reserved for the job; ``beneficiary`` is the job that gets its GPUs, if any.
    """

    job: str
    placement: Placement
    beneficiary: str | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve GPUs for a waiting job; stopping attempts still hold some.

    ``turn``: the job has the turn.
    """

    job: str
    placement: Placement
    reason: Reason
    turn: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Cancel the job's reservation."""

    job: str
    reason: Reason


Decision: TypeAlias = Start | Pause | Move | Reserve | Drop


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions to carry out now, in this order, and the time of the next plan without an event (None: never).

    A `Pause` or `Move` comes only together with the `Reserve` or `Start` that it makes possible.
    """

    decisions: tuple[Decision, ...] = ()
    wake_at: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """The GPUs of a project, descendants included.

    ``held`` counts live attempts (pausing ones too); ``request`` is held plus the requests of waiting jobs, each
    under the first GPU type that it accepts; ``borrowed`` is the part held beyond the quota. On a pool with
    several GPU types ``by_type`` has the standing for each type, in the pool's order, and the numbers are sums.
    """

    quota: int | None
    limit: int | None
    fair_share: int
    held: int
    request: int
    by_type: Mapping[str, Standing] = field(default_factory=dict)

    @property
    def borrowed(self) -> int:
        """Number of GPUs held beyond the quota, of each type."""
        if self.by_type:
            return sum(standing.borrowed for standing in self.by_type.values())
        return 0 if self.quota is None else max(0, self.held - self.quota)

    @property
    def waiting(self) -> int:
        """Number of GPUs that waiting jobs request."""
        return self.request - self.held
