"""Projects, people, workspaces, drained nodes and drained GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from springtide.scheduler.model import PRIORITIES, Amount, Project

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
class PersonRecord:
    """A person with a personal build quota, in GPUs: a number, or a table by GPU type."""

    name: str
    build_quota: Amount


class HubStanding(StrEnum):
    """Whether a person may have jobs: in a project, in none, or no longer a user of JupyterHub."""

    MEMBER = "member"
    OUTSIDE = "outside"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class HubUser:
    """A user of JupyterHub: ``identity``, when it was created, tells her from others who have the name later."""

    name: str
    identity: str
    standing: HubStanding = HubStanding.MEMBER


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """A node that an admin has drained: nothing new starts there until it is undrained.

    ``finish`` says that the jobs that ran there then may run to their end; without it they were asked to pause.
    ``why`` is what the admin ``by`` gave as the reason, empty if nothing.
    """

    node: str
    by: str
    since: float
    why: str = ""
    finish: bool = False


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


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """The GPUs reserved for a workspace: indices on ``node``, none for a workspace without GPUs.

    ``gpu_type`` is their type, empty in records of earlier versions. ``uuids`` are these GPUs, whatever they are
    numbered; empty where the node itself chooses them, and in records of earlier versions.
    """

    user: str
    server: str
    node: str
    gpus: tuple[int, ...]
    since: float
    gpu_type: str = ""
    uuids: tuple[str, ...] = ()
