"""The pool at a glance, its projects and its history."""

from __future__ import annotations

from springtide.scheduler.wire.ranges import JobRanges
from springtide.scheduler.wire.shapes import Answer


class Holder(Answer, frozen=True, kw_only=True):
    """Who holds a GPU: a job or a workspace."""

    kind: str
    """``job``, ``workspace`` or ``foreign`` (something outside the pool)."""
    user: str = ""
    project: str = ""
    job: str = ""
    """Id of the job, for those who may see it."""
    name: str = ""
    state: str = ""
    borrowed: bool = False


class GpuCell(Answer, frozen=True, kw_only=True):
    """One cell of the pool bar. ``reserved_for`` is the project that gets it next."""

    index: int
    uuid: str
    holder: Holder | None = None
    reserved_for: str = ""


class NodeView(Answer, frozen=True, kw_only=True):
    """A node and its GPUs, in order."""

    name: str
    environment: str
    gpu_type: str
    available: bool
    simulated: bool
    labels: dict[str, str]
    gpus: list[GpuCell]
    limits: str = ""
    """What a job may take there besides GPUs, and who enforces it; empty where the cluster says."""


class ProjectView(Answer, frozen=True, kw_only=True):
    """A project as bars show it. ``colour`` is its index in the palette; it never changes."""

    name: str
    parent: str | None
    quota: int | None
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
    ranges: JobRanges = JobRanges()
    """What the project's own setting lets its jobs ask for; those of the projects that it is in count as well."""


class PoolView(Answer, frozen=True, kw_only=True):
    """The pool at a glance. ``seq`` grows with each change."""

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


class Idle(Answer, frozen=True, kw_only=True):
    """Idle train GPUs, how many of them are reserved or on nodes that take no jobs, and why in sentences."""

    gpus: int
    reserved: int
    unavailable: int
    why: list[str]


class HistoryPoint(Answer, frozen=True, kw_only=True):
    """GPUs held per project at a time."""

    at: float
    held: dict[str, int]


class History(Answer, frozen=True, kw_only=True):
    """The tide chart: GPUs over time by project. Points are the changes; the last is now."""

    start: float
    end: float
    total: int
    quotas: dict[str, int | None]
    points: list[HistoryPoint]
    utilization: float
    """Held GPU-seconds / all GPU-seconds of the span, 0 to 1."""
