"""The interface of executors, which run attempts: one for a single machine, one for a cluster.

An executor carries out requests and reports observations; it decides nothing. It guarantees:

1. A request names an attempt by `AttemptKey` and can be repeated: what exists already is adopted.
2. At most one set of processes ever runs for a key, whichever requests are repeated or interrupted.
3. An attempt is reported as gone only when every process it started is proven to have ended.
4. Attempts outlive the service. After a restart `attempts()` returns all that something is left of beside their
   records, and `recall` the others, ended ones included, until `discard` is called for them.
5. Statuses of one attempt are reported in the order in which they came about; one may be reported repeatedly.
6. A request with an older epoch than the executor has seen is refused with `StaleEpochError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import BinaryIO, Final, TypeAlias

import msgspec

from springtide.scheduler.datasets import Dataset
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.executors.session import Session, SessionSpec
from springtide.scheduler.executors.supervisor.search import DAMAGED, GONE
from springtide.scheduler.metrics import Extremes, Values
from springtide.scheduler.model import Block, Checkpoint, HomeAccess, Node, Placement
from springtide.scheduler.own_outputs import OwnOutputs
from springtide.scheduler.population import MemberRef
from springtide.scheduler.telemetry.sample import GpuSample
from springtide.scheduler.wire.submission import JobOptions
from springtide.scheduler.wire.trees import ProjectTree
from springtide.scheduler.wording import given, listed

HISTORY = "trials.json"
"""Name of the file with the earlier trials of a sweep, in the directory of a job's files."""


class ExecutorError(Exception):
    """The executor could not carry out a request; the message is shown to the job's user."""


class ProgramError(ExecutorError):
    """The program of a session cannot be run. ``exit_code`` is that of shells: 127 if it is missing, else 126."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class BlockedError(ExecutorError):
    """An attempt cannot start now, for a reason outside of the job.

    ``block`` is that reason, None if it concerns this attempt alone.
    """

    def __init__(self, message: str, block: Block | None = None) -> None:
        super().__init__(message)
        self.block = block


class StaleEpochError(ExecutorError):
    """The request came from a former owner of the store."""


class AttemptKey(msgspec.Struct, frozen=True, order=True):
    """Identifies an attempt, and everything that is created for it."""

    job: str
    attempt: int


class FoundProgram(msgspec.Struct, frozen=True):
    """The program of a job as it was found at the submission, for executors of the same place.

    That is the same machine, or pods of ``image``, that of the notebook, with the user's home. ``path`` is its
    absolute path and ``python`` the interpreter that it runs in, both empty if they are not known; ``variables``
    are those of the activated environment.
    """

    path: str = ""
    python: str = ""
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    image: str = ""


class AttemptSpec(msgspec.Struct, frozen=True):
    """The program of an attempt, and its placement.

    ``argv`` and the values of ``options.env`` may contain ``{code}``, the placeholder of the directory of
    ``files``; these are the same in every attempt of a job. ``workers`` are those of the attempt. ``grace`` is the
    time between a pause and the kill, in seconds. ``sweep`` and ``trial`` are a trial's sweep id and its number
    there; ``history`` is the content of the file `HISTORY` among ``files``, which differs between attempts, and
    ``member`` says whose trial it is in a population.
    ``datasets`` and ``secrets`` are the declared ones that ``options`` names. ``found`` is its program where it
    was submitted. ``tree`` is the project tree that ``{project_tree}`` means, ``packed`` its files. ``test_run``:
    the attempt only shows whether the program runs. ``resume`` are the words added to ``argv`` because the job
    resumes; ``since`` is when its first attempt started, None in that one: older files are not the job's.
    ``outer_projects`` are the projects that its project is in, the nearest first. ``continues``: it was given a
    checkpoint of `springtide.training` that another job has saved.
    """

    key: AttemptKey
    epoch: int
    name: str
    project: str
    user: str
    argv: tuple[str, ...]
    placement: Placement
    workers: int
    grace: float
    options: JobOptions = JobOptions()
    cwd: str | None = None
    files: Mapping[str, bytes] = msgspec.field(default_factory=dict)
    sweep: str | None = None
    trial: int | None = None
    history: bytes | None = None
    member: MemberRef | None = None
    tree: ProjectTree | None = None
    packed: bytes = b""
    test_run: bool = False
    datasets: tuple[Dataset, ...] = ()
    resume: tuple[str, ...] = ()
    since: float | None = None
    found: FoundProgram = FoundProgram()
    outer_projects: tuple[str, ...] = ()
    secrets: tuple[NamedSecret, ...] = ()
    continues: bool = False

    @property
    def copies_tree(self) -> bool:
        """Whether the job runs in a copy of its project."""
        return self.tree is not None and self.tree.digest is not None and not self.options.in_place


class AttemptPhase(StrEnum):
    """The phase of an attempt."""

    STARTING = "starting"
    RUNNING = "running"
    GONE = "gone"


class ExitKind(StrEnum):
    """The kind of an attempt's end."""

    EXITED = "exited"
    """All workers ended; ``code`` or ``signal`` is that of the first one without exit code 0, and ``detail`` the
    error with which it ended, by its log."""
    REFUSED = "refused"
    """The attempt never started, for a reason in the job, such as a missing program that ``detail`` names."""
    BLOCKED = "blocked"
    """The attempt never started, for a reason outside of the job: an admission policy, a quota, a registry, a full
    disk. ``detail`` has the words of cluster or machine. The same job may start later."""
    OVER_DISK = "over-disk"
    """It was ended because the job exceeds its disk limit; ``detail`` has the reason."""
    EVICTED = "evicted"
    """Something other than the pool asked it to stop, such as a cluster that drains its node or needs the place
    for another pod; ``detail`` says what. ``code`` and ``signal`` are known if it could end by itself."""
    LOST = "lost"
    """Its node or supervisor vanished."""


