"""Sweeps and their trials, as parts of the records of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from springtide.scheduler.arguments import Parameter
from springtide.scheduler.model import JobState
from springtide.scheduler.population import Member, MemberRef, Population

Parameters: TypeAlias = Mapping[str, Parameter]
"""The parameters of a trial by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsSpec:
    """The trials that a sweep was submitted with; see `springtide.scheduler.wire.Trials`.

    ``known`` says that the parameters of all trials are known beforehand; those of a ``population`` are chosen for
    one generation after the other.
    """

    number: int
    at_most: int | None = None
    at_least: int = 1
    metric: str = ""
    goal: str = "minimize"
    history: bool = False
    known: bool = False
    population: Population | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRef:
    """Which trial of which sweep a job is: the trial's number from 0, and which of its jobs, from 1.

    ``parameters`` are those known beforehand, ``history`` says that its attempts get the earlier trials as a file.
    ``member`` is whose trial it is in a population.
    """

    sweep: str
    number: int
    run: int = 1
    metric: str = ""
    parameters: Parameters | None = None
    history: bool = False
    member: MemberRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A trial's own report: its parameters, the value of the sweep's metric, and its course.

    ``curve`` has pairs of step and value; ``pruned`` says that the trial ended itself because others were better.
    ``memo`` is its own text for later trials.
    """

    parameters: Parameters | None = None
    value: float | None = None
    curve: tuple[tuple[float, float], ...] = ()
    pruned: bool = False
    memo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestTrial:
    """The best trial of a sweep so far."""

    number: int
    job: str
    value: float
    parameters: Parameters | None = None


@dataclass(frozen=True, slots=True)
class Copied:
    """A checkpoint that a trial begins with: its step, and when it was written."""

    step: float | None
    written: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The present generation of a population, from 1, with the parameters and the source of each member.

    ``copied`` are the checkpoints that its trials begin with, by member; none in the first generation. ``kept`` is
    the best trial when it began, whose checkpoints stay. ``lost`` says that there is no member to continue from:
    none has reached a value, but for ``gone`` ones whose checkpoints are not there any more.
    """

    number: int
    members: tuple[Member, ...]
    copied: tuple[Copied, ...] = ()
    kept: str | None = None
    lost: bool = False
    gone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStanding:
    """The changing part of a sweep.

    ``number``, ``at_most`` and ``at_least`` are the present bounds. ``begun`` is the number of trials that have
    had a job: 0 up to it; ``again`` are numbers of failed ones that are to get another. ``waiting``, ``running``
    and ``paused`` count the jobs of unfinished trials; ``succeeded`` (without the pruned ones), ``pruned``,
    ``failed`` and ``cancelled`` the ended trials. ``failed_in_row`` is the number of the last ended trials that
    all failed, ``retries`` counts the requests to retry, ``served`` are the GPU-seconds of ended trials.
    ``generation`` is the present one of a population.
    """

    number: int
    at_most: int | None = None
    at_least: int = 1
    begun: int = 0
    again: tuple[int, ...] = ()
    waiting: int = 0
    running: int = 0
    paused: int = 0
    succeeded: int = 0
    pruned: int = 0
    failed: int = 0
    cancelled: int = 0
    failed_in_row: int = 0
    retries: int = 0
    served: float = 0.0
    best: BestTrial | None = None
    generation: Generation | None = None

    @property
    def ended(self) -> int:
        """Number of trials that have ended."""
        return self.succeeded + self.pruned + self.failed + self.cancelled

    @property
    def unfinished(self) -> int:
        """Number of trials whose job is unfinished."""
        return self.waiting + self.running + self.paused


@dataclass(frozen=True, slots=True)
class SweepParameters:
    """The parameters of all trials of a sweep, known beforehand, as a JSON list."""

    sweep: str
    body: bytes

    def each_trial(self) -> list[msgspec.Raw]:
        """Return the parameters of each trial, in order, each as JSON."""
        return msgspec.json.decode(self.body, type=list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class TrialQuery:
    """A selection of the begun trials of a sweep.

    ``states`` may contain ``pruned``, which ``succeeded`` does not include then. ``order`` is ``trial`` or
    ``value``, with a minus before it reversed.
    """

    sweep: str
    states: frozenset[str] = frozenset()
    order: str = "trial"


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """A trial in the history that later ones receive. ``state`` is running as long as it has not ended."""

    number: int
    state: JobState
    parameters: Parameters | None
    outcome: Outcome
