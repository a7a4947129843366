"""Build notebooks' GPUs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from springtide.scheduler.wire.shapes import Answer, Count, Request, Word


class WorkspaceRequest(Request, frozen=True, kw_only=True):
    """GPUs for a build notebook. Only the hub's spawner may ask. 0 GPUs is a notebook without any.

    ``gpu_type`` is empty for the only type of build GPUs; of several, that is the first one with room.
    """

    user: Annotated[str, Meta(min_length=1, max_length=255)]
    server: Annotated[str, Meta(max_length=255)] = ""
    gpus: Count = 1
    gpu_type: Word = ""


class Workspace(Answer, frozen=True, kw_only=True):
    """A build notebook's GPUs. ``uuids`` go to ``CUDA_VISIBLE_DEVICES``.

    On a cluster its pod asks for ``resource`` on the machine ``host``; ``node`` is the pool's name of these GPUs.
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


class BuildNumbers(Answer, frozen=True, kw_only=True):
    """What a person may still start of one type of build GPUs."""

    quota: int
    held: int
    free: int


class BuildQuota(Answer, frozen=True, kw_only=True):
    """What a person may still start, for the options form.

    ``by_type`` has the numbers of each type of build GPUs; it is empty where there is one type.
    """

    user: str
    quota: int
    held: int
    free: int
    """Free build GPUs on the machine; less than quota - held when something else holds them."""
    simulated: bool
    projects: list[str]
    by_type: dict[str, BuildNumbers] = {}


class WorkspaceView(Answer, frozen=True, kw_only=True):
    """A person's workspace as its page shows it: the notebook server, and its GPUs if it has any.

    Times are seconds since the epoch; ``since`` is when the server started, None if it is not known.
    """

    user: str
    server: str
    """Name of the server, empty for the default one."""
    state: str
    """``running``, ``starting`` or ``stopping``."""
    gpus: int
    gpu_type: str
    labels: list[str]
    simulated: bool
    since: float | None = None
    last_activity: float | None = None
    path: str = ""
    """Where it opens, as a path of the hub's origin."""


class WorkspaceList(Answer, frozen=True, kw_only=True):
    """Workspaces, by person and name."""

    items: list[WorkspaceView]
