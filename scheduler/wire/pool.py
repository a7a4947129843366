"""The pool at a glance, its projects and its history."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from springtide.scheduler.wire.ranges import JobRanges
from springtide.scheduler.wire.shapes import Answer, Request, Until


class DatasetView(Answer, frozen=True, kw_only=True):
    """A dataset: ``path`` is the directory in which jobs find it, ``projects`` the caller's that may use it."""

    name: str
    path: str
    projects: list[str]


class DatasetList(Answer, frozen=True, kw_only=True):
    """Datasets, by name."""

    items: list[DatasetView]


class Holder(Answer, frozen=True, kw_only=True):
    """The holder of a GPU: a job or a workspace."""

    kind: str
    """``job``, ``workspace``, or ``foreign``: something outside the pool."""
    user: str = ""
    project: str = ""
    job: str = ""
    """Id of the job, for those who may see it."""
    sweep: str = ""
    """Id of the trial's sweep, for those who may see it."""
    name: str = ""
    """Name of the job, or of the pod outside the pool (``namespace/name``), for those who may see it."""
    state: str = ""
    shown: str = ""
    """The state of a job in words, as of `Job`."""
    borrowed: bool = False


class EndingView(Answer, frozen=True, kw_only=True):
    """The end of a change: the value ``before`` returns at ``until``, in seconds since the epoch.

    ``by`` has set it. ``refused`` says why the value could not return so far, in which case it is tried again.
    """

    until: float
    by: str
    before: Any = None
    refused: str = ""


class FreezeView(Answer, frozen=True, kw_only=True):
    """The freeze of a project, or of the nearest project above it: by whom, since and until when, and why.

    ``finish`` says that jobs that ran then may run to their end; without it they were paused.
    """

    project: str
    by: str
    since: float
    why: str
    finish: bool
    until: float | None = None


class DrainView(Answer, frozen=True, kw_only=True):
    """The author, time (in seconds since the epoch) and reason of a drain of a node or GPU.

    ``by`` is ``springtide`` for a GPU that the pool has drained because of a fault. ``finish`` says that the jobs
    that ran there then may run to their end; without it they were paused.
    """

    by: str
    since: float
    why: str
    finish: bool
    until: float | None = None
    """When it ends by itself; None if it does not."""
    booking: int | None = None
    """The number of the booking that the node is drained for, and that ``by`` has made; None for no booking."""


class GpuCell(Answer, frozen=True, kw_only=True):
    """One cell of the pool bar. ``reserved_for`` is the project that gets it next.

    ``drain`` is set if this GPU is drained on its own, whether its node is drained or not.
    """

    index: int
    uuid: str
    holder: Holder | None = None
    reserved_for: str = ""
    drain: DrainView | None = None


GpuIndex = Annotated[int, Meta(ge=0, le=1_000_000)]
"""Index of a GPU on its node, from 0."""


class DrainRequest(Request, frozen=True, kw_only=True):
    """A node to drain, or one ``gpu`` of it; ``why`` is shown to everybody whose job has to leave."""

    node: Annotated[str, Meta(min_length=1, max_length=255)]
    gpu: GpuIndex | None = None
    why: Annotated[str, Meta(max_length=500)] = ""
    finish: bool = False
    until: Until | None = None


class UndrainRequest(Request, frozen=True, kw_only=True):
    """A node, or one ``gpu`` of it, on which jobs may start again."""

    node: Annotated[str, Meta(min_length=1, max_length=255)]
    gpu: GpuIndex | None = None


class Undrained(Answer, frozen=True, kw_only=True):
    """A node or a GPU is undrained; ``entry`` is that of `NodeView`."""

    entry: int | None


IDLE, DRAINED, AWAY = FREE = ("idle", "drained", "lost or closed")
"""States of free GPUs: ``idle`` if something may start there, else as their node is."""


class CardsView(Answer, frozen=True, kw_only=True):
    """Network cards with RDMA, and the ``gpus`` of a node, by index, that they are nearest to.

    ``within`` is what they have in common with these: a PCIe ``switch``, or the processor ``socket``.
    """

    names: list[str]
    gpus: list[int]
    within: str


