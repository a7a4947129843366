"""The home page of administrators: what needs them, the pool in numbers, and what begins and ends soon."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from springtide.scheduler.wire.shapes import Answer, Request, Word

NeedId = Annotated[str, Meta(min_length=1, max_length=512)]
"""What an entry is about: the same as long as it lasts, and another one if it comes back later."""


class NeedKind(StrEnum):
    """Kinds of what needs an administrator, in the order in which they are shown."""

    STORE = "store"
    LAUNCH = "launch"
    UNMATCHED = "unmatched"
    USAGE = "usage"
    NODES = "nodes"
    QUOTAS = "quotas"
    STAYS = "stays"
    CHANNEL = "channel"
    BACKUP = "backup"
    REQUEST = "request"
    LEAVER = "leaver"
    HANDED_OVER = "handed-over"
    DRAIN = "drain"
    JOB = "job"
    WORKSPACE = "workspace"
    ENDING = "ending"


ANNOUNCED_AS_FAULTS: Final = frozenset({NeedKind.LAUNCH})
"""Kinds of entries in the notifications of faults."""


class NeedCall(Answer, frozen=True, kw_only=True):
    """A call of the API; ``path`` is below ``/api/v1``."""

    method: Literal["POST", "PATCH"] = "POST"
    path: str
    body: dict[str, Any] | None = None


class NeedAction(Answer, frozen=True, kw_only=True):
    """What an administrator can do about an entry: calls in order, or a ``page`` of the pool to open.

    ``question`` is asked before; it is empty for what needs no confirmation. ``text`` is the name of a text that
    is asked for with it, and that the calls have as ``why``. ``grants``: it grants a request, and takes
    nothing away.
    """

    name: str
    words: str
    calls: list[NeedCall] = []
    page: str = ""
    question: str = ""
    text: str = ""
    grants: bool = False


class Need(Answer, frozen=True, kw_only=True):
    """Something that needs an administrator, in sentences: ``said`` is its state, ``remedy`` the change.

    ``problem`` says that work or records suffer until then. ``since`` is when it began, ``until`` when it ends by
    itself, in seconds since the epoch. ``left_until`` is the time for which ``left_by`` leaves it as it is;
    ``told`` is when ``told_by`` notified its owner.
    """

    id: str
    kind: NeedKind
    object: str
    since: float
    said: str
    remedy: str
    problem: bool = False
    until: float | None = None
    user: str = ""
    project: str = ""
    job: str = ""
    actions: list[NeedAction] = []
    left_until: float | None = None
    left_by: str = ""
    told: float | None = None
    told_by: str = ""


class NeedList(Answer, frozen=True, kw_only=True):
    """What needs an administrator now, the most urgent first, and what they leave as it is for a time."""

    items: list[Need]
    left: list[Need] = []


class NeedAbout(Request, frozen=True, kw_only=True):
    """An entry of `NeedList`, by its id."""

    id: NeedId


class NeedLeave(Request, frozen=True, kw_only=True):
    """An entry to leave as it is for some ``days``."""

    id: NeedId
    days: Annotated[float, Meta(gt=0, le=366)] = 7.0


class QuotasFit(Request, frozen=True, kw_only=True):
    """A GPU type, of which all quotas are scaled to fit; empty for the only one."""

    gpu_type: Word = ""


class QuotasFitted(Answer, frozen=True, kw_only=True):
    """Number of projects whose quotas were scaled."""

    projects: int


class Series(Answer, frozen=True, kw_only=True):
    """A number ``now``, and on each of the last days, the oldest first; None where it is not known."""

    now: float | None
    days: list[float | None]


class PoolNumbers(Answer, frozen=True, kw_only=True):
    """The pool in numbers. GPUs are means of a day; ``used`` is a part of ``held``, from 0 to 1.

    Waits are those of the jobs that started on a day, in seconds, and today's for now. ``idle`` are GPUs that
    nothing holds while waiting jobs ask for as many, ``people`` those with jobs that run or wait and with
    workspaces; of a day, those who held GPUs.
    """

    gpus: int
    held: Series
    used: Series
    wait_p50: Series
    wait_p95: Series
    idle: Series
    people: Series


class ProjectHome(Answer, frozen=True, kw_only=True):
    """A project beside its `ProjectView`; the numbers of GPUs are those of it and the projects inside it.

    ``lent`` is unused quota by GPU type that others hold now. ``used`` is the part of the GPUs held in the last
    week in which they computed. ``longest_wait`` is in seconds, ``trend`` the mean number of GPUs held on each of
    the last 28 days, ``cost`` that of the present month; None if no GPU-hour had a price.
    """

    name: str
    lent: dict[str, int] = {}
    used: float | None = None
    longest_wait: float | None = None
    trend: list[float] = []
    cost: float | None = None


class CalendarEntry(Answer, frozen=True, kw_only=True):
    """What begins or ends at a time; ``page`` is where it is changed."""

    at: float
    kind: Literal["drain", "freeze", "change", "booking"]
    ends: bool
    said: str
    page: str


class Home(Answer, frozen=True, kw_only=True):
    """The pool for its administrators, apart from `PoolView`, at a time.

    ``days`` are those of all series, in UTC; ``numbers`` are those of the pool under the empty name, and of each
    GPU type. ``calendar`` has the next seven days.
    """

    at: float
    days: list[str]
    numbers: dict[str, PoolNumbers]
    projects: list[ProjectHome]
    calendar: list[CalendarEntry]
    currency: str = ""
    """The currency of costs; empty if none is set."""
    idle_since: str = ""
    """The first day on which idle GPUs were counted while jobs waited; empty if none is known."""
