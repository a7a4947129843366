"""The options of a job, the table that is read from them, and the requests that carry them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeAlias

import msgspec
from msgspec import Meta, Struct, inspect

from springtide.scheduler.arguments import MAX_ARGUMENTS, Argument
from springtide.scheduler.model import PREEMPTIBLE_BELOW, PRIORITIES, Job
from springtide.scheduler.resources import quantities
from springtide.scheduler.resources.per_gpu import PerGpu, per_gpu_of
from springtide.scheduler.wire import durations
from springtide.scheduler.wire.environments import PythonEnvironment
from springtide.scheduler.wire.options import EVERYWHERE, BadOption, Kind, Option, Surface
from springtide.scheduler.wire.shapes import (
    MAX_IMAGE,
    MAX_NAME,
    MAX_TAGS,
    Count,
    KeptMetric,
    Positive,
    ProjectName,
    Tag,
    Word,
)
from springtide.scheduler.wire.sweeps import Trials
from springtide.scheduler.wire.trees import ProjectTree
from springtide.scheduler.wording import is_printable

MAX_TIME_LIMIT: Final = 10 * 365 * 86_400
"""Maximum time limit of a job, in seconds."""
MAX_GRACE: Final = 3600
"""Maximum grace period of a job, in seconds."""
MAX_REQUIREMENT: Final = 200
"""Maximum length of one required package with its versions, in characters."""

MAX_RESUME: Final = 2_000
"""Maximum length of the arguments with which a job resumes, in characters."""

MAX_PATTERN: Final = 200
"""Maximum length of one pattern of outputs, in characters."""

NEEDS_GPUS: Final = ("gpu_types", "require", "prefer", "rdma")
"""The options that are about GPUs: a job without GPUs has none of them."""

MAX_CORES: Final = 10_000
"""Maximum number of cores of one worker."""
MIN_MEMORY: Final = 16 << 20
"""Minimum memory of one worker, in bytes: below, no Python starts."""
MAX_MEMORY: Final = 1 << 50
"""Maximum memory of one worker, in bytes."""

if TYPE_CHECKING:
    CoresText: TypeAlias = NoReturn  # whoever reads a struct meets numbers only
    MemoryText: TypeAlias = NoReturn
    DurationText: TypeAlias = NoReturn
    PriorityName: TypeAlias = NoReturn
else:
    CoresText = Annotated[str, Meta(max_length=quantities.MAX_LENGTH, pattern=quantities.CORES_PATTERN)]
    MemoryText = Annotated[str, Meta(max_length=quantities.MAX_LENGTH, pattern=quantities.MEMORY_PATTERN)]
    DurationText = Annotated[str, Meta(max_length=durations.MAX_LENGTH, pattern=durations.PATTERN)]
    PriorityName = Word


class JobOptions(Struct, frozen=True, kw_only=True):
    """The options of a job, as all parts of Springtide carry them.

    A new option is a field here, and what acts on it.
    """

    preset: Annotated[
        Word | None,
        Option(
            kind=Kind.TEXT,
            help="Preset that fills in the options that are not given: one of the project, of a project above "
            "it, or of the pool.",
            default_text="none",
            example="small",
            offered=EVERYWHERE & ~Surface.TRAIN_JOB & ~Surface.PRESET,
        ),
    ] = None
    gpus: Annotated[
        Count,
        Option(
            kind=Kind.WHOLE,
            label="GPUs",
            help="GPUs of each worker. With 0 the job runs without GPUs, as one worker.",
        ),
    ] = 1
    workers: Annotated[
        Positive, Option(kind=Kind.WHOLE, help="Worker processes. They start together, or none does.")
    ] = 1
    min_workers: Annotated[
        Positive | None,
        Option(
            kind=Kind.WHOLE,
            label="Fewest workers",
            help="Fewest workers that the job runs with; it grows to all of them when GPUs are free. For this it "
            "restarts, so one that is not preemptible keeps the workers that it starts with.",
            default_text="all workers",
        ),
    ] = None
    cpus: Annotated[
        Annotated[float, Meta(ge=0.001, le=MAX_CORES)] | CoresText | None,
        Option(
            kind=Kind.CORES,
            label="CPU cores",
            help="CPU cores of each worker; with GPUs at most what these come with.",
            default_text="the pool's",
            example="4",
        ),
    ] = None
    memory: Annotated[
        Annotated[int, Meta(ge=MIN_MEMORY, le=MAX_MEMORY)] | MemoryText | None,
        Option(
            kind=Kind.MEMORY,
            help="Memory of each worker; with GPUs at most what these come with. A worker that takes more fails.",
            default_text="the pool's",
            example="16Gi",
        ),
    ] = None
    priority: Annotated[
        PriorityName | Annotated[int, Meta(ge=0, le=1_000_000)],
        Option(
            kind=Kind.PRIORITY,
            help="Order within the project: train (50), high (75), critical (100) or a number. From 100 on, a "
            "job is never paused for others and must fit in the quota.",
            example="high",
        ),
    ] = PRIORITIES["train"]
    preemptible: Annotated[
        bool | None,
        Option(
            kind=Kind.SWITCH,
            help="Whether the job may be paused for others.",
            default_text="yes below priority 100",
            off="--not-preemptible",
        ),
    ] = None
    rotate: Annotated[
        bool,
        Option(
            kind=Kind.SWITCH,
            help="Whether the job may be paused for an equal job of the project that had, or usually needs, less "
            "GPU time.",
            off="--no-rotate",
        ),
    ] = True
    gpu_types: Annotated[
        tuple[Word, ...],
        Meta(max_length=100),
        Option(
            kind=Kind.TEXTS,
            label="GPU type",
            help="GPU types that the job can run on, the preferred one first.",
            default_text="any",
            example="a100,v100",
            flags=("--gpu-type",),
        ),
    ] = ()
    require: Annotated[
        Word | None,
        Option(
            kind=Kind.TEXT,
            label="Topology required",
            help="Topology level that has to hold all workers: island, socket, node, or a label of nodes such as "
            "rack or zone.",
            default_text="none",
            example="node",
        ),
    ] = None
    prefer: Annotated[
        Word | None,
        Option(
            kind=Kind.TEXT,
            label="Topology preferred",
            help="Topology level that should hold all workers, where one can.",
            default_text="none",
            example="rack",
        ),
    ] = None
    rdma: Annotated[
        bool,
        Option(
            kind=Kind.SWITCH,
            label="RDMA",
            help="Whether each worker gets RDMA (InfiniBand or RoCE), to exchange data with the others. It runs "
            "only on nodes that have it.",
            off="--no-rdma",
        ),
    ] = False
    time_limit: Annotated[
        Annotated[float, Meta(gt=0, le=MAX_TIME_LIMIT)] | DurationText | None,
        Option(
            kind=Kind.DURATION,
            help="Longest time the job may run, over all its attempts.",
            default_text="none",
            example="2h",
            old_field="timeLimitSeconds",
        ),
    ] = None
    grace: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_GRACE)] | DurationText | None,
        Option(
            kind=Kind.DURATION,
            label="Grace period",
            help="Time to save a checkpoint when the job is asked to pause, or to end for good.",
            default_text="the pool's",
            example="30s",
            old_field="graceSeconds",
        ),
    ] = None
    image: Annotated[
        Annotated[str, Meta(max_length=MAX_IMAGE)] | None,
        Option(
            kind=Kind.TEXT,
            help="Container image that the job runs in, on a cluster: one of the administrator's list.",
            default_text="that of the notebook that submits the job, else the first of the list",
        ),
    ] = None
    datasets: Annotated[
        tuple[Word, ...],
        Meta(max_length=100),
        Option(
            kind=Kind.TEXTS,
            help="Datasets that the job reads, by the names that the administrator gave them.",
            default_text="none",
            example="imagenet,coco",
            flags=("--dataset",),
        ),
    ] = ()
    secrets: Annotated[
        tuple[Word, ...],
        Meta(max_length=100),
        Option(
            kind=Kind.TEXTS,
            help="Secrets whose environment variables the job gets, by the administrator's names for them.",
            default_text="none",
            example="wandb,hf",
            flags=("--secret",),
        ),
    ] = ()
    requirements: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_REQUIREMENT)], ...],
        Meta(max_length=100),
        Option(
            kind=Kind.TEXTS,
            help="Packages that are installed for the job, on one machine: names with versions. Jobs that require "
            "the same share them.",
            default_text="none",
            example="torch==2.8.0,timm",
            offered=EVERYWHERE & ~Surface.TRAIN_JOB & ~Surface.PRESET,
        ),
    ] = ()
    retries: Annotated[
        int,
        Meta(ge=0, le=100),
        Option(kind=Kind.WHOLE, help="How often the job is tried again after a failure. Pauses do not count."),
    ] = 0
    resume: Annotated[
        Annotated[str, Meta(max_length=MAX_RESUME)] | None,
        Option(
            kind=Kind.TEXT,
            label="Arguments to resume",
            help="Arguments added to the command when the job runs again after it saved something. In them "
            "{checkpoint} is the newest checkpoint found among its files.",
            default_text="none",
            example="--resume checkpoints/last.pt",
            offered=EVERYWHERE & ~Surface.PRESET,
        ),
    ] = None
    keep_last: Annotated[
        Positive | None,
        Option(
            kind=Kind.WHOLE,
            label="Checkpoints kept",
            help="How many of its newest checkpoints a job that saves with springtide.training keeps.",
            default_text="3, unless the program says otherwise",
            example="5",
        ),
    ] = None
    keep_every: Annotated[
        Positive | None,
        Option(
            kind=Kind.WHOLE,
            label="Checkpoints kept by step",
            help="Checkpoints whose step is a multiple of this number are kept as well.",
            default_text="none",
            example="1000",
        ),
    ] = None
    keep_best: Annotated[
        KeptMetric | None,
        Option(
            kind=Kind.TEXT,
            label="Best checkpoint kept",
            help="The checkpoint with the smallest value of this reported number is kept as well; of name:max the "
            "largest.",
            default_text="none",
            example="loss",
        ),
    ] = None
    in_place: Annotated[
        bool,
        Option(
            kind=Kind.SWITCH,
            help="Whether the job runs in the project folder itself and reads its files as they are when it runs, "
            "instead of in a copy of its own.",
            off="--no-in-place",
            offered=EVERYWHERE & ~Surface.TRAIN_JOB & ~Surface.PRESET,
        ),
    ] = False
    outputs: Annotated[
        tuple[Annotated[str, Meta(max_length=MAX_PATTERN)], ...],
        Meta(max_length=100),
        Option(
            kind=Kind.TEXTS,
            help="Patterns of files in the job's own working directory that are listed among its outputs.",
            default_text="new files at its top, and those of known tools",
            example="runs/**,*.pt",
        ),
    ] = ()
    env: Annotated[
        dict[str, str],
        Option(
            kind=Kind.VARIABLES,
            label="Environment",
            help="Environment variables.",
            default_text="none",
            example="A=1",
            flags=("-e",),
        ),
    ] = {}
    carry: Annotated[
        tuple[Word, ...],
        Meta(max_length=100),
        Option(
            kind=Kind.TEXTS,
            help="Environment variables that the job gets as they are set where it is submitted: names, or "
            "beginnings of names with an asterisk.",
            default_text="none",
            example="WANDB_*,HF_HOME",
            offered=Surface.COMMAND | Surface.MAGIC | Surface.SUBMIT,
        ),
    ] = ()
    tags: Annotated[
        tuple[Tag, ...],
        Meta(max_length=MAX_TAGS),
        Option(
            kind=Kind.TEXTS,
            help="Words of your own by which jobs are found and compared.",
            default_text="none",
            example="baseline,lr-0.1",
            flags=("--tag",),
        ),
    ] = ()
    test_run: Annotated[
        bool,
        Option(
            kind=Kind.SWITCH,
            help="Whether the same code runs with one worker on one GPU first, for two minutes unless an admin "
            "has set another time. The job waits in line once that has passed, and fails if it fails.",
            off="--no-test-run",
        ),
    ] = False

    @property
    def least_workers(self) -> int:
        """Number of workers that the job starts with at least."""
        return self.workers if self.min_workers is None else self.min_workers

    @property
    def is_preemptible(self) -> bool:
        """Whether the job may be paused for others."""
        return self.priority < PREEMPTIBLE_BELOW if self.preemptible is None else self.preemptible

    @property
    def per_gpu(self) -> PerGpu:
        """The job's request per GPU; nothing in particular without GPUs."""
        return per_gpu_of(self.cpus or 0.0, self.memory or 0, self.gpus, int(self.rdma))

    def resolved(self) -> JobOptions:
        """Return the options with those filled in that follow from others."""
        return msgspec.structs.replace(self, min_workers=self.least_workers, preemptible=self.is_preemptible)

    def grace_in(self, pool: float) -> float:
        """Return the grace period of the job in seconds; ``pool`` is that of the pool."""
        return pool if self.grace is None else self.grace

    def planned(self, **own: Any) -> Job:
        """Return the job as the policy sees it. ``own`` are its fields that no option has."""
        return Job(
            priority=self.priority,
            preemptible=self.is_preemptible,
            workers=self.workers,
            gpus=self.gpus,
            min_workers=self.least_workers,
            gpu_types=self.gpu_types,
            require=self.require,
            prefer=self.prefer,
            per_gpu=self.per_gpu,
            rotate=self.rotate,
            time_limit=self.time_limit,
            **own,
        )


