"""The shapes that cross HTTP: what the pool's API takes and answers, as typed structs.

The API checks requests against them, its OpenAPI document is generated from them, and the client returns them.
Requests refuse unknown fields. Quantities are GPUs, times are seconds since the epoch, durations are seconds.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

MAX_GPUS = 1_000_000
MAX_NAME = 128

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
ProjectName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f/]+$")]
Count = Annotated[int, Meta(ge=0, le=MAX_GPUS)]
Positive = Annotated[int, Meta(ge=1, le=MAX_GPUS)]


class Request(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A body that a caller sends."""


class Answer(Struct, frozen=True, kw_only=True):
    """A body that the API sends."""


# ---------- jobs


class Submission(Request, frozen=True, kw_only=True):
    """A train job to run.

    ``argv`` is the command; in it and in ``env`` values, ``{code}`` stands for the directory that ``files``
    (relative path to content) are written to. ``cwd`` is the working directory (the job's own directory if
    None). ``project`` may be left out by someone who has one project only. ``key`` makes a submission safe to
    repeat: the same key of the same user answers the job that was accepted first.
    """

    argv: Annotated[list[str], Meta(min_length=1, max_length=4096)]
    name: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    kind: Annotated[str, Meta(pattern="^(command|function|notebook)$")] = "command"
    project: ProjectName | None = None
    gpus: Positive = 1
    workers: Positive = 1
    min_workers: Positive | None = None
    priority: str | int = "train"
    preemptible: bool | None = None
    gpu_types: list[str] = []
    require: str | None = None
    prefer: str | None = None
    rotate: bool = True
    time_limit: Annotated[float, Meta(gt=0, le=10 * 365 * 86400)] | None = None
    retries: Annotated[int, Meta(ge=0, le=100)] = 0
    grace: Annotated[float, Meta(ge=0, le=3600)] | None = None
    env: dict[str, str] = {}
    cwd: str | None = None
    files: dict[str, bytes] = {}
    source: Annotated[str, Meta(max_length=200_000)] = ""
    key: Annotated[str, Meta(max_length=128)] | None = None


class Reason(Answer, frozen=True, kw_only=True):
    """Why something is so: ``code`` and ``params`` for programs, ``text`` for people."""

    code: str
    text: str
    params: dict[str, Any] = {}


class Progress(Answer, frozen=True, kw_only=True):
    """What the job last reported. ``values`` are its numbers, such as ``{"loss": 0.3}``."""

    step: float | None = None
    of: float | None = None
    at: float | None = None
    values: dict[str, float] = {}


class GpuRef(Answer, frozen=True, kw_only=True):
    """One GPU. ``label`` is how a person finds it, such as ``"train 3"``."""

    node: str
    index: int
    uuid: str
    label: str
    borrowed: bool = False


class Attempt(Answer, frozen=True, kw_only=True):
    """One run of a job. ``why`` says why it was started, ``ended_why`` why it stopped."""

    number: int
    state: str
    """``starting``, ``running``, ``pausing`` or how it ended: ``paused``, ``succeeded``, ``failed``,
    ``cancelled``, ``lost``."""
    workers: int
    gpus: list[GpuRef]
    created: float
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    saved: float | None = None
    resumed_from: float | None = None
    """The step the attempt continued from, if the job reported one."""
    why: Reason | None = None
    ended_why: Reason | None = None


class Job(Answer, frozen=True, kw_only=True):
    """A job with all that a card shows.

    ``gpus`` is per worker; ``held`` lists the GPUs its live attempt holds, the last of them marked as borrowed
    as far as its project is over quota. ``reason`` says why it waits or what happens to it. ``place`` counts
    the jobs in line before it, plus one. ``starts`` is when it is expected to start, if that can be told.
    """

    id: str
    name: str
    kind: str
    user: str
    project: str
    state: str
    priority: int
    preemptible: bool
    workers: int
    gpus: int
    min_workers: int
    submitted: float
    argv: list[str]
    source: str = ""
    started: float | None = None
    """When its first attempt started."""
    ended: float | None = None
    held_by_user: bool = False
    held: list[GpuRef] = []
    attempt: int = 0
    attempts: list[Attempt] = []
    progress: Progress = Progress()
    saved: float | None = None
    """When it last wrote a checkpoint."""
    saved_step: float | None = None
    reason: Reason | None = None
    place: int | None = None
    starts: float | None = None
    time_limit: float | None = None
    retries: int = 0
    failures: int = 0
    gpu_seconds: float = 0.0
    exit_code: int | None = None
    error: str = ""
    """What went wrong, in words, of a failed job."""


class JobPage(Answer, frozen=True, kw_only=True):
    """A page of jobs, newest first. ``next`` is the cursor of the next page, None on the last."""

    items: list[Job]
    next: str | None = None


class LogChunk(Answer, frozen=True, kw_only=True):
    """A piece of a worker's log.

    ``offset`` is where it starts and ``next`` where to read on, in bytes since the first attempt's start; a log
    that was cut by its cap starts later than 0. ``ended`` tells that no more will come.
    """

    text: str
    offset: int
    next: int
    ended: bool
    attempt: int


