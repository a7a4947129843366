"""Jobs and their attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from springtide.scheduler.arguments import Argument, of_values, without_secrets_in_text
from springtide.scheduler.metrics import Extremes, Values
from springtide.scheduler.model import STOPPING, Block, Checkpoint, HomeAccess, JobState, Placement, Reason, Spread
from springtide.scheduler.runs import Run
from springtide.scheduler.store.ledger import Borrowed
from springtide.scheduler.store.records.sweeps import Outcome, SweepStanding, TrialRef, TrialsSpec
from springtide.scheduler.wire.submission import JobOptions
from springtide.scheduler.wire.trees import ProjectTree
from springtide.scheduler.workload import Line, Rules, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecord:
    """The environment where a job was submitted, the packages of what its code imports, and its first files.

    ``program`` is the absolute path of its program, ``name`` the name of its Python's environment, ``image`` the
    image of the notebook on a cluster, and ``variables`` are those that activate the environment.
    ``packages`` are versions by name, ``imports`` the modules that the code cannot do without, ``missing`` those
    of them that are not there where the job runs.
    """

    program: str = ""
    python: str = ""
    path: str = ""
    name: str = ""
    image: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    file_count: int = 0
    file_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OptionDifference:
    """A job's option that differs from the run it repeats, as a person reads it."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ForkRef:
    """The checkpoint that a fork continued from: its name in the first job, its step, when it was written.

    ``own``: `springtide.training` wrote it; else the program finds it by itself, or by the option ``resume``.
    """

    checkpoint: str
    step: float | None
    written: float
    own: bool = True


@dataclass(frozen=True, slots=True)
class RerunRef:
    """Which job is run again, the name that it had, and what differs. It stays when that job is deleted.

    ``fork`` is the checkpoint of that job from which this one continues; None if it begins from the start.
    """

    job: str
    name: str
    changes: tuple[OptionDifference, ...] = ()
    fork: ForkRef | None = None


class TestStage(StrEnum):
    """The stage of a test run."""

    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def over(self) -> bool:
        """Whether the test run has ended."""
        return self not in {TestStage.WAITING, TestStage.RUNNING}


@dataclass(frozen=True, slots=True)
class TestRun:
    """The test run of a job: a job of its own, its stage, and how long it ran, in seconds."""

    job: str
    stage: TestStage = TestStage.WAITING
    ran: float = 0.0


class Asked(StrEnum):
    """A request to a live attempt."""

    PAUSE = "pause"
    KILL = "kill"
    """To end for good, within the grace period."""
    KILL_NOW = "now"
    """To end for good, without time to save."""


class AttemptState(StrEnum):
    """States of an attempt; all but the first three are final."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    BLOCKED = "blocked"

    @property
    def live(self) -> bool:
        """Whether the attempt holds its GPUs."""
        return self in LIVE_ATTEMPT


LIVE_ATTEMPT = frozenset({AttemptState.STARTING, AttemptState.RUNNING, AttemptState.PAUSING})


class Marks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people keep about a job beside its tags: a note, and whether it is pinned or archived in lists."""

    note: str = ""
    pinned: bool = False
    archived: bool = False


class JobSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A job's submission; only its tags, its marks and its key change.

    ``seq`` is the sequence number of the job, ``bundle`` the digest of its files, which have ``bundle_bytes``. An
    ``image`` and a ``time_limit`` among the options are those that the pool chose if the submission named none.
    """

    id: str
    seq: int
    user: str
    project: str
    submitted: float
    name: str
    kind: str
    argv: tuple[str, ...]
    options: JobOptions = JobOptions()
    cwd: str | None = None
    bundle: str | None = None
    bundle_bytes: int = 0
    tree: ProjectTree | None = None
    """The project of which the job has a copy; None if it runs without one."""
    tree_bytes: int = 0
    """Size of the packed tree, in bytes."""
    source: str = ""
    arguments: Mapping[str, Argument] = {}
    """The arguments of its function, command or notebook by name."""
    key: str | None = None
    fastest: Spread | None = None
    """Fastest known placement of similar jobs, at submission."""
    trials: TrialsSpec | None = None
    """The trials of a sweep; None for any other job."""
    trial: TrialRef | None = None
    """The sweep of a trial, and its number there; None for any other job."""
    rerun: RerunRef | None = None
    """The run that the job repeats; None if it repeats none."""
    environment: EnvironmentRecord | None = None
    """The job's environment; None for a trial, which uses its sweep's environment."""
    tests: str | None = None
    """The id of the job tested by this test run; None for any other job."""
    marks: Marks = Marks()
    submitters: tuple[str, ...] = ()
    """The jobs whose programs led to it, the first one first; empty if a person submitted it."""

    @property
    def fork(self) -> ForkRef | None:
        """The checkpoint of another job that it began from; None if it began from the start."""
        return None if self.rerun is None else self.rerun.fork

    @property
    def shown_source(self) -> str:
        """The source as people see it: that of a command without the values of secrets."""
        return without_secrets_in_text(self.source) if self.kind == "command" else self.source

    @property
    def stored(self) -> Mapping[str, int]:
        """The sizes of the job's files and of its packed tree in the store, by digest."""
        tree = None if self.tree is None else self.tree.digest
        parts = ((self.bundle, self.bundle_bytes), (tree, self.tree_bytes))
        return {digest: size for digest, size in parts if digest is not None}

    def with_options(self, **changes: Any) -> JobSpec:
        """Return the spec with changed options."""
        return structs.replace(self, options=structs.replace(self.options, **changes))

    @property
    def workload(self) -> Workload:
        """The kind of work."""
        if self.trials is not None:
            return Workload.SWEEP
        if self.trial is not None:
            return Workload.TRIAL
        return Workload.TRAINING if self.tests is None else Workload.TEST_RUN

    @property
    def lineage(self) -> tuple[str, ...]:
        """The submitters of what its program submits: its own and itself; for a trial its sweep."""
        own = self.id if self.trial is None else self.trial.sweep
        return (*self.submitters, self.tests or own)

    @property
    def workers(self) -> int:
        """Number of its worker processes."""
        return self.options.workers

    @property
    def gpus(self) -> int:
        """Number of GPUs of each worker."""
        return self.options.gpus


class CountedSteps(NamedTuple):
    """The steps of an attempt that give its speed: from ``first``, reported at ``since``, to ``step`` at ``at``.

    ``first`` and ``since`` are None before the second report, from which on they are counted.
    """

    step: float
    at: float
    first: float | None = None
    since: float | None = None

    def with_report(self, step: float, at: float) -> CountedSteps:
        """Return the counters updated by a report; a lower step resets them."""
        if step < self.step:
            return CountedSteps(step, at)
        if step == self.step:
            return self
        return CountedSteps(step, at, *((step, at) if self.since is None else (self.first, self.since)))

    def shifted(self, seconds: float) -> CountedSteps:
        """Return the same with its times shifted by a step of the clock."""
        since = None if self.since is None else self.since + seconds
        return self._replace(at=self.at + seconds, since=since)


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a job.

    ``created`` is when its start was decided, ``started`` when its processes started. ``asked`` is what it was
    last asked to do, for the reason ``asked_why``, and ``asked_at`` when it was first asked to stop: its grace
    period counts from then. ``seen`` says that the executor has reported it at
    least once. ``step_before`` is the highest step of the job when it began, ``had_checkpoint`` whether the job
    had a checkpoint then, ``borrowed`` the number of its GPUs that were borrowed then, ``gpu_type`` their type.
    ``borrowing`` are, of an ended one, the spans in which it borrowed, None if none were recorded.
    ``counted`` are the steps that give its speed.
    """

    job: str
    number: int
    placement: Placement
    created: float
    why: Reason
    state: AttemptState = AttemptState.STARTING
    seen: bool = False
    asked: Asked | None = None
    asked_at: float | None = None
    asked_why: Reason | None = None
    started: float | None = None
    ended: float | None = None
    ended_why: Reason | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    detail: str = ""
    saved: float | None = None
    resumed_from: float | None = None
    step_before: float | None = None
    had_checkpoint: bool = False
    borrowed: int = 0
    borrowing: tuple[Borrowed, ...] | None = None
    gpu_type: str = ""
    counted: CountedSteps | None = None

    @property
    def ended_cleanly(self) -> bool:
        """Whether it ended with 0 when it was asked to pause."""
        return self.state is AttemptState.PAUSED and self.exit_code == 0 and self.exit_signal is None

    @property
    def gpus(self) -> int:
        """Number of its GPUs."""
        return sum(len(worker.gpus) for worker in self.placement)


class Withheld(NamedTuple):
    """Why a waiting job is not started: ``block`` keeps others from starting, in the words ``detail``."""

    block: Block
    detail: str


class Hold(NamedTuple):
    """The stop of a job by an administrator, or by the pool: who put it on hold, why, and when.

    ``project`` is the frozen project that it comes from, empty for a hold of the job itself. ``until`` is when the
    freeze ends by itself, None if it does not.
    """

    by: str
    reason: str
    at: float
    project: str = ""
    until: float | None = None


class Edited(NamedTuple):
    """An edit of a job by another person than its owner: who, which options, from which project, and why.

    ``moved`` is empty if the job stayed in its project. ``was`` and ``now`` are the options' values in words.
    """

    by: str
    options: tuple[str, ...]
    moved: str = ""
    reason: str = ""
    at: float = 0.0
    was: tuple[str, ...] = ()
    now: tuple[str, ...] = ()


class Act(NamedTuple):
    """What a person, or the pool in a person's place, did to a job, and when."""

    at: float
    why: Reason


