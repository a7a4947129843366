"""Build notebooks' GPUs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from springtide.scheduler.datasets import Dataset
from springtide.scheduler.wire.shapes import Answer, Count, Request, Until, Word

Span = Annotated[float, Meta(gt=0, le=366 * 86_400)]
"""A duration in seconds, up to a year."""


class WorkspaceRequest(Request, frozen=True, kw_only=True):
    """GPUs for a build notebook. Only the hub's spawner may ask. 0 GPUs is a notebook without any.

    ``gpu_type`` is empty for the only type of build GPUs; of several, that is the first one with room.
    ``runs_on`` are the UUIDs of a running notebook's GPUs, as its spawner knows them; they are recorded as they
    are.
    """

    user: Annotated[str, Meta(min_length=1, max_length=255)]
    server: Annotated[str, Meta(max_length=255)] = ""
    gpus: Count = 1
    gpu_type: Word = ""
    runs_on: Annotated[list[Word], Meta(max_length=1024)] = []


class Workspace(Answer, frozen=True, kw_only=True):
    """A build notebook's GPUs. ``uuids`` go to ``CUDA_VISIBLE_DEVICES``.

    On a cluster its pod asks for ``resource`` on the machine ``host``; ``node`` is the pool's name of these GPUs.
    ``datasets`` are those that its owner may use.
    """

    user: str
    server: str
    gpus: int
    uuids: list[str]
    labels: list[str]
    node: str
    simulated: bool
    since: float
    gpu_type: str = ""
    resource: str = ""
    host: str = ""
    datasets: list[Dataset] = []


class BuildNumbers(Answer, frozen=True, kw_only=True):
    """The build GPUs of one type that a person may still start."""

    quota: int
    held: int
    free: int


class StoppedWorkspace(Answer, frozen=True, kw_only=True):
    """A workspace that was stopped ``at`` a time because its GPUs had not been used for ``unused`` seconds."""

    server: str
    at: float
    gpus: int
    unused: float


class BuildQuota(Answer, frozen=True, kw_only=True):
    """The build GPUs that a person may still start, for the options form.

    ``by_type`` has the numbers of each type of build GPUs; it is empty if there is one type.
    """

    user: str
    quota: int
    held: int
    free: int
    """Free build GPUs on the machine; less than quota - held when something else holds them."""
    simulated: bool
    projects: list[str]
    by_type: dict[str, BuildNumbers] = {}
    stopped: list[StoppedWorkspace] = []
    """The person's workspaces lately stopped as idle."""


class WorkspaceActivity(Request, frozen=True, kw_only=True):
    """A notebook server's report about itself.

    ``busy`` says that a kernel computes or that a program runs in a terminal, ``idle`` for how many seconds there
    was no activity of kernels, terminals and pages; None is activity now.
    """

    server: Annotated[str, Meta(max_length=255)] = ""
    busy: bool = False
    idle: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class ReportAgain(Answer, frozen=True, kw_only=True):
    """In how many seconds a notebook server is to report again."""

    seconds: float


class IdleRule(Request, frozen=True, kw_only=True):
    """The rule for a workspace whose GPUs are not used: durations in seconds, null for never.

    Its owner is notified after ``tell_after`` without use, and it is stopped ``notice`` later.
    """

    tell_after: Span | None = None
    notice: Span | None = None


class IdleRuleEdit(Request, frozen=True, kw_only=True):
    """A rule for the pool, a project or a person; null goes back to the settings, or to the rule of the pool.

    With ``until`` the rule before returns at that time.
    """

    rule: IdleRule | None
    until: Until | None = None
    scope: Literal["pool", "project", "person"] = "pool"
    name: Annotated[str, Meta(max_length=255)] = ""


class IdleException(Answer, frozen=True, kw_only=True):
    """A rule of one project or person. ``configured`` says that it comes from the settings of the service."""

    scope: str
    name: str
    rule: IdleRule
    configured: bool
    until: float | None = None


class IdleRules(Answer, frozen=True, kw_only=True):
    """The rules for idle workspaces. Without ``stops`` none is stopped, and their owners are only notified."""

    stops: bool
    pool: IdleRule
    until: float | None = None
    """When the rule of the pool ends by itself."""
    exceptions: list[IdleException]


class WorkspaceIdle(Answer, frozen=True, kw_only=True):
    """The use of a workspace with GPUs; nothing is ``known`` if its notebook server does not report.

    ``busy`` says that something runs in it. Times are seconds since the epoch: ``unused_since`` when it was last
    used, None while it is; ``stops`` when it is stopped unless it is used, None for never. ``told`` says that its
    owner was notified.
    """

    known: bool
    busy: bool = False
    unused_since: float | None = None
    told: bool = False
    stops: float | None = None


class WorkspaceView(Answer, frozen=True, kw_only=True):
    """A person's workspace as its page shows it: the notebook server, and its GPUs if it has any.

    Times are seconds since the epoch; ``since`` is when the server started, None if it is not known.
    """

    user: str
    server: str
    """Name of the server, empty for the default one."""
    state: str
    """``running``, ``starting``, ``stopping``, or ``unknown`` of one that runs and that the hub does not know."""
    gpus: int
    gpu_type: str
    labels: list[str]
    simulated: bool
    since: float | None = None
    last_activity: float | None = None
    path: str = ""
    """Where it opens, as a path of the hub's origin."""
    idle: WorkspaceIdle | None = None
    """The use of its GPUs, None if it has none."""
    place: str = ""
    """Where one runs that the hub does not know: its processes or its pod."""


class WorkspaceList(Answer, frozen=True, kw_only=True):
    """Workspaces, by person and name, and the caller's workspaces lately stopped as idle."""

    items: list[WorkspaceView]
    stopped: list[StoppedWorkspace] = []
