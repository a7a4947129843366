"""The words of Springtide, as data.

project
    Who a quota belongs to: a person, a team or an activity; a JupyterHub group. Projects form a tree.
quota
    Guaranteed train GPUs of a project. It may be exceeded while GPUs are idle, and is returned on demand.
borrowed
    GPUs a project holds beyond its quota.
limit
    The most GPUs a project may ever hold; none means no limit.
weight
    How idle GPUs are divided among projects of equal priority.
fair share
    What a project is entitled to right now: its quota, plus its part of what others leave idle.
workspace
    One build notebook server with its GPUs; they come from the build quota, which is never lent or taken.
job
    One train submission: ``workers`` processes with ``gpus`` each. At least ``min_workers`` of them run
    together, or none does.
attempt
    One run of a job, from (re)start to pause or end, numbered from 1.
pause, resume
    Stop an attempt at a checkpoint and free its GPUs; start the next attempt from it.
reclaim, preempt
    Pause a job of another project; of the same project.
placement
    Which worker sits on which GPUs of which node.
plan
    What the policy decides to start, pause and move, each with its reason.

Quantities: GPUs are whole numbers, times are seconds since the epoch (or since the start of a simulation),
durations are seconds, service is GPU-seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

PREEMPTIBLE_BELOW = 100
"""Jobs with this priority and above are not preemptible unless they say otherwise."""

PRIORITIES: Mapping[str, int] = {"train": 50, "high": 75, "critical": 100}
"""The job priorities that have names."""


class JobState(StrEnum):
    """Where a job stands. The last three are final."""

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
        """Whether nothing will happen to the job any more."""
        return self in FINAL

    @property
    def holds_gpus(self) -> bool:
        """Whether the job has a live attempt, and so GPUs."""
        return self in LIVE


FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
LIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.PAUSING})


class Environment(StrEnum):
    """Which of the two worlds a node serves. A train job never sits on a build node."""

    BUILD = "build"
    TRAIN = "train"


class Order(StrEnum):
    """How the jobs of one project with equal priority are ordered."""

    FIRST_COME = "first-come"
    LEAST_SERVED = "least-served"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the node reports it. ``index`` counts from 0 within its node."""

    uuid: str
    index: int
    name: str = ""
    memory_mib: int = 0
    simulated: bool = False


WITHIN_NODES = ("island", "socket")
"""The topology levels that group the GPUs of a node, the tightest first."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine with GPUs, or the part of one that serves an environment.

    ``labels`` name the topology domains it is in (``{"rack": "r1", "zone": "a"}``). ``islands`` groups GPU
    indices by the fastest link between them; empty means that all are alike. ``sockets`` groups them by processor
    socket; empty means that all are on one, or that it is not known. ``available`` is false while the node is
    lost or drained: what runs there may go on, nothing new starts there. ``devices`` may be empty where only
    counts matter (scenarios); otherwise it has ``gpus`` entries. ``taken`` are indices of GPUs that something
    outside the pool uses.
    """

    name: str
    gpus: int
    gpu_type: str = ""
    environment: Environment = Environment.TRAIN
    labels: Mapping[str, str] = field(default_factory=dict)
    islands: tuple[tuple[int, ...], ...] = ()
    sockets: tuple[tuple[int, ...], ...] = ()
    available: bool = True
    devices: tuple[Gpu, ...] = ()
    taken: frozenset[int] = frozenset()

    def groups(self, level: str) -> tuple[tuple[int, ...], ...]:
        """Its GPU indices by group of a level of `WITHIN_NODES`; empty where they are not told apart."""
        return {"island": self.islands, "socket": self.sockets}.get(level, ())


@dataclass(frozen=True, slots=True)
class Project:
    """A node of the project tree.

    ``quota`` None means unlimited, ``limit`` None means no limit. ``age`` orders projects: the smaller is the
    older. ``build_quota`` is what each member gets for notebooks, in GPUs.
    """

    name: str
    parent: str | None = None
    quota: int | None = 0
    limit: int | None = None
    weight: float = 1.0
    priority: int = 100
    age: int = 0
    build_quota: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """Where one worker of a job sits: ``gpus`` are indices on ``node``."""

    rank: int
    node: str
    gpus: tuple[int, ...]


Placement: TypeAlias = tuple[Worker, ...]


class Spread(NamedTuple):
    """How the workers of a job sit: the tightest topology level that holds them all, and on how many nodes.

    The level is one of `WITHIN_NODES`, ``"node"``, a label of the nodes, or ``""`` if only the pool as a whole
    holds them.
    """

    level: str
    nodes: int


