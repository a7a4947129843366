"""Questions to the store, and what it answers besides records."""

from __future__ import annotations

from dataclasses import dataclass

from springtide.scheduler.runs import Condition

MAX_LOOKED_AT = 2_000
"""Maximum number of jobs whose arguments and metrics a search, a condition or an order looks at: the newest."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A selection of jobs in an order; a ``viewer`` restricts it to jobs of that user and of ``viewer_projects``.

    ``search`` are words, all of which have to be found, whatever the case of ASCII letters: in jobs whose name,
    user, project, id or a tag contains the word, and, among the newest `MAX_LOOKED_AT` that the rest of the query
    finds, in those with an argument of that name whose value is neither none nor false. ``since`` is the earliest
    time of submission, ``tag`` one of the tags, ``order`` one of `ORDERS` of
    ``queries.listing``, reversed with a minus before it. ``sweep`` selects the trials of that sweep; without it
    trials are left out, unless ``trials`` is true. ``pinned`` and ``archived`` select jobs that are, or are not;
    one that has not ended is always among those that are not archived.
    ``where`` is a condition on their values, ``by_value`` the name of a value that orders them instead of
    ``order``, with ``falling`` the largest first: both look at the newest `MAX_LOOKED_AT` jobs only.
    """

    states: frozenset[str] = frozenset()
    project: str | None = None
    user: str | None = None
    search: str = ""
    since: float | None = None
    tag: str | None = None
    order: str = "newest"
    viewer: str | None = None
    viewer_projects: tuple[str, ...] = ()
    sweep: str | None = None
    trials: bool = False
    pinned: bool | None = None
    archived: bool | None = None
    where: Condition | None = None
    by_value: str = ""
    falling: bool = False


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """A selection of entries of the audit trail.

    ``what`` is a kind, or a part of kinds, such as ``job`` or ``hold``; the same kinds taken back are among them.
    ``visible`` are the projects whose entries may be seen, None for all entries. ``start`` is the earliest time,
    ``end`` the time before which they are, in seconds since the epoch.
    """

    who: str | None = None
    what: str | None = None
    project: str | None = None
    visible: tuple[str, ...] | None = None
    start: float | None = None
    end: float | None = None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """GPUs that an attempt held from ``start`` to ``end``, and how many of them were borrowed."""

    project: str
    gpus: int
    borrowed: int
    start: float
    end: float
