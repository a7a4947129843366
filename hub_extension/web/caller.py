"""The caller of a request, as identified by the hub."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

EVERY: Final = ""
"""Every project, in `Caller.views` and `Caller.administers`; no project has this name."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """The job whose program calls: its project, and the ids of the jobs that led to it, itself last."""

    project: str
    lineage: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Caller:
    """A user or service of the hub.

    ``groups`` are the caller's groups on the hub and therefore the caller's projects, at most one minute old.
    ``admin`` is true for a token with the unfiltered scope ``custom:springtide:admin``, which permits the
    administration of the whole pool. ``views`` and ``administers`` are the projects whose jobs the token may see
    and which it may administer; `EVERY` means all. ``spawner`` is true for the hub itself, which uses the
    service's own token; ``hub_admin`` is true for one that may open the hub's own page for admins. ``token``
    authorizes requests to the hub in the caller's name. ``job`` is set for a program of a running job, which acts
    for the job's user, within the job's project alone.
    """

    name: str
    groups: frozenset[str] = frozenset()
    admin: bool = False
    views: frozenset[str] = frozenset()
    administers: frozenset[str] = frozenset()
    hub_admin: bool = False
    service: bool = False
    spawner: bool = False
    token: str = field(default="", repr=False)
    job: RunningJob | None = None

    @property
    def administers_some(self) -> bool:
        """Whether the caller administers the pool or a project of it."""
        return self.admin or bool(self.administers)