class JobStanding(msgspec.Struct, frozen=True, kw_only=True):
    """The changing part of a job.

    ``held`` says that a user has paused it, ``hold`` that an administrator lets it not start, ``stopping`` why it
    is being ended for good (``cancel`` or ``time-limit``), ``by`` which user asked to pause or to end it.
    ``edited`` are the changes of others than its owner since its last start.
    ``failures`` is the number of attempts that used up a retry, ``fruitless`` that of the last attempts in a row
    that asked to be run again without progress, ``losses`` that of the last ones in a row that were lost,
    ``blocks`` that of the last ones in a row that could not be started, and ``block`` what kept the last of these,
    if it keeps other jobs as well. ``withheld`` says that it is not tried at present. ``ran`` is the run time of
    ended attempts, ``served`` their GPU-seconds.
    ``extremes`` has the smallest and the largest reported value of each metric, ``not_finite`` the steps since
    which metrics are not finite.
    ``best_step`` is the highest step reported, ``saved_step`` that of the newest checkpoint; ``unsaved`` is when a
    later one did not fit on the disk, ``room_until`` until when its result waits for room; ``warned`` says that
    its time limit was near once.
    ``quick`` is the number of the last attempts in a row that ended after a short time although the pool had not
    asked them to. ``checkpoint`` is the one that ``saved`` is about, if it was recognised among the job's files
    and the job did not report it. ``deleted`` is when the newest of its deleted checkpoints was saved: earlier
    reports are about none that is there. ``lost_result`` says why its result could not be kept.
    ``turn`` says that it has the turn, or started in it; ``last_turn`` is when it last did so.
    ``sweep`` is the standing of a sweep, ``outcome`` what a trial has reported of itself, ``sweep_served`` the
    GPU-seconds of the other trials of its sweep when it last waited. ``test_run`` is its test run, if it has one.
    ``usual_runtime`` is the median run time of the latest similar jobs in seconds, None if there was none.
    ``home`` is how its last attempt had the home of its user. ``former`` is whose job it was before it was handed
    over, until it has run as its present owner's. ``acts`` are the latest `KEPT_ACTS` acts of people on it,
    oldest first: those that neither its attempts nor its end have.
    """

    state: JobState = JobState.QUEUED
    attempt: int = 0
    held: bool = False
    hold: Hold | None = None
    edited: Edited | None = None
    stopping: str | None = None
    by: str = ""
    reserved: Placement = ()
    not_before: float = 0.0
    failures: int = 0
    fruitless: int = 0
    losses: int = 0
    blocks: int = 0
    block: Block | None = None
    withheld: Withheld | None = None
    ran: float = 0.0
    served: float = 0.0
    started: float | None = None
    ended: float | None = None
    reason: Reason | None = None
    exit_code: int | None = None
    error: str = ""
    step: float | None = None
    of: float | None = None
    reported: float | None = None
    values: Values = msgspec.field(default_factory=dict)
    not_finite: Mapping[str, float | None] = msgspec.field(default_factory=dict)
    extremes: Mapping[str, Extremes] = msgspec.field(default_factory=dict)
    saved: float | None = None
    saved_step: float | None = None
    checkpoint: Checkpoint | None = None
    deleted: float | None = None
    unsaved: float | None = None
    room_until: float | None = None
    quick: int = 0
    lost_result: str = ""
    warned: bool = False
    best_step: float | None = None
    sweep_served: float = 0.0
    turn: bool = False
    last_turn: float | None = None
    sweep: SweepStanding | None = None
    outcome: Outcome | None = None
    test_run: TestRun | None = None
    usual_runtime: float | None = None
    home: HomeAccess = HomeAccess.USUAL
    former: str = ""
    acts: tuple[Act, ...] = ()

    @property
    def shown(self) -> str:
        """The state that people read, such as ``cancelling`` until the processes of a cancelled job have ended."""
        return self.state.value if self.stopping is None or self.state.final else STOPPING[self.stopping]


