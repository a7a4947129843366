"""Jobs in the API: the contents of a card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import force_setattr, replace

from springtide.scheduler.arguments import Argument
from springtide.scheduler.metrics import Value
from springtide.scheduler.wire.environments import JobEnvironment
from springtide.scheduler.wire.events import Problem
from springtide.scheduler.wire.job_edits import MAX_REASON, JobEdit
from springtide.scheduler.wire.reruns import RerunOf
from springtide.scheduler.wire.shapes import MAX_JOBS_PAGE, MAX_TAGS, Answer, Quantity, Request, Word
from springtide.scheduler.wire.submission import JobOptions
from springtide.scheduler.wire.sweeps import Outcome, TrialCounts
from springtide.scheduler.wire.usage import JobUsage

MAX_WORD = 200
"""Maximum length of a word to check as a tag, in characters."""
Tags = Annotated[list[Annotated[str, Meta(max_length=MAX_WORD)]], Meta(max_length=MAX_TAGS)]


class Deletion(Answer, frozen=True, kw_only=True):
    """A job that was deleted, or would be: ``jobs`` counts it with its trials and its test run.

    ``bytes`` is the size of their files, if that was asked for.
    """

    job: str
    name: str
    jobs: int
    bytes: int | None = None


class TagsEdit(Request, frozen=True, kw_only=True):
    """A change of a job's tags: ``tags`` replaces all of them, ``add`` and ``remove`` some."""

    tags: Tags | None = None
    add: Tags = []
    remove: Tags = []


MAX_NOTE = 2_000
"""Maximum length of a note about a job, in characters."""


class MarksEdit(Request, frozen=True, kw_only=True):
    """A change of a job's notes beside its tags; a field left out stays. An empty note removes it."""

    note: Annotated[str, Meta(max_length=MAX_NOTE)] | None = None
    pinned: bool | None = None
    archived: bool | None = None


class TestRun(Answer, frozen=True, kw_only=True):
    """The test run of a job, which is a job of its own: the same program with one worker on one GPU.

    ``ran`` is how long it has run, in seconds. ``text`` says in words how it went.
    """

    job: str
    stage: str
    """``waiting``, ``running``, ``passed``, ``failed`` or ``cancelled``."""
    ran: float
    text: str


class TrackerLink(Answer, frozen=True, kw_only=True):
    """The address at which a tracker, such as MLflow, shows a job; None while that is not known."""

    name: str
    url: str | None


class TrackerLinks(Answer, frozen=True, kw_only=True):
    """The trackers that an administrator has set, which may be none."""

    items: list[TrackerLink]


class Sentence(Answer, frozen=True, kw_only=True):
    """A whole sentence of a reason. It is shown as it is, or left out."""

    role: str
    """``state``: the present state; ``cause``: an event and its reason; ``detail``: the original words of others;
    ``change``: a change that a person would have to make; ``ease``: an event that would let it start on its own;
    ``next``: the event that follows on its own; ``place``: the place in line."""
    text: str


class Reason(Answer, frozen=True, kw_only=True):
    """Why something is so: ``code`` and ``params`` for programs, ``sentences`` for people.

    ``text`` is all sentences together. ``headline``, which only reasons of jobs have, has at most 90 characters;
    ``brief``, its beginning in at most 50, is for lines that say more, such as times.
    """

    code: str
    text: str
    headline: str = ""
    brief: str = ""
    sentences: list[Sentence] = []
    params: dict[str, Any] = {}


class BestValue(Answer, frozen=True, kw_only=True):
    """The best value of a metric so far, the step at which it was reported, and which values are the best."""

    value: float
    step: float | None = None
    goal: Literal["min", "max"] = "min"


class Metric(Answer, frozen=True, kw_only=True):
    """A metric of a job: its last and its best value, and the one at the step that was asked for.

    Values that are not finite are the texts ``NaN``, ``Infinity`` and ``-Infinity``; they are never the best. The
    one at a step is the newest one reported at this step, else the one at the last step before it, if any.
    """

    name: str
    last: Value | None
    best: BestValue | None
    at_step: Value | None = None


class MetricList(Answer, frozen=True, kw_only=True):
    """The metrics of a job."""

    items: list[Metric]