class Phase(StrEnum):
    """What the policy needs to know of a job's state."""

    WAITING = "waiting"
    """Wants to run: queued, or paused by the scheduler."""
    RUNNING = "running"
    """Has a live attempt that nobody asked to stop (starting or running)."""
    PAUSING = "pausing"
    """Its attempt was asked to stop and holds its GPUs until its processes are gone."""
    HELD = "held"
    """Paused by its user; asks for nothing until resumed."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the policy sees it: what was asked for, and how it stands.

    ``gpu_types`` empty means any type. ``require`` and ``prefer`` name a topology level (a label of the nodes,
    or ``"island"``, ``"socket"`` or ``"node"``) that has to, or should, hold the whole gang. ``rotate`` false asks
    not to be paused in favour of an equal job that has had less service. ``time_limit`` is the longest the job may
    run in all, in seconds. ``expected`` is a guess of its whole run time for forecasts. ``fastest`` is how those
    sat that were like it and ran fastest, None if that is not known.

    ``placement`` is held while running or pausing. ``reserved`` is a placement that was set aside for it: it
    starts there as soon as those GPUs are free. ``started`` is when the live attempt started, ``saved`` when
    it last wrote a checkpoint, ``served`` the GPU-seconds of its ended attempts, ``not_before`` the earliest
    time of the next start (back-off after a failure).
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
    rotate: bool = True
    time_limit: float | None = None
    expected: float | None = None
    fastest: Spread | None = None
    phase: Phase = Phase.WAITING
    placement: Placement = ()
    reserved: Placement = ()
    started: float | None = None
    saved: float | None = None
    served: float = 0.0
    not_before: float = 0.0
    attempts: int = 0

    @property
    def held_gpus(self) -> int:
        """GPUs its live attempt holds."""
        return len(self.placement) * self.gpus

    def served_by(self, now: float) -> float:
        """GPU-seconds of all attempts, the live one included."""
        return self.served + (0.0 if self.started is None else max(0.0, now - self.started) * self.held_gpus)

    def worked_by(self, now: float) -> float:
        """Seconds of work done in all attempts, counted with all workers."""
        return self.served_by(now) / (self.workers * self.gpus)

    def latest_end(self, now: float) -> float:
        """When the job has reached its time limit at the latest if it runs from now on, or goes on; or never.

        The limit is for all attempts together; service that fewer workers got counts as if all had.
        """
        if self.time_limit is None:
            return math.inf
        ran = self.served / (self.workers * self.gpus)
        return (now if self.started is None else self.started) + max(0.0, self.time_limit - ran)


@dataclass(frozen=True, slots=True)
class Settings:
    """What an admin may choose about the policy.

    ``min_runtime`` and ``grace`` are seconds: how long a started job is left alone, and how long an attempt has
    between being asked to pause and being killed.
    """

    order: Order = Order.LEAST_SERVED
    min_runtime: float = 0.0
    grace: float = 30.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a decision depends on. Only unfinished jobs, only train nodes; projects in any order."""

    now: float
    nodes: tuple[Node, ...]
    projects: tuple[Project, ...]
    jobs: tuple[Job, ...]
    settings: Settings = Settings()


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A job was submitted, or anything about it changed; replaces what was known of it."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobRemoved:
    """A job ended."""

    job_id: str


@dataclass(frozen=True, slots=True)
class ProjectsChanged:
    """The whole new set of projects."""

    projects: tuple[Project, ...]


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """The whole new set of train nodes."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """New settings."""

    settings: Settings


Change: TypeAlias = JobChanged | JobRemoved | ProjectsChanged | NodesChanged | SettingsChanged


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job was started, paused or moved, or why it waits: a code and what fills its sentence.

    `springtide.scheduler.policy.reasons.render` turns it into words, and is the only place that does.
    """

    code: str
    params: Mapping[str, str | int | float | tuple[str, ...] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """Start an attempt of a waiting job on free GPUs. It fulfils the job's reservation, if it has one."""

    job: str
    placement: Placement
    reason: Reason


@dataclass(frozen=True, slots=True)
class Pause:
    """Ask the job's attempt to save and stop, for the job ``beneficiary`` (which gets a `Reserve`)."""

    job: str
    beneficiary: str | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Move:
    """Pause a running job and start it again on ``placement``: other GPUs, more, or fewer workers.

    ``placement`` is reserved for it; ``beneficiary`` is the job it makes room for, if any.
    """

    job: str
    placement: Placement
    beneficiary: str | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Reserve:
    """Set GPUs aside for a waiting job; some are still held by attempts that are stopping."""

    job: str
    placement: Placement
    reason: Reason


@dataclass(frozen=True, slots=True)
class Drop:
    """The job's reservation holds no longer."""

    job: str
    reason: Reason


Decision: TypeAlias = Start | Pause | Move | Reserve | Drop


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, in this order, and when to look again even if nothing happens (None: never).

    A `Pause` or `Move` comes only together with the `Reserve` or `Start` it makes possible.
    """

    decisions: tuple[Decision, ...] = ()
    wake_at: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a project stands, all in GPUs, descendants included.

    ``held`` counts live attempts (pausing ones too); ``request`` is held plus what waiting jobs ask for;
    ``borrowed`` is what it holds beyond its quota.
    """

    quota: int | None
    limit: int | None
    fair_share: int
    held: int
    request: int

    @property
    def borrowed(self) -> int:
        """GPUs held beyond the quota."""
        return 0 if self.quota is None else max(0, self.held - self.quota)

    @property
    def waiting(self) -> int:
        """GPUs that waiting jobs ask for."""
        return self.request - self.held
