"""A caller's choices and notifications, and the changes of admins."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType

from springtide.scheduler.wire.budgets import BudgetView
from springtide.scheduler.wire.events import Problem
from springtide.scheduler.wire.jobs import Hold
from springtide.scheduler.wire.pool import EndingView, ProjectView
from springtide.scheduler.wire.presets import PresetView
from springtide.scheduler.wire.ranges import JobRanges
from springtide.scheduler.wire.shapes import Answer, ProjectName, Quantity, Request, Until, Word

EventName = Literal[
    "paused",
    "resumed",
    "ended",
    "succeeded-soon",
    "failed",
    "time-limit",
    "fault",
    "workspace",
    "needs",
    "budget",
    "report",
    "edited",
    "request",
]
EventNames = Annotated[list[EventName], Meta(max_length=len(get_args(EventName)))]
MAX_CHANNELS = 20
"""Maximum number of channels in one change."""


class ProjectChoice(Answer, frozen=True, kw_only=True):
    """The caller's possible requests in one project."""

    name: str
    quota: int | None
    limit: int | None
    max_gpus: int
    """The most GPUs one worker may have: the largest train node, or the limit if that is less."""
    max_total: int
    """The most GPUs one job may have."""
    free_now: int
    colour: int
    ranges: JobRanges = JobRanges()
    """The ranges of a job's requests, by the project and those above it; ``images`` is None on one machine."""


class Me(Answer, frozen=True, kw_only=True):
    """The caller's identity, and the choices of the form."""

    name: str
    admin: bool
    service: bool
    projects: list[ProjectChoice]
    priorities: dict[str, int]
    gpu_types: list[str]
    simulated: bool
    build_quota: int
    build_held: int
    max_body: int
    """The largest request body, in bytes."""
    grace: float
    version: str
    images: list[str] = []
    """Images a job may run in, the default first; ``*`` matches anything. None on one machine."""
    datasets: list[str] = []
    """Names of the datasets readable by the caller's jobs, in any of the projects."""
    secrets: list[str] = []
    """Names of the secrets whose variables the caller's jobs may have, in any of the projects."""
    default_project: str | None = None
    """The project of the caller's jobs that name none, as chosen: it may be none of ``projects`` any more."""
    noted_variables: list[str] = []
    """Names and patterns of environment variables that an administrator added to the well-known ones."""
    presets: list[PresetView] = []
    """The presets that jobs of the caller may name."""


class MeEdit(Request, frozen=True, kw_only=True):
    """A change of the caller's own settings: fields left out stay as they are. None removes the choice."""

    default_project: ProjectName | UnsetType | None = UNSET


class ProjectValues(Request, frozen=True, kw_only=True):
    """Values of a project, which a change of the pool and a file of it give; fields left out stay as they are."""

    parent: ProjectName | UnsetType | None = UNSET
    quota: Quantity | UnsetType | None = UNSET
    limit: Quantity | UnsetType | None = UNSET
    weight: Annotated[float, Meta(ge=0, le=1e6)] | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType = UNSET
    build_quota: Quantity | UnsetType = UNSET
    ranges: JobRanges | UnsetType = UNSET


class ProjectEdit(ProjectValues, frozen=True, kw_only=True):
    """A new project, or a change to one: fields left out stay as they are.

    ``quota``, ``limit`` and ``build_quota`` are numbers of GPUs, or tables by GPU type if the pool has several. A
    type left out of a table stays as it is; a new project has quota 0, no limit and build quota 0 of it.

    ``ranges`` is replaced as a whole. ``version`` is the version that was shown to the editor; a change based on
    an old one is refused. With ``until`` the values before return at that time, unless they are changed meanwhile.
    """

    version: Annotated[int, Meta(ge=0, le=1 << 53)] | UnsetType = UNSET
    until: Until | None = None


class FreezeRequest(Request, frozen=True, kw_only=True):
    """A freeze of a project; jobs that run are paused, or may ``finish``. All who see its jobs see ``why``."""

    why: Annotated[str, Meta(max_length=500)] = ""
    finish: bool = False
    until: Until | None = None


class PersonNumbers(Answer, frozen=True, kw_only=True):
    """A person's build GPUs of one type."""

    build_quota: int
    own_build_quota: int | None
    build_held: int


class PersonView(Answer, frozen=True, kw_only=True):
    """A person's build quota, in GPUs: the person's own, or the largest that one of the projects gives.

    On a pool with several types of build GPUs the numbers are sums, and ``by_type`` has those of each type.
    """

    name: str
    build_quota: int
    own_build_quota: int | None
    build_held: int
    projects: list[str]
    by_type: dict[str, PersonNumbers] = {}
    ending: EndingView | None = None
    """When the person's own build quota ends by itself."""


class PersonEdit(Request, frozen=True, kw_only=True):
    """A build quota of one's own for a person, maybe until a time; None goes back to that of the projects."""

    build_quota: Quantity | None
    until: Until | None = None