NEVER_STARTED = frozenset({ExitKind.REFUSED, ExitKind.BLOCKED})
"""The kinds of ends without any process of the job."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of an attempt, ``at`` in seconds since the epoch.

    ``paused``: a pause was requested before the end; ``killed``: the attempt did not stop within its grace period;
    ``complete``: the job reported its work as complete; ``returned``: whether its function has returned,
    None if it called none. ``ran`` is the run time of its processes in seconds, by a
    monotonic clock, None if unknown. ``block`` is the obstacle to the start, None if it concerns this attempt
    alone.
    """

    kind: ExitKind
    at: float
    code: int | None = None
    signal: int | None = None
    paused: bool = False
    killed: bool = False
    detail: str = ""
    ran: float | None = None
    complete: bool = False
    returned: bool | None = None
    block: Block | None = None


def exit_of(error: ExecutorError, at: float) -> Exit:
    """Return the end of an attempt whose start failed with ``error``."""
    if isinstance(error, BlockedError):
        return Exit(ExitKind.BLOCKED, at, detail=str(error), block=error.block)
    return Exit(ExitKind.REFUSED, at, detail=str(error))


class AttemptStatus(msgspec.Struct, frozen=True):
    """The state of an attempt.

    ``started`` is when its processes started, in seconds since the epoch; ``placement`` is complete as far as the
    executor knows it. The engine needs the placement only of attempts that are not in the store. ``home`` is how
    they have the home of its user.
    """

    key: AttemptKey
    phase: AttemptPhase
    started: float | None = None
    exit: Exit | None = None
    placement: Placement = ()
    home: HomeAccess = HomeAccess.USUAL


@dataclass(frozen=True, slots=True)
class TrialReport:
    """The report of a trial of a sweep: its parameters, the value of the sweep's metric, its curve.

    ``curve`` has pairs of step and value; ``pruned``: it ends itself early because others were better. ``memo`` is
    text for later trials of the sweep.
    """

    parameters: Mapping[str, str | int | float | bool | None] | None = None
    value: float | None = None
    curve: tuple[tuple[float, float], ...] = ()
    pruned: bool = False
    memo: str = ""


class Milestone(StrEnum):
    """Reports of a job beside its progress."""

    CHECKPOINT_GONE = GONE
    """The checkpoint that was recognised last is no longer there."""
    CHECKPOINTS_DAMAGED = DAMAGED
    """No checkpoint that `springtide.training` saved is whole any more."""
    PAUSE_SEEN = "pause-seen"
    """The program has noticed the request to pause."""
    CALLED = "called"
    """The function is called, by the first process."""
    RETURNED = "returned"
    """The function or notebook has returned."""
    DONE = "done"
    """The program declares the work of the job complete."""


