"""What would have been, had the pool been another."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from springtide.scheduler.model import Order, Surplus
from springtide.scheduler.wire.shapes import Answer, Positive, ProjectName, Quantity, Request, TypeName

MOST_NODES = 1_000
"""Maximum number of nodes of a type that are imagined or taken away."""
MOST_CHANGES = 200

Time = Annotated[float, Meta(ge=0, le=1e11)]


class MoreNodes(Request, frozen=True, kw_only=True):
    """Nodes of a GPU type that are added, or with a negative ``count`` taken away.

    Each has ``gpus`` GPUs, those of the largest node of the type unless given; a new type has to give them.
    """

    count: Annotated[int, Meta(ge=-MOST_NODES, le=MOST_NODES)]
    gpus: Annotated[int, Meta(ge=1, le=64)] | None = None


class PastChanges(Request, frozen=True, kw_only=True):
    """Another pool than there was: nodes by GPU type, quotas and limits by project, and settings.

    A quota or a limit counts for the whole time; of a table only the types that it names change.
    """

    nodes: Annotated[dict[TypeName, MoreNodes], Meta(max_length=MOST_CHANGES)] = {}
    quota: Annotated[dict[ProjectName, Quantity | None], Meta(max_length=MOST_CHANGES)] = {}
    limit: Annotated[dict[ProjectName, Quantity | None], Meta(max_length=MOST_CHANGES)] = {}
    order: Order | None = None
    surplus: Surplus | None = None
    min_runtime: Annotated[float, Meta(ge=0, le=1e9)] | None = None


class PastWhatIf(Request, frozen=True, kw_only=True):
    """A question about a span of the past, by default the last ``days`` days, had the pool been another.

    ``start`` and ``end`` are in seconds since the epoch.
    """

    changes: PastChanges = PastChanges()
    days: Annotated[float, Meta(gt=0, le=400)] = 30.0
    start: Time | None = None
    end: Time | None = None


class PastFigures(Answer, frozen=True, kw_only=True):
    """The figures of a span, of the pool or of one project; None where there is nothing to count.

    The waits are those of the ``jobs`` that were submitted in the span, from submission to first start, or to the
    end of the span if they still waited. ``finished`` are the jobs that ended by themselves: neither cancelled,
    nor ended by their time limit, nor such as could not be started. ``utilization`` is the part of the pool's
    GPU-hours that was held. ``cost`` is that of the nodes, of a project that of the GPU-hours that it held.
    """

    jobs: int
    finished: int
    wait_p50_s: float | None
    wait_p95_s: float | None
    utilization: float | None
    gpu_hours: float
    pauses: int
    lost_gpu_hours: float
    cost: float | None


class PastOutcome(Answer, frozen=True, kw_only=True):
    """The figures of the pool, of the projects that the caller may see, and of all others together."""

    total: PastFigures
    projects: dict[str, PastFigures]
    others: PastFigures | None = None


class PastComparison(Answer, frozen=True, kw_only=True):
    """The pool as it was beside the other one, both simulated, from ``start`` to ``end``.

    ``recorded`` is what happened, counted alike; ``deviation`` says how the first pool, simulated, differs from
    that, and is empty if it hardly does. ``headline`` compares both pools in words; ``notes`` say what the
    simulation leaves out, and ``caveats`` are those of them without which the figures mislead. ``difference`` says
    the changes of the other pool, such as ``2 nodes with 20 a100 GPUs more``.
    """

    start: float
    end: float
    headline: str
    recorded: PastOutcome
    unchanged: PastOutcome
    changed: PastOutcome
    notes: list[str]
    caveats: list[str] = []
    difference: list[str] = []
    deviation: str = ""
    currency: str = ""
    """The currency of costs; empty if none is set."""
    simulated: bool = False
    """Whether the GPUs of the pool are simulated."""


class PastRun(Answer, frozen=True, kw_only=True):
    """A calculation of what would have been: its ``state``, and how far it is, from 0 to 1.

    The state is ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``; ``why`` says why it failed.
    """

    id: str
    state: str
    progress: float
    question: PastWhatIf
    why: str = ""
    comparison: PastComparison | None = None


class PoolPast(Answer, frozen=True, kw_only=True):
    """The subjects of questions: since when the past is recorded, in seconds since the epoch, and present values.

    ``nodes`` are the numbers of train nodes by GPU type, ``quota`` those of the projects that the caller may
    change, by project and type. ``whole`` says whether nodes and settings may be changed as well.
    """

    since: float | None
    now: float
    nodes: dict[TypeName, int]
    gpus: dict[TypeName, Positive]
    quota: dict[str, dict[TypeName, int | None]]
    order: Order
    surplus: Surplus
    min_runtime: float
    whole: bool
    priced: bool
    simulated: bool = False