class Point(Answer, frozen=True, kw_only=True):
    """One report of a job."""

    seq: int
    attempt: int
    at: float
    step: float | None = None
    values: dict[str, float] = {}


class Points(Answer, frozen=True, kw_only=True):
    """Reports in order; ask again with ``after`` = ``next``."""

    items: list[Point]
    next: int


# ---------- the pool


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


class ProjectView(Answer, frozen=True, kw_only=True):
    """A project as bars show it. ``colour`` is its place in the palette, the same everywhere and for ever."""

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


# ---------- people and quotas


class ProjectChoice(Answer, frozen=True, kw_only=True):
    """What the caller may ask for in one project."""

    name: str
    quota: int | None
    limit: int | None
    max_gpus: int
    """The most GPUs one worker may have: the largest train node, or the limit if that is less."""
    max_total: int
    """The most GPUs one job may have."""
    free_now: int
    colour: int


class Me(Answer, frozen=True, kw_only=True):
    """Who the caller is and what the form may offer."""

    name: str
    admin: bool
    service: bool
    projects: list[ProjectChoice]
    priorities: dict[str, int]
    gpu_types: list[str]
    simulated: bool
    build_quota: int
    build_used: int
    max_body: int
    """The largest request body, in bytes."""
    grace: float
    version: str


class ProjectEdit(Request, frozen=True, kw_only=True):
    """A new project, or a change to one: fields left out stay as they are.

    ``version`` is the version that was shown to the editor; a change based on an old one is refused.
    """

    parent: ProjectName | UnsetType | None = UNSET
    quota: Count | UnsetType | None = UNSET
    limit: Count | UnsetType | None = UNSET
    weight: Annotated[float, Meta(ge=0, le=1e6)] | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType = UNSET
    build_quota: Count | UnsetType = UNSET
    version: int | UnsetType = UNSET


class PersonView(Answer, frozen=True, kw_only=True):
    """A person's build quota, in GPUs: of her own, or the most that one of her projects gives."""

    name: str
    build_quota: int
    own_build_quota: int | None
    build_used: int
    projects: list[str]


class PersonEdit(Request, frozen=True, kw_only=True):
    """A build quota of one's own for a person; None goes back to that of the projects."""

    build_quota: Count | None


class Sums(Answer, frozen=True, kw_only=True):
    """The sums an admin watches, in GPUs."""

    train_gpus: int
    quota_sum: int
    build_gpus: int
    build_quota_sum: int


class Admin(Answer, frozen=True, kw_only=True):
    """All that the admin page shows."""

    projects: list[ProjectView]
    people: list[PersonView]
    sums: Sums


class AuditEntry(Answer, frozen=True, kw_only=True):
    """Who changed what. ``undo`` tells whether the change can still be taken back."""

    id: int
    at: float
    who: str
    what: str
    """``project.create``, ``project.change``, ``project.delete``, ``person.change``, ``member.add``,
    ``member.remove``, ``job.cancel`` (of somebody else's job), …"""
    subject: str
    before: dict[str, Any]
    after: dict[str, Any]
    undo: bool = False


class AuditPage(Answer, frozen=True, kw_only=True):
    """A page of the audit trail, newest first."""

    items: list[AuditEntry]
    next: str | None = None


# ---------- workspaces


class WorkspaceRequest(Request, frozen=True, kw_only=True):
    """GPUs for a build notebook. Only the hub's spawner may ask. 0 GPUs is a notebook without any."""

    user: Annotated[str, Meta(min_length=1, max_length=255)]
    server: Annotated[str, Meta(max_length=255)] = ""
    gpus: Count = 1


class Workspace(Answer, frozen=True, kw_only=True):
    """A build notebook's GPUs. ``uuids`` go to ``CUDA_VISIBLE_DEVICES``."""

    user: str
    server: str
    gpus: int
    uuids: list[str]
    labels: list[str]
    node: str
    simulated: bool
    since: float


class BuildQuota(Answer, frozen=True, kw_only=True):
    """What a person may still start, for the options form."""

    user: str
    quota: int
    used: int
    free: int
    """Free build GPUs on the machine; less than quota - used when something else holds them."""
    simulated: bool
    projects: list[str]


# ---------- errors and events


class Problem(Answer, frozen=True, kw_only=True):
    """Every error's body. ``field`` names the part of the request that is wrong; ``hint`` is the way out."""

    status: int
    code: str
    message: str
    field: str | None = None
    hint: str = ""


class Event(Answer, frozen=True, kw_only=True):
    """One event of the stream.

    ``id`` is None for passing ones (progress, log growth); others are kept and can be resumed from. ``kind``:
    ``job`` (``data`` is a `Job` without its attempts' history), ``pool`` (a `PoolView`), ``progress`` (job id and
    `Progress`), ``log`` (job id, rank, size), ``admin`` (projects or people changed: ask again).
    """

    kind: str
    data: dict[str, Any]
    id: int | None = None
    at: float = field(default=0.0)