class Progress(Answer, frozen=True, kw_only=True):
    """The job's latest report. ``values`` are its numbers, such as ``{"loss": 0.3}``, ``best`` the best of each.

    A number that is not finite is the text ``NaN``, ``Infinity`` or ``-Infinity``; ``not_finite`` has the steps
    since which metrics are not finite, None for one without steps.
    ``ends`` is when it has made all steps at this speed, or when its time limit ends it, if ``limited`` says that
    this comes first; forecasts of other jobs use the same estimate.
    """

    step: float | None = None
    of: float | None = None
    at: float | None = None
    values: dict[str, Value] = {}
    best: dict[str, BestValue] = {}
    not_finite: dict[str, float | None] = {}
    ends: float | None = None
    limited: bool = False


class GpuRef(Answer, frozen=True, kw_only=True):
    """One GPU. ``label`` is how a person finds it, such as ``"train 3"``."""

    node: str
    index: int
    uuid: str
    label: str
    borrowed: bool = False


class BorrowedSpan(Answer, frozen=True, kw_only=True):
    """A span in which ``gpus`` of an attempt were beyond the quota; ``end`` is None while they are."""

    start: float
    end: float | None
    gpus: int


class TimelineEntry(Answer, frozen=True, kw_only=True):
    """An event in the life of a job, in sentences, with its author; ``at`` is in seconds since the epoch."""

    at: float
    text: str


class Attempt(Answer, frozen=True, kw_only=True):
    """One run of a job. ``why`` says why it was started, ``ended_why`` why it stopped.

    ``gpus`` marks GPUs over quota as borrowed: of a live attempt those now, of an ended one those at its start.
    ``borrowed`` says when how many were, as the ledger has it.
    """

    number: int
    state: str
    """``starting``, ``running``, ``pausing`` or how it ended: ``paused``, ``succeeded``, ``failed``,
    ``cancelled``, ``lost``, ``blocked``."""
    shown: str = ""
    """The state in words: that, or ``cancelling`` or ``ending`` as of its job."""
    workers: int
    gpus: list[GpuRef]
    created: float
    borrowed: list[BorrowedSpan] = []
    gpu_type: str = ""
    """The type of its GPUs; empty if the pool has one type."""
    started: float | None = None
    asked: float | None = None
    """When it was asked to pause, or to end for good."""
    ended: float | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    saved: float | None = None
    resumed_from: float | None = None
    """The step the attempt continued from, if the job reported one."""
    had_checkpoint: bool = False
    """Whether a checkpoint of the job was known when the attempt began; its program may not load it."""
    from_start: bool = False
    """Whether it began again from the beginning: the job had run before, and no checkpoint of it was known."""
    why: Reason | None = None
    ended_why: Reason | None = None


class Starts(Answer, frozen=True, kw_only=True):
    """When a waiting job is expected to start, worked out at ``at`` by running the policy forward.

    ``earliest`` is if run times turn out short, ``latest`` if they turn out long. None means that it is
    unknown, and ``why`` says why.
    """

    earliest: float | None
    likely: float | None
    latest: float | None
    why: Reason | None
    at: float


class Hold(Answer, frozen=True, kw_only=True):
    """The stop of a job by an administrator: who put it on hold, why, and when.

    ``project`` is the frozen project that it comes from, empty for a hold of the job itself; ``until`` is when the
    freeze ends by itself.
    """

    by: str
    reason: str
    at: float
    project: str = ""
    until: float | None = None


class HoldRequest(Request, frozen=True, kw_only=True):
    """Put a job on hold; one that runs is paused, or may ``finish``. Everyone who sees the job sees the reason."""

    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)]
    finish: bool = False


