"""Questions to the store, and what it answers besides records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A selection of jobs in an order; a ``viewer`` restricts it to jobs of that user and of ``viewer_projects``.

    ``search`` are words that the name, the user, the project, the id or a tag contains, whatever the case of ASCII
    letters; ``since`` is the earliest time of submission, ``tag`` one of the tags, ``order`` one of `ORDERS` of
    ``queries.listing``, reversed with a minus before it. ``sweep`` selects the trials of that sweep; without it
    trials are left out, unless ``trials`` is true.
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


@dataclass(frozen=True, slots=True)
class GpuUse:
    """GPUs that an attempt occupied from ``start`` to ``end``; None means that it still does."""

    project: str
    gpus: int
    start: float
    end: float | None