@dataclass(frozen=True, slots=True)
class Report:
    """One line that a job reported through `springtide.training`; ``saved`` marks a checkpoint.

    ``found`` is the newest checkpoint that was recognised among its files. ``numbered``: the line names its
    attempt, or it is known where that begins. ``lost_result`` is the reason why the job's result could not be
    kept. ``left_out`` is the number of reports since the one before that came too fast to be written.
    ``waits_for_room`` is for how many seconds at most the result waits for room on the disk, 0 if it does no
    longer, None in other reports.
    """

    seq: int
    at: float
    attempt: int
    step: float | None = None
    of: float | None = None
    values: Values = field(default_factory=dict)
    saved: bool = False
    unsaved: bool = False
    trial: TrialReport | None = None
    milestone: Milestone | None = None
    lost_result: str = ""
    found: Checkpoint | None = None
    numbered: bool = True
    left_out: int = 0
    waits_for_room: float | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """The newest report of an attempt; sent at most a few times a second per job.

    ``saved_at`` and ``saved_step`` are of its newest checkpoint, None before the first. ``unsaved_at`` is when a
    later one did not fit on the disk, None if none failed since. ``trial`` is its latest report as a trial of a
    sweep, ``lost_result`` the reason why its result could not be kept. ``found`` is the newest checkpoint that was
    recognised among its files, None if there is none now. ``damaged``: all checkpoints that it reported have been
    found damaged since. ``room_until`` is until when its result waits for room, None if it does not. ``extremes``
    are those of the reports since then, ``not_finite`` the steps since which metrics are not finite in this
    attempt.
    """

    key: AttemptKey
    last: Report
    saved_at: float | None = None
    saved_step: float | None = None
    unsaved_at: float | None = None
    trial: TrialReport | None = None
    lost_result: str = ""
    found: Checkpoint | None = None
    extremes: Mapping[str, Extremes] = field(default_factory=dict)
    not_finite: Mapping[str, float | None] = field(default_factory=dict)
    damaged: bool = False
    room_until: float | None = None


@dataclass(frozen=True, slots=True)
class LogGrew:
    """The log of a worker has grown to ``size`` bytes over all attempts; sent as rarely as `Reported`."""

    job: str
    rank: int
    size: int


@dataclass(frozen=True, slots=True)
class InventoryChanged:
    """Nodes or GPUs were added, removed or taken by processes outside the pool: read `Executor.inventory`."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Train nodes of one kind, of which the cluster adds more on request.

    ``node`` is an example of them, under a name that no node has. There are at most ``most``; ``closed`` is the
    number of nodes taken out of use outside of the pool: these count, and take no jobs.
    """

    name: str
    node: Node
    most: int
    closed: int = 0


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """The requested nodes of one group: the time of each request, in seconds since the epoch.

    ``error`` is the reason why no more can be requested from the cluster, empty if they can.
    """

    since: tuple[float, ...] = ()
    error: str = ""


WorkspacePlaces: TypeAlias = Mapping[tuple[str, str], tuple[str, tuple[int, ...]]]
"""Node and GPUs of each workspace, by user and server."""
NO_WORKSPACES: Final[WorkspacePlaces] = MappingProxyType({})
Observation: TypeAlias = AttemptStatus | Reported | LogGrew | InventoryChanged


