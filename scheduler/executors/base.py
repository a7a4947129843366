"""What runs attempts: one interface, written once for one machine and once for a cluster.

An executor carries out and observes; it decides nothing. It guarantees:

1. Acts are named by `AttemptKey`. Repeating one is harmless: what exists already is looked at and adopted.
2. At most one set of processes ever runs for a key, whatever is repeated or killed in between.
3. An attempt is reported as gone only when every process it started is proven gone.
4. Attempts outlive the service. After a restart `attempts()` tells all that are known, ended ones included,
   until `discard` is called for them.
5. An act that carries an older epoch than the executor has seen is refused with `StaleEpochError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from springtide.scheduler.model import Node, Placement


class ExecutorError(Exception):
    """The executor could not do what was asked; the message is fit to show to the job's user."""


class StaleEpochError(ExecutorError):
    """The act came from a former owner of the store."""


@dataclass(frozen=True, slots=True, order=True)
class AttemptKey:
    """Names an attempt, and everything that is made for it."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptSpec:
    """What to run, and where.

    ``argv`` and the values of ``env`` may contain ``{code}``, the directory ``files`` were written to; the same
    files in every attempt of a job. ``grace`` is the seconds between being asked to pause and being killed.
    ``image`` is the container image to run in, None on one machine.
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
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    image: str | None = None


class AttemptPhase(StrEnum):
    """How far the executor has come with an attempt."""

    STARTING = "starting"
    RUNNING = "running"
    GONE = "gone"


class ExitKind(StrEnum):
    """How an attempt ended."""

    EXITED = "exited"
    """All workers ended by themselves or by the pause; ``code`` or ``signal`` is that of the first that did
    not exit 0."""
    REFUSED = "refused"
    """It never started: no such program, directory or account. ``detail`` says which."""
    LOST = "lost"
    """Its node or supervisor vanished."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How an attempt ended. ``paused`` tells that it had been asked to pause before it ended, ``killed`` that
    it did not go by itself within its grace period.
    """

    kind: ExitKind
    at: float
    code: int | None = None
    signal: int | None = None
    paused: bool = False
    killed: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """What the executor knows of an attempt.

    ``started`` is when its processes were started; ``placement`` where it sits, as far as the executor can tell
    (the engine needs it only for attempts that it does not know).
    """

    key: AttemptKey
    phase: AttemptPhase
    started: float | None = None
    exit: Exit | None = None
    placement: Placement = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One line that the job reported through `springtide.training`. ``saved`` marks a checkpoint."""

    seq: int
    at: float
    attempt: int
    step: float | None = None
    of: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    saved: bool = False


@dataclass(frozen=True, slots=True)
class Reported:
    """The job's newest reports, already coalesced: at most a few of these a second per job.

    ``saved_at`` and ``saved_step`` are of its newest checkpoint, None before the first.
    """

    key: AttemptKey
    last: Report
    saved_at: float | None = None
    saved_step: float | None = None


@dataclass(frozen=True, slots=True)
class LogGrew:
    """A worker's log has grown to ``size`` bytes over all attempts; coalesced like `Reported`."""

    job: str
    rank: int
    size: int


@dataclass(frozen=True, slots=True)
class InventoryChanged:
    """Nodes or GPUs came, went or were taken by others: ask `Executor.inventory` again."""


Observation: TypeAlias = AttemptStatus | Reported | LogGrew | InventoryChanged


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a job's log. Offsets count over all attempts; ``offset`` may be later than asked for where old
    bytes were cut. ``size`` is where the log ends now.
    """

    data: bytes
    offset: int
    size: int
    attempt: int


class Executor(ABC):
    """Runs attempts. All methods are called from one event loop; ``listener`` is called in that loop."""

    name: str

    @abstractmethod
    async def start(self, listener: Callable[[Observation], None]) -> None:
        """Begin to observe. Raises `ExecutorError` if the executor cannot work here."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop observing. Attempts go on."""

    @abstractmethod
    async def inventory(self) -> tuple[Node, ...]:
        """All nodes, build and train, as they are now."""

    @abstractmethod
    async def attempts(self) -> tuple[AttemptStatus, ...]:
        """Every attempt that is known and not discarded."""

    @abstractmethod
    async def launch(self, spec: AttemptSpec) -> None:
        """Start an attempt. A refusal (no such program) is reported as an exit, not raised."""

    @abstractmethod
    async def pause(self, key: AttemptKey) -> None:
        """Ask an attempt to save and stop; kill what is left of it after its grace period."""

    @abstractmethod
    async def kill(self, key: AttemptKey) -> None:
        """End an attempt: ask, and kill what is left after a few seconds."""

    @abstractmethod
    async def discard(self, key: AttemptKey) -> None:
        """The end of the attempt has been recorded: it need not be told again. Keeps logs and outputs."""

    @abstractmethod
    async def remove(self, job: str) -> None:
        """Delete everything of an ended job: logs, checkpoints, outputs."""

    @abstractmethod
    async def read_log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        """Up to ``limit`` bytes from ``offset``; a negative offset counts from the end."""

    @abstractmethod
    async def read_reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        """Reports of all attempts with ``seq`` > ``after``, oldest first."""

    @abstractmethod
    async def read_output(self, job: str, name: str, limit: int) -> bytes | None:
        """The file ``name`` of the job's output directory, None if there is none.

        Raises `ExecutorError` if it is larger than ``limit`` or is not a plain file inside that directory.
        """