class EditPreview(Answer, frozen=True, kw_only=True):
    """What would become of a change of numbers: why it would be refused, None if it would not; nothing is changed.

    ``notes`` name what would no longer be as it was decided.
    """

    refused: Problem | None = None
    notes: list[str] = []


class TrainSums(Answer, frozen=True, kw_only=True):
    """The sums of one type of train GPUs."""

    train_gpus: int
    quota_sum: int


class BuildSums(Answer, frozen=True, kw_only=True):
    """The sums of one type of build GPUs."""

    build_gpus: int
    build_quota_sum: int


class Sums(Answer, frozen=True, kw_only=True):
    """The sums an admin watches, in GPUs. The tables are empty if there is one type."""

    train_gpus: int
    quota_sum: int
    build_gpus: int
    build_quota_sum: int
    by_type: dict[str, TrainSums] = {}
    build_by_type: dict[str, BuildSums] = {}


class JobOnHold(Answer, frozen=True, kw_only=True):
    """A job that does not start, or not again, before an administrator releases it."""

    id: str
    name: str
    user: str
    project: str
    state: str
    hold: Hold


class Lead(Answer, frozen=True, kw_only=True):
    """A person who administers a project, by a role of the hub, as a member of a ``group`` if that is not empty.

    ``locked`` says why that cannot be changed here; empty if it can.
    """

    name: str
    group: str = ""
    locked: str = ""


class Admin(Answer, frozen=True, kw_only=True):
    """All that the admin page shows. ``on_hold`` are the jobs on hold of the projects, oldest first.

    ``currency`` is that of prices; ``has_prices`` says that budgets in money are possible.
    """

    projects: list[ProjectView]
    people: list[PersonView]
    sums: Sums
    on_hold: list[JobOnHold] = []
    leads: dict[str, list[Lead]] = {}
    """Who administers which project; the empty name is every project."""
    locked_members: str = ""
    """Why no membership can be changed here, empty if it can."""
    outside: list[str] = []
    """People with unfinished jobs who are in no project any more, or no users of the hub; none for leads."""
    configured_members: dict[str, list[str]] = {}
    """The members whom the hub's configuration adds at each start, by project: they cannot be removed here."""
    budgets: list[BudgetView] = []
    currency: str = ""
    has_prices: bool = False


class AuditEntry(Answer, frozen=True, kw_only=True):
    """An entry of the audit log. ``undo`` says whether the change can still be undone."""

    id: int
    at: float
    who: str
    what: str
    """``project.create``, ``project.change``, ``project.delete``, ``person.change``, ``member.add``,
    ``member.remove``, …; ``undo.project.change`` took such a change back, and is not taken back itself. Of another
    person's job ``job.pause``, ``job.resume``, ``job.cancel``, ``job.tags``, …, and ``job.read_log`` and
    ``job.read_outputs`` by a person who is not a member of its project. ``job.exec``: its owner opened a terminal
    in a running job, or ran a command there."""
    subject: str
    before: dict[str, Any]
    after: dict[str, Any]
    project: str = ""
    """The project that it concerns; empty if it concerns the pool or a person."""
    undo: bool = False


class AuditPage(Answer, frozen=True, kw_only=True):
    """A page of the audit trail, newest first."""

    items: list[AuditEntry]
    next: str | None = None


class ChannelView(Answer, frozen=True, kw_only=True):
    """A channel as its person sees it.

    ``title`` and ``about`` describe it. ``events`` are those of which she is notified through it, ``missing`` says
    why she cannot use it (empty if she can), and ``target`` is where it leads: the e-mail address, or the host of
    the webhook, never a secret. ``sends`` is false if open pages show its notifications. She enters an address if
    there is an ``address_hint`` at the allowed ones.
    ``waiting`` messages are on their way; ``state`` is how the latest attempt ended at the time ``at``: ``sent``,
    ``failed``, ``waiting`` (it is tried again) or ``unknown``. ``problem`` says why it did not arrive.
    """

    name: str
    title: str
    about: str
    events: list[str]
    sends: bool = True
    missing: str = ""
    target: str = ""
    address_hint: str | None = None
    waiting: int = 0
    state: str = ""
    at: float | None = None
    problem: str = ""


class Notifications(Answer, frozen=True, kw_only=True):
    """The events of which the caller is notified, by channel.

    ``administers``: among them may be what needs administrators.
    """

    channels: list[ChannelView]
    administers: bool = False


class NotificationsEdit(Request, frozen=True, kw_only=True):
    """A change of the caller's choices: channels that are left out stay as they are.

    ``events`` has the complete list of a channel's events, ``addresses`` the addresses of channels that need one;
    an empty address removes it.
    """

    events: Annotated[dict[Word, EventNames], Meta(max_length=MAX_CHANNELS)] = {}
    addresses: Annotated[dict[Word, Annotated[str, Meta(max_length=2_000)]], Meta(max_length=MAX_CHANNELS)] = {}


class TrialSent(Answer, frozen=True, kw_only=True):
    """The result of a test message; ``problem`` says why it was not delivered."""

    delivered: bool
    problem: str = ""