@dataclass(frozen=True, slots=True)
class RunningNotebook:
    """A notebook server that runs, or has left processes behind, known to the hub or not.

    ``uuids`` are its GPUs, as far as the executor knows them; ``place`` describes its machine in words.
    """

    user: str
    server: str
    uuids: tuple[str, ...] = ()
    gpu_type: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file of a job's output directory: its path below that, its size in bytes, when it was written."""

    name: str
    size: int
    written: float


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A checkpoint that a job has saved.

    ``name`` identifies it among those of the job. ``own``: `springtide.training` wrote it; else ``by`` is the
    framework whose checkpoints look like it. ``step`` is None if it is not known, ``size`` is in bytes,
    ``written`` in seconds since the epoch; ``values`` are the numbers that the job had reported last.
    """

    name: str
    own: bool
    step: float | None
    size: int
    written: float
    by: str = ""
    values: Values = field(default_factory=dict)


class CheckpointGoneError(ExecutorError):
    """A checkpoint of that name is not there, or not any more."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a job's log.

    Offsets count over all attempts; ``offset`` is later than requested if old bytes were deleted. ``size`` is the
    present end of the log.
    """

    data: bytes
    offset: int
    size: int
    attempt: int


class Executor(ABC):
    """Runs attempts. Its methods are called from one event loop, and call the ``listener`` in that loop."""

    name: str

    @abstractmethod
    async def start(self, listener: Callable[[Observation], None]) -> None:
        """Start observing. Raises `ExecutorError` if the executor cannot work here."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop observing; attempts keep running."""

    @abstractmethod
    async def inventory(self, workspaces: WorkspacePlaces = NO_WORKSPACES) -> tuple[Node, ...]:
        """Return the present state of all nodes, build and train.

        From ``workspaces``, executors that do not choose GPUs by themselves learn which of them notebooks have.
        """

    async def node_groups(self) -> tuple[NodeGroup, ...]:
        """Return the groups from which nodes can be requested; empty if the number of nodes is fixed."""
        return ()

    async def request_nodes(self, numbers: Mapping[str, int] | None) -> Mapping[str, NodeRequest]:  # noqa: ARG002
        """Request these numbers of further nodes by group, and none of other groups; return all requests.

        Earlier requests count, also those before a restart. None changes nothing.
        """
        return {}

    concurrent_launches = 16
    """Maximum number of launches that are useful at a time: more would only make each of them slower."""

    measures_gpus = False
    """Whether `gpu_samples` returns anything."""

    async def gpu_samples(self, workspaces: WorkspacePlaces) -> Sequence[GpuSample]:  # noqa: ARG002 - some need it
        """Return the present readings of the GPUs; nothing from an executor that does not measure them.

        From ``workspaces``, executors that do not choose GPUs by themselves learn the owners of notebooks' GPUs.
        """
        return ()

    async def notebooks(self) -> Sequence[RunningNotebook]:
        """Return the running notebook servers. Their GPUs are not free, even if the hub does not know them.

        Raises `ExecutorError` while they are unknown.
        """
        return ()

    async def end_notebook(self, user: str, server: str) -> None:
        """End a notebook server that the hub does not know. Raises `ExecutorError` if that is not possible."""
        raise ExecutorError(f"The notebook server {given(server)} of {user} can be ended only where it runs.")

    async def follow_users(self, names: Mapping[str, str]) -> None:  # noqa: B027 - some have nothing to do
        """Keep accounts and homes with their users; ``names`` are those of users by identity."""

    @abstractmethod
    async def newest_epoch(self) -> int:
        """Return the newest epoch that a request came with, also before a restart; 0 if there was none."""

    @abstractmethod
    async def take_over(self, epoch: int) -> None:
        """Refuse requests of older epochs from now on, also after a restart, if the epoch can be recorded."""

    @abstractmethod
    async def attempts(self) -> tuple[AttemptStatus, ...]:
        """Return every attempt that is not discarded."""

    @abstractmethod
    async def launch(self, spec: AttemptSpec) -> None:
        """Start an attempt. One that cannot start, such as for lack of its program, is reported as an exit."""

    checks_starts = False
    """Whether `check` ever gives an answer."""

    async def check(self, spec: AttemptSpec) -> Exit | None:  # noqa: ARG002 - some need it
        """Return the end of the attempt if it could not start here now, None if it could; nothing is started.

        Raises `ExecutorError` if that cannot be checked.
        """
        raise ExecutorError("Only a start shows whether an attempt can start here.")

    @abstractmethod
    async def pause(self, key: AttemptKey) -> None:
        """Ask an attempt to save and stop; kill what still runs after its grace period.

        Raises `ExecutorError` if no launch of the attempt has worked.
        """

    @abstractmethod
    async def kill(self, key: AttemptKey, *, now: bool = False) -> None:
        """Ask an attempt to end for good; kill what still runs after its grace period.

        A pause before has begun that period. ``now`` leaves no time to save: an attempt asked before is killed at
        once, and other attempts within a few seconds.

        Raises `ExecutorError` if no launch of the attempt has worked.
        """

    @abstractmethod
    async def discard(self, key: AttemptKey) -> None:
        """Forget an attempt whose end is recorded in the store; its logs and outputs stay."""

    @abstractmethod
    async def recall(self, key: AttemptKey) -> AttemptStatus | None:
        """Return the status of an attempt; a discarded one is among `attempts` again.

        For a store restored from a copy without the attempt's end, and for attempts whose files were removed. None
        if nothing of the attempt is recorded, and none of its processes runs.
        """

    async def living(self, key: AttemptKey) -> str:
        """Return the live parts of an attempt, as a noun; empty if there are none."""
        phases = {status.key: status.phase for status in await self.attempts()}
        alive = phases.get(key, AttemptPhase.GONE) is not AttemptPhase.GONE
        return "an attempt that the executor follows" if alive else ""

    @abstractmethod
    async def remove(self, job: str) -> None:
        """Delete all files of an ended or refused job: logs, checkpoints, outputs.

        Raises `ExecutorError`, also if not all of them could be deleted.
        """

    async def size(self, job: str) -> int:  # noqa: ARG002 - some need it
        """Return the size of the files of a job, in bytes; of very many files only that of the first ones."""
        return 0

    async def unrecorded(self) -> Sequence[str]:
        """Return the jobs that were given a checkpoint, and neither removed nor noted as `recorded`."""
        return ()

    async def recorded(self, job: str) -> None:  # noqa: B027 - some have nothing to note
        """Note that the store has the record of a job whose checkpoint was copied before."""

    takes_sessions = False
    """Whether `open_session` ever opens one."""

    async def open_session(self, key: AttemptKey, spec: SessionSpec) -> Session:  # noqa: ARG002 - some need it
        """Start a program inside a running attempt; it never outlives the attempt.

        Raises `ExecutorError` if the attempt does not run, or the program cannot be started.
        """
        raise ExecutorError("Programs cannot be run inside jobs of this pool.")

    @abstractmethod
    async def read_log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        """Return up to ``limit`` bytes from ``offset``; a negative offset counts from the end."""

    @abstractmethod
    async def read_reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        """Return up to ``limit`` reports of all attempts with ``seq`` > ``after``, oldest first."""

    @abstractmethod
    async def list_outputs(self, job: str, most: int, own: OwnOutputs | None = None) -> tuple[OutputFile, ...]:
        """Return the plain files of the job's output directory, at most ``most``, then its ``own`` outputs.

        Raises `ExecutorError`.
        """

    @abstractmethod
    async def open_output(self, job: str, name: str, limit: int, own: OwnOutputs | None = None) -> BinaryIO | None:
        """Open the file ``name`` of the job's output directory, or its ``own``, for reading; None if it is none.

        Raises `ExecutorError` if it is larger than ``limit`` bytes or not a plain file inside that directory.
        """

    async def list_checkpoints(
        self,
        spec: AttemptSpec,
        also: str = "",  # noqa: ARG002 - some need it
    ) -> tuple[SavedCheckpoint, ...]:
        """Return the checkpoints of a started job, the newest first.

        ``spec`` is any attempt of it; ``also`` is the path of a recognised checkpoint that is the job's although
        it is older. Raises `ExecutorError` if its files cannot be read.
        """
        raise ExecutorError(f"The checkpoints of {spec.key.job} cannot be listed here.")

    async def delete_checkpoints(
        self,
        spec: AttemptSpec,
        names: Collection[str],
        also: str = "",  # noqa: ARG002 - some need it
    ) -> None:
        """Delete checkpoints of a job. Raises `ExecutorError`, `CheckpointGoneError` for one that is not there."""
        raise ExecutorError(f"The checkpoints {listed(sorted(names))} of {spec.key.job} cannot be deleted here.")

    async def copy_checkpoint(
        self,
        spec: AttemptSpec,
        name: str,
        fork: AttemptSpec,
        also: str = "",  # noqa: ARG002 - some need it
    ) -> Checkpoint | None:
        """Copy a checkpoint of a job to another job of the same user, which the store does not have yet.

        That one is among `unrecorded` from before its directory is made. Returns the checkpoint as one that is
        recognised there, None if `springtide.training` restores it by itself. Raises `ExecutorError`,
        `CheckpointGoneError` if it is not there.
        """
        raise ExecutorError(f"The checkpoint {given(name)} of {spec.key.job} cannot be copied to {fork.key.job}.")
