"""Sweeps and their trials: the request and the views."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from springtide.scheduler.arguments import Parameter
from springtide.scheduler.metrics import Value
from springtide.scheduler.population import Population
from springtide.scheduler.wire.shapes import Answer, Request, Word

MAX_TRIALS: Final = 10_000
"""Maximum number of trials of a sweep."""
MAX_PARAMETERS: Final = 4 * 1024 * 1024
"""Maximum size of the parameters of all trials of a sweep together, as JSON, in bytes."""

ParameterName = Annotated[str, Meta(min_length=1, max_length=128)]
Bound = Annotated[int, Meta(ge=1, le=MAX_TRIALS)]


class Trials(Request, frozen=True, kw_only=True):
    """The trials of a sweep: ``number`` runs of the submission, numbered from 0.

    At most ``at_most`` of them are unfinished at a time (None: as many as there are GPUs for), and at most
    ``at_least`` of them wait in line. ``metric`` names the reported value by which trials are compared, ``goal``
    says whether the smallest or the largest is the best; if it is empty, trials are not compared and none is the
    best. ``parameters`` are those of each trial, if they are known beforehand. With ``history`` each attempt of a
    trial gets the earlier trials as the file ``{code}/trials.json``. A ``population`` has one trial for each
    member in each generation, and the pool chooses the parameters of each generation.
    """

    number: Bound
    at_most: Bound | None = None
    at_least: Bound = 1
    metric: Word = ""
    goal: Literal["minimize", "maximize", ""] = "minimize"
    parameters: Annotated[list[dict[ParameterName, Parameter]], Meta(max_length=MAX_TRIALS)] | None = None
    history: bool = False
    population: Population | None = None


class TrialsEdit(Request, frozen=True, kw_only=True):
    """Changes to an unfinished sweep; omitted fields stay. ``at_most`` 0 means no bound."""

    number: Bound | None = None
    at_most: Annotated[int, Meta(ge=0, le=MAX_TRIALS)] | None = None
    at_least: Bound | None = None


MAX_TRIALS_PAGE = 1_000
"""Maximum number of trials in one answer."""


class TrialPauses(Answer, frozen=True, kw_only=True):
    """The pauses of a trial, as far as its latest attempts are known: ``why`` counts them by their headlines.

    ``seconds`` is the time from pauses to the next attempts, without the present pause, which began at ``since``.
    ``lost_gpu_seconds`` is the GPU time since the last known checkpoints.
    """

    times: int
    seconds: float
    since: float | None
    lost_gpu_seconds: float
    why: dict[str, int]


class Outcome(Answer, frozen=True, kw_only=True):
    """The outcome of a trial: its parameters, its reports of the sweep's metric, and its pauses, if it had any.

    ``value`` is the latest one, at the end that by which it is compared; ``curve`` has up to 100 pairs of step and
    value. ``pruned`` says that it ended itself early, because others were better. In a population ``member`` and
    ``generation``, from 1, say whose trial it is, and ``parent`` is the trial whose last checkpoint it continues
    from; ``copied_from`` is the member of that trial, None if it is the same one.
    """

    parameters: dict[str, Parameter] | None = None
    value: float | None = None
    curve: list[tuple[float, float]] = []
    pruned: bool = False
    member: int | None = None
    generation: int | None = None
    parent: int | None = None
    copied_from: int | None = None
    pauses: TrialPauses | None = None


class Best(Answer, frozen=True, kw_only=True):
    """The best trial of a sweep among those that succeeded: its number, its job, and its outcome."""

    trial: int
    job: str
    value: float
    parameters: dict[str, Parameter] | None = None


class PopulationView(Answer, frozen=True, kw_only=True):
    """The population of a sweep: ``generation``, from 1, is the one that trains now, begins, or trained last.

    A generation takes ``every`` steps. Trial ``n`` is that of the member ``n % members`` in the generation
    ``n // members + 1``.
    """

    members: int
    generation: int
    generations: int
    every: float
    quantile: float
    resample: float
    factors: tuple[float, float]
    seed: int


class TrialCounts(Answer, frozen=True, kw_only=True):
    """The trials of a sweep by state; their sum is ``number``.

    ``queued`` are those that have not begun or wait for their first start, ``paused`` those that wait for another
    one. ``gpus`` is the number of GPUs that its trials hold now, ``borrowed`` how many of these are borrowed.
    """

    number: int
    queued: int
    running: int
    paused: int
    succeeded: int
    pruned: int
    failed: int
    cancelled: int
    gpus: int = 0
    borrowed: int = 0
    at_most: int | None = None
    at_least: int = 1
    metric: str = ""
    goal: str = "minimize"
    best: Best | None = None
    population: PopulationView | None = None


class TrialRow(Answer, frozen=True, kw_only=True):
    """One trial of a sweep in a table.

    ``job`` is None as long as it has not begun; ``state`` is that of its job, ``pruned`` for one that ended itself
    early, or ``queued`` before it has begun. ``values`` are the numbers that it last reported, ``value`` and
    ``curve`` those of the sweep's metric. In a population ``member``, ``generation``, ``parent`` and
    ``copied_from`` are as in `Outcome`.
    """

    trial: int
    member: int | None = None
    generation: int | None = None
    parent: int | None = None
    copied_from: int | None = None
    job: str | None = None
    state: str = "queued"
    shown: str = ""
    """The state in words, as of `Job`."""
    parameters: dict[str, Parameter] | None = None
    value: float | None = None
    values: dict[str, Value] = {}
    step: float | None = None
    of: float | None = None
    curve: list[tuple[float, float]] = []
    attempt: int = 0
    started: float | None = None
    ended: float | None = None
    gpu_seconds: float = 0.0
    borrowed: int = 0
    pauses: TrialPauses | None = None
    error: str = ""


class TrialPage(Answer, frozen=True, kw_only=True):
    """A page of the trials of a sweep. ``next`` is the cursor of the next page, None on the last."""

    items: list[TrialRow]
    next: str | None = None