class JobRecord(msgspec.Struct, frozen=True):
    """A job with its latest attempts, oldest first."""

    spec: JobSpec
    standing: JobStanding = JobStanding()
    attempts: tuple[AttemptRecord, ...] = ()

    @property
    def id(self) -> str:
        """The job's id."""
        return self.spec.id

    @property
    def state(self) -> JobState:
        """The job's state."""
        return self.standing.state

    @property
    def run(self) -> Run:
        """The job as a row of the table of runs."""
        spec, standing = self.spec, self.standing
        first, fork = spec.rerun, spec.fork
        member = None if spec.trial is None else spec.trial.member
        present = None if standing.sweep is None else standing.sweep.generation
        generation = None if present is None else present.number
        return Run(
            id=spec.id,
            seq=spec.seq,
            name=spec.name,
            user=spec.user,
            project=spec.project,
            state=standing.shown,
            submitted=spec.submitted,
            started=standing.started,
            ended=standing.ended,
            gpus=spec.gpus * spec.workers,
            tags=spec.options.tags,
            note=spec.marks.note,
            preset=spec.options.preset,
            step=standing.step,
            forked_from=() if first is None or fork is None else (first.job, first.name),
            fork_step=None if fork is None else fork.step,
            generation=generation if member is None else member.generation,
            member=None if member is None else member.member,
            arguments=self.arguments,
            values=standing.values,
            extremes=standing.extremes,
        )

    @property
    def checkpoints_deleted(self) -> bool:
        """Whether it had checkpoints, and all of them were deleted."""
        return self.standing.saved is None and self.standing.deleted is not None

    @property
    def arguments(self) -> dict[str, Argument]:
        """Its arguments by name; a trial's parameters are among them."""
        trial, outcome = self.spec.trial, self.standing.outcome
        parameters = (outcome and outcome.parameters) or (trial and trial.parameters) or {}
        return {**self.spec.arguments, **of_values(parameters)}

    @property
    def workload(self) -> Workload:
        """The kind of work."""
        return self.spec.workload

    @property
    def rules(self) -> Rules:
        """The rules of its kind of work."""
        return self.spec.workload.rules

    @property
    def line(self) -> Line:
        """The line that it waits in, and that its attempts come from."""
        if not self.rules.runs or self.awaits_test:
            return Line.NONE
        return Line.GPUS if self.spec.options.gpus else Line.WITHOUT_GPUS

    @property
    def awaits_test(self) -> bool:
        """Whether its test run has not ended."""
        test = self.standing.test_run
        return test is not None and not test.stage.over

    @property
    def awaits_person(self) -> bool:
        """Whether it starts only after a person resumes it: paused by a user, or on hold and not being moved."""
        return self.standing.held or (self.standing.hold is not None and not self.standing.reserved)

    @property
    def is_idle(self) -> bool:
        """Whether it waits and may not be started: it awaits a person, or is withheld from the cluster."""
        return self.awaits_person or self.standing.withheld is not None

    @property
    def sweep(self) -> str | None:
        """The id of the trial's sweep, None for any other job."""
        return None if self.spec.trial is None else self.spec.trial.sweep

    @property
    def ended_cleanly(self) -> bool:
        """Whether it waits because its last run ended with 0 when it was asked to pause."""
        last = self.last_run
        return not self.state.final and last is not None and last.ended_cleanly

    @property
    def last_run(self) -> AttemptRecord | None:
        """The latest attempt that was not kept from starting, None if there is none."""
        return next((each for each in reversed(self.attempts) if each.state is not AttemptState.BLOCKED), None)

    @property
    def live(self) -> AttemptRecord | None:
        """The live attempt, None if there is none."""
        if not self.attempts:
            return None
        last = self.attempts[-1]
        return last if last.state in LIVE_ATTEMPT else None

    def with_standing(self, **changes: Any) -> JobRecord:
        """Return the job with changed fields of its standing."""
        return JobRecord(self.spec, structs.replace(self.standing, **changes), self.attempts)

    def with_act(self, at: float, why: Reason) -> JobRecord:
        """Return the job with one more act, at a time in seconds since the epoch."""
        return self.with_standing(acts=(*self.standing.acts, Act(at, why))[-KEPT_ACTS:])

    def with_attempt(self, attempt: AttemptRecord) -> JobRecord:
        """Return the job with the attempt of the same number replaced, or with one more."""
        before = (each for each in self.attempts if each.number < attempt.number)
        after = (each for each in self.attempts if each.number > attempt.number)
        return JobRecord(self.spec, self.standing, (*before, attempt, *after)[-KEPT_ATTEMPTS:])


KEPT_ACTS = 100
"""Maximum number of acts in the record of a job, the latest ones."""
KEPT_ATTEMPTS = 100
"""Number of latest attempts of a job in memory; older ones are in the store only."""