class NodeView(Answer, frozen=True, kw_only=True):
    """A node and its GPUs, in order. ``available`` is false for a node that is drained or lost.

    ``free`` counts the GPUs that nothing holds, under one of `FREE`; it is empty if all are held.
    """

    name: str
    environment: str
    gpu_type: str
    available: bool
    simulated: bool
    labels: dict[str, str]
    gpus: list[GpuCell]
    limits: str = ""
    """The limits of a job there besides GPUs, and their enforcer; empty if the cluster says."""
    cpus_per_gpu: float = 0.0
    """The cores that each GPU comes with; 0 if they are unknown."""
    memory_per_gpu: int = 0
    """The memory that each GPU comes with, in bytes; 0 if it is unknown."""
    rdma_workers: int = 0
    """Maximum number of workers with RDMA there at a time, each with an equal part of its GPUs; 0 elsewhere."""
    drain: DrainView | None = None
    closure: str = ""
    """Why the cluster has closed it, as in “the node is …”: a `model.Closure`; empty if it has not."""
    closed_since: float | None = None
    """Since when, in seconds since the epoch; None if that is unknown."""
    free: dict[str, int] = {}
    drains_gpus: bool = False
    """Whether single GPUs of it can be drained: the pool, not the node, chooses which of them a job gets."""
    islands: list[list[int]] = []
    """Indices of its GPUs by the fastest link between them, NVLink; empty if all are alike or it is unknown."""
    sockets: list[list[int]] = []
    """Indices of its GPUs by processor socket; empty if all are on one or it is unknown."""
    cards: list[CardsView] = []
    """The network cards nearest to its GPUs; empty if there are none, or nothing is known of them."""
    entry: int | None = None
    """The entry of the audit trail by which a drain is taken back; only in the answer to a drain."""


class TypeNumbers(Answer, frozen=True, kw_only=True):
    """A project's train GPUs of one type."""

    quota: int | None
    limit: int | None
    fair_share: int
    held: int
    borrowed: int
    waiting: int


class SpentBudget(Answer, frozen=True, kw_only=True):
    """A budget that is spent: ``beyond`` is that of `BudgetRequest`, ``text`` what it does, in a sentence."""

    beyond: str
    text: str


class ProjectView(Answer, frozen=True, kw_only=True):
    """A project as bars show it. ``colour`` is its index in the palette; it never changes.

    On a pool with several GPU types the numbers are sums (None if that of any type is), ``by_type`` has those of
    each train type and ``build_by_type`` the build quota of each build type, in the pool's order. ``waiting_jobs``
    counts a sweep of which trials wait once, and leaves out jobs that their users paused. ``quota`` is that of
    now; ``set_quota`` is the one that admins have set, which bookings change for their time and edits for good;
    ``set_by_type`` has that of each train type.
    """

    name: str
    parent: str | None
    quota: int | None
    set_quota: int | None
    limit: int | None
    weight: float
    priority: int
    build_quota: int
    fair_share: int
    held: int
    borrowed: int
    waiting: int
    running_jobs: int
    waiting_jobs: int
    colour: int
    members: list[str] = []
    version: int = 1
    by_type: dict[str, TypeNumbers] = {}
    set_by_type: dict[str, int | None] = {}
    build_by_type: dict[str, int] = {}
    ranges: JobRanges = JobRanges()
    """The project's own ranges of its jobs' requests; those of the projects above it apply as well."""
    freeze: FreezeView | None = None
    endings: dict[str, EndingView] = {}
    """The fields whose present values end by themselves."""
    spent_budget: SpentBudget | None = None
    """The budget of this month, once it is spent."""
    notes: list[str] = []
    """What a change of it brings about elsewhere, in sentences; only in the answer to that change."""


class TypeUse(Answer, frozen=True, kw_only=True):
    """The train GPUs of one type, and the quotas of the top projects of it together."""

    train_gpus: int
    train_held: int
    quota_sum: int


class BuildUse(Answer, frozen=True, kw_only=True):
    """The build GPUs of one type."""

    build_gpus: int
    build_held: int


class NodeGroupView(Answer, frozen=True, kw_only=True):
    """Nodes of one kind that the cluster adds when asked: how many there are, were asked for, and may be at most.

    ``gpus`` is the number of GPUs of each. ``since`` is when the oldest of those asked for was, in seconds since
    the epoch; ``error`` why no more can be asked for.
    """

    name: str
    gpu_type: str
    gpus: int
    nodes: int
    asked: int
    most: int
    since: float | None = None
    error: str = ""