class ReleaseRequest(Request, frozen=True, kw_only=True):
    """Release a job that is on hold; ``user`` is the member of its project who owns it from now on."""

    user: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class Alternative(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A change with which alone a waiting job runs in the next plan to rest, checked by planning with it.

    Jobs that end or are withdrawn, by id; new quotas and limits of projects by name; or new nodes like the largest
    of an accepted type. ``text`` says it in words.
    """

    remove_jobs: list[str] = []
    quota: dict[str, Quantity | None] = {}
    limit: dict[str, Quantity | None] = {}
    add_nodes: int = 0
    text: str = ""


class FoundCheckpoint(Answer, frozen=True, kw_only=True):
    """A checkpoint that was recognised among a job's files.

    ``path`` is relative to the working directory, or from the root; ``by`` is the framework that writes such ones.
    ``passed`` says that the arguments of the option ``resume`` name it.
    """

    path: str
    size: int
    by: str
    passed: bool = False


class OptionValue(Answer, frozen=True, kw_only=True):
    """An option of a job as people read it."""

    name: str
    label: str
    text: str


NAMED: Final = "named"
"""The part of a job's event that is for readers who may see the jobs of all its projects; it is never sent."""


class Named(NamedTuple):
    """A job's fields that name jobs of other ``projects``, for readers who may see all of these."""

    projects: frozenset[str]
    fields: Mapping[str, Any]


class Job(Answer, frozen=True, kw_only=True, dict=True):
    """A job with all that a card shows.

    ``held`` lists the GPUs its live attempt holds, the last of them marked as borrowed
    as far as its project is over quota. ``reason`` says why it waits, what it does now or how it ended. ``place``
    counts the jobs in line before it, plus one. ``starts`` is when it is expected to start, of one
    that waits and was looked at. ``attempts`` are oldest first; lists and events have the latest five only, and no
    ``source``. A sweep is a job without attempts: its ``trials`` have them, each a job of its own.
    """

    id: str
    name: str
    kind: str
    user: str
    project: str
    state: str
    submitted: float
    argv: list[str]
    shown: str = ""
    """The state in words: that, or of one that is ``pausing`` for good ``cancelling`` or, at its time limit,
    ``ending``; of a sweep that ``succeeded`` also how many trials failed."""
    options: JobOptions = JobOptions()
    """Its options as they hold now, ``min_workers`` and ``preemptible`` included; variables are left out."""
    arguments: dict[str, Argument] = {}
    """The arguments of its function, command or notebook by name, those of a trial among them."""
    note: str = ""
    """A note that people keep about it."""
    pinned: bool = False
    """Whether lists show it first."""
    archived: bool = False
    """Whether lists leave it out."""
    chosen: list[OptionValue] = []
    """Its options that are not at their defaults; empty in lists and events."""
    gpu_type: str = ""
    """The type of its GPUs; empty while it holds none, and if the pool has one type."""
    source: str = ""
    started: float | None = None
    """When its first attempt started."""
    ended: float | None = None
    held_by_user: bool = False
    """Whether its user paused it, so that it runs again when it is resumed; not once it is ending or has ended."""
    hold: Hold | None = None
    """The author and reason of its hold: it does not start before they release it."""
    held: list[GpuRef] = []
    attempt: int = 0
    attempts: list[Attempt] = []
    timeline: list[TimelineEntry] = []
    """All that happened to it, oldest first, in answers about one job; empty in lists and events."""
    from_start: bool = False
    """Whether its present attempt, or the next one if it waits, is again from the beginning: it has run before,
    and no checkpoint of it was known then."""
    grace: float = 0.0
    """The time that it has to end after a request to pause or cancel it, in seconds."""
    progress: Progress = Progress()
    usage: JobUsage | None = None
    """The use of its GPUs; None while it does not run, or before the first measurement."""
    saved: float | None = None
    """When it last wrote a checkpoint."""
    saved_step: float | None = None
    checkpoint: FoundCheckpoint | None = None
    """That checkpoint, if it was recognised among the job's files; None if the job reports its checkpoints."""
    checkpoints_deleted: bool = False
    """Whether it had checkpoints, and all of them were deleted."""
    ended_cleanly: bool = False
    """Whether its last attempt ended with 0 when it was asked to pause: the job may be complete."""
    reason: Reason | None = None
    place: int | None = None
    starts: Starts | None = None
    starts_if: list[Alternative] | None = None
    """What lets it start, of one that waits and was looked at: at most three, the smallest first; None if that is
    not known for the pool as it is."""
    impossible: bool = False
    """Whether the pool as it is can never run it, of one of which ``starts_if`` is known."""
    usual_runtime: float | None = None
    """The median run time of the latest similar jobs in seconds; None if none has ended, or it has."""
    failures: int = 0
    gpu_seconds: float = 0.0
    exit_code: int | None = None
    error: str = ""
    """The error of a failed job, in words."""
    sweep: str | None = None
    """The id of the sweep whose trial it is."""
    trial: int | None = None
    """Its number among the trials of its sweep, from 0."""
    trials: TrialCounts | None = None
    """The trials of a sweep; None of any other job."""
    outcome: Outcome | None = None
    """The outcome of a trial; None for any other job."""
    rerun: RerunOf | None = None
    """The run that the job repeats; None if it repeats none."""
    test_run: TestRun | None = None
    """Its test run; None for a job without one."""
    tests: str | None = None
    """The id of the job whose test run it is; None for any other job."""
    submitted_by: str | None = None
    """The id of the job, or of the sweep of the trial, whose program submitted it; None if a person did."""
    environment: JobEnvironment | None = None
    """Its environment, in answers about one job; None in lists and events, and if nothing was kept."""

    def with_names(self, named: Named) -> Job:
        """Return the job with its fields that name jobs of other projects; they are kept apart, and never sent."""
        force_setattr(self, "_named", named)
        return self

    def in_full(self) -> Job:
        """Return the job with the names of jobs of other projects."""
        return self if self.named is None else replace(self, **self.named.fields)

    @property
    def named(self) -> Named | None:
        """Its fields that name jobs of other projects; None if it names none."""
        found: Named | None = self.__dict__.get("_named")
        return found


class JobPage(Answer, frozen=True, kw_only=True):
    """A page of jobs, newest first. ``next`` is the cursor of the next page, None on the last.

    ``looked_at`` is the number of newest jobs that a condition or an order by values was applied to, if there are
    others that were left out. ``note`` says in sentences which metrics and arguments in these no job has, and
    which ones there are; empty if there is nothing to say.
    """

    items: list[Job]
    next: str | None = None
    looked_at: int | None = None
    note: str = ""


Mark = Literal["archive", "unarchive", "pin", "unpin", "tag", "delete"]
"""Actions that are for ended jobs as well."""


class JobsAction(Request, frozen=True, kw_only=True):
    """An action on several jobs, named by their ids; with ``children`` also on those that they have submitted.

    ``tags`` is the change that the action ``tag`` makes, ``edit`` that of ``edit``, and ``hold`` what ``hold``
    needs. With ``dry_run`` the action ``delete`` deletes nothing.
    """

    action: Literal["pause", "resume", "cancel", "end", "finish", "hold", "release", "edit"] | Mark
    dry_run: bool = False
    tags: TagsEdit = TagsEdit()
    edit: JobEdit = JobEdit()
    hold: HoldRequest | None = None
    jobs: Annotated[list[Word], Meta(min_length=1, max_length=MAX_JOBS_PAGE)]
    children: bool = False


class JobActed(Answer, frozen=True, kw_only=True):
    """The result for one of several jobs: the job as it is now, its deletion, or why nothing was done."""

    id: str
    job: Job | None = None
    deletion: Deletion | None = None
    problem: Problem | None = None


class JobsActed(Answer, frozen=True, kw_only=True):
    """The results for several jobs, in the order of the request."""

    results: list[JobActed]


LONGEST_LOG_PIECE: Final = 1 << 20
"""Maximum size of a piece of a log, in bytes."""


class LogChunk(Answer, frozen=True, kw_only=True):
    """A piece of a worker's log.

    ``offset`` is where it starts and ``next`` where to read on, in bytes since the first attempt's start; a log
    that was cut by its cap starts later than 0. A piece ends with its attempt at the latest; more is there if
    ``next`` is below ``size``, the bytes written so far. ``ended`` says that no more will come.
    """

    text: str
    offset: int
    next: int
    size: int = 0
    ended: bool
    attempt: int


RESULT_FILE: Final = "result.json"
"""The file of a job's output directory that has its result as JSON."""


class OutputFile(Answer, frozen=True, kw_only=True):
    """A file that the job left: its path in the output directory, its size in bytes, when it was written."""

    name: str
    size: int
    written: float


class OutputOpener(Answer, frozen=True, kw_only=True):
    """A folder among the outputs that a tool shows; ``command`` opens it where the outputs were downloaded to."""

    tool: str
    folder: str
    command: str


class OutputList(Answer, frozen=True, kw_only=True):
    """The output files of the job; ``more`` says that there are others.

    Names that begin with ``work/`` are of files in the job's own working directory.
    """

    items: list[OutputFile]
    more: bool
    openers: list[OutputOpener] = []


class Point(Answer, frozen=True, kw_only=True):
    """One report of a job; ``of_checkpoint``: it says that one was saved, or found no room.

    ``left_out`` is the number of reports before it that came too fast to be kept.
    """

    seq: int
    attempt: int
    at: float
    step: float | None = None
    values: dict[str, Value] = {}
    of_checkpoint: bool = False
    left_out: int = 0

    @property
    def has_numbers(self) -> bool:
        """Whether it reports a step or values; a message, and the note of a checkpoint, do not."""
        return not self.of_checkpoint and (self.step is not None or bool(self.values))


class Points(Answer, frozen=True, kw_only=True):
    """Reports in order; ask again with ``after`` = ``next``."""

    items: list[Point]
    next: int