_NUMBERS: Final = ("cpus", "memory", "priority", "time_limit", "grace")
"""The options that people may give as text in place of a number."""


class GivenOptions(JobOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options as people give them: texts for numbers, such as ``2h`` or ``high``, become numbers.

    A wrong text stays as it is; `Option.check` refuses it.
    """

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if type(value) is str:
                with suppress(BadOption):
                    msgspec.structs.force_setattr(self, name, OPTIONS[name].check(value))

    @property
    def unread(self) -> list[str]:
        """The names of options that have a text that is none of their values."""
        return [name for name in _NUMBERS if isinstance(getattr(self, name), str)]


def named_after(work: str) -> str:
    """Return the default name of a job: the name of what it runs, without what no name has, `MAX_NAME` at most."""
    return "".join(character for character in work if is_printable(character))[:MAX_NAME].strip() or "job"


def given_beside(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the options that a preset among them leaves as they are; none without a preset."""
    return tuple(name for name in options if name in OPTIONS) if options.get("preset") else ()


class Wish(GivenOptions, frozen=True, kw_only=True):
    """The request of a train job, whatever it runs: all that can be checked without its program.

    A preset fills in the options that are at their defaults, but for those named in ``given``.
    """

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Wish:
        """Return what a job with these options asks for; other names are left out."""
        own = {name: value for name, value in options.items() if name in Wish.__struct_fields__}
        return Wish(**{"given": given_beside(options), **own})

    name: Annotated[
        str,
        Meta(max_length=MAX_NAME),
        Option(
            kind=Kind.TEXT,
            help="Name of the job.",
            default_text="the name of what runs",
            offered=EVERYWHERE & ~Surface.TRAIN_JOB & ~Surface.PRESET,
        ),
    ] = ""
    project: Annotated[
        ProjectName | None,
        Option(
            kind=Kind.TEXT,
            help="Project whose quota the job uses.",
            default_text="your only or default project",
            offered=EVERYWHERE & ~Surface.TRAIN_JOB & ~Surface.PRESET,
        ),
    ] = None
    given: Annotated[tuple[Word, ...], Meta(max_length=100)] = ()


class Submission(Wish, frozen=True, kw_only=True):
    """A train job to run: what it asks for, and what it runs.

    ``argv`` is the command; in it and in ``env`` values, ``{code}`` means the directory that ``files`` (relative
    path to content) are written to. ``cwd`` is the working directory (the job's own directory if
    None). ``key`` makes a submission safe to repeat: the same key of the same user answers the job that was
    accepted first. With ``trials`` it is a sweep, and what it asks for is asked for each trial. ``environment`` is
    that of the place of submission, if it is known; ``env`` has the variables that ``carry`` names there. With a
    ``tree`` the job runs in a copy of its project, which ``{project_tree}`` means in ``argv`` and ``env`` values;
    a ``cwd`` in the project means the same place there. ``arguments`` are those of a function or a notebook by
    name; those of a command are read from its words.
    """

    argv: Annotated[list[str], Meta(min_length=1, max_length=4096)]
    kind: Annotated[str, Meta(pattern=r"^(command|function|notebook)(?!\n)$")] = "command"
    cwd: Annotated[str, Meta(max_length=4096)] | None = None
    files: dict[str, bytes] = {}
    source: Annotated[str, Meta(max_length=200_000)] = ""
    arguments: Annotated[dict[str, Argument], Meta(max_length=MAX_ARGUMENTS)] = {}
    key: Annotated[str, Meta(max_length=128)] | None = None
    trials: Trials | None = None
    environment: PythonEnvironment | None = None
    tree: ProjectTree | None = None


def _table() -> Iterator[Option]:
    kinds = {field.name: field.type for field in inspect.type_info(Wish).fields}  # type: ignore[attr-defined]
    for field in sorted(
        msgspec.structs.fields(Wish), key=lambda field: field.name in JobOptions.__struct_fields__
    ):
        for option in filter(lambda part: isinstance(part, Option), getattr(field.type, "__metadata__", ())):
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            yield replace(option, name=field.name, default=default, **_bounds(option.kind, kinds[field.name]))


def _bounds(kind: Kind, of: inspect.Type) -> dict[str, Any]:
    """Return the bounds of the alternative of a field's type that has some."""
    for part in of.types if isinstance(of, inspect.UnionType) else (of,):
        if isinstance(part, inspect.IntType | inspect.FloatType):
            least = part.ge if part.ge is not None else part.gt
            return {"least": least, "most": part.le, "exclusive": part.gt is not None}
        if isinstance(part, inspect.StrType) and kind is Kind.TEXT:
            return {"most": part.max_length}
        if isinstance(part, inspect.VarTupleType):
            return {"most": part.max_length}
    return {}


OPTIONS: Final[Mapping[str, Option]] = {option.name: option for option in _table()}
"""Every option of a job, by its name in requests."""


def offered(surface: Surface) -> tuple[Option, ...]:
    """Return the options that a surface offers, in the order of the table."""
    return tuple(option for option in OPTIONS.values() if option.offered & surface)


def checked(given: Mapping[str, object]) -> dict[str, Any]:
    """Return the given options as jobs carry them. Raises `BadOption`, also for names that are no options."""
    return {name: OPTIONS[name].check(value) for name, value in given.items()}