class LaunchStopView(Answer, frozen=True, kw_only=True):
    """Launching has stopped, because ``kept`` jobs could not be started for the same reason outside of them.

    ``scope`` says which jobs it concerns: ``pool`` for all, ``image`` or ``user`` for those of the image or person
    ``name``. ``withheld`` jobs, of the same or others, are not tried meanwhile: ``jobs`` in all. ``detail`` has
    the words of the cluster or machine.
    """

    scope: str
    name: str
    kept: int
    withheld: int
    jobs: int
    detail: str


class UnmatchedView(Answer, frozen=True, kw_only=True):
    """Something that runs on GPUs without a present place in the pool, or that no record knows.

    Its GPUs stay out of the pool until it has ended. ``holder`` names it in `FreeRequest`. ``kind`` is ``job``,
    ``notebook`` or ``attempt``, which belongs to a job without a record. ``gpus`` are the UUIDs of its GPUs,
    ``missing`` those of them that no node has. It runs ``since`` then, in seconds since the epoch. ``why`` names
    the mismatch, ``change`` the steps for an admin.
    """

    holder: str
    kind: str
    gpus: list[str]
    missing: list[str]
    since: float
    why: str
    change: str
    job: str = ""
    """Id of the job."""
    user: str = ""
    project: str = ""
    name: str = ""


class FreeRequest(Request, frozen=True, kw_only=True):
    """Something of `PoolView.unmatched` that has ended, by an admin's word; with ``end`` it is ended first."""

    holder: Annotated[str, Meta(min_length=1, max_length=520)]
    end: bool = False


class PoolView(Answer, frozen=True, kw_only=True):
    """The pool at a glance. ``seq`` grows with each change.

    ``gpu_types`` are the types of train GPUs, cheapest first. The tables by type are empty if there is one.
    ``train_free`` and ``build_free`` count the GPUs that nothing holds, by `FREE`.
    """

    seq: int
    nodes: list[NodeView]
    projects: list[ProjectView]
    train_gpus: int
    train_held: int
    build_gpus: int
    build_held: int
    simulated: bool
    quota_sum: int
    """The quotas of the top projects together, in GPUs."""
    train_free: dict[str, int] = {}
    build_free: dict[str, int] = {}
    gpu_types: list[str] = []
    by_type: dict[str, TypeUse] = {}
    build_by_type: dict[str, BuildUse] = {}
    node_groups: list[NodeGroupView] = []
    launch_stops: list[LaunchStopView] = []
    sessions: bool = False
    """Whether terminals can be opened and stacks be read in running jobs."""
    store_trouble: str = ""
    """Why the pool accepts and starts nothing at present, in a sentence; empty while its store takes writes."""
    unmatched: list[UnmatchedView] = []
    """What keeps GPUs out of the pool until it ends; shown to callers who see every job, and to the hub."""


class Idle(Answer, frozen=True, kw_only=True):
    """Idle train GPUs, how many of them are reserved, and why in sentences.

    ``unavailable`` counts the GPUs beside these that nothing holds: drained ones, and those of lost or closed
    nodes.
    """

    gpus: int
    reserved: int
    unavailable: int
    why: list[str]


class HistoryPoint(Answer, frozen=True, kw_only=True):
    """GPUs held per project from a time on, those of them that were borrowed, and changed quotas, over all types.

    ``total`` is how many train GPUs the pool had then, 0 before that was recorded. The first point with ``quotas``
    has those of all projects; None is an unlimited one.
    """

    at: float
    held: dict[str, int]
    borrowed: dict[str, int]
    total: int
    quotas: dict[str, int | None] = {}


class History(Answer, frozen=True, kw_only=True):
    """The tide chart: GPUs over time by project. Points are the changes; the last is now.

    ``quotas`` are the present ones, over all types; ``total`` is how many train GPUs the pool had at the end.
    """

    start: float
    end: float
    total: int
    quotas: dict[str, int | None]
    points: list[HistoryPoint]
    share_held: float
    """Held GPU-seconds / GPU-seconds of the pool as it was in the span, 0 to 1."""
    share_used: float | None = None
    """Part of the held time in which the GPUs computed, 0 to 1; None if nothing was measured."""
