"""The arguments of the tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from springtide.scheduler.model import SHOWN_STATES
from springtide.scheduler.wire import Option, Surface
from springtide.scheduler.wire.options import Kind, unknown_option
from springtide.scheduler.wire.shapes import Request
from springtide.scheduler.wire.submission import checked, offered

MAX_LISTED: Final = 50
"""Maximum number of jobs, trials, nodes or files in one answer."""
MAX_LINES: Final = 400
MAX_POINTS: Final = 200
LONGEST_WAIT_S: Final = 45
"""Assistants give up on a call after a minute."""

JSON_TYPES: Final[dict[Kind, dict[str, Any]]] = {
    Kind.WHOLE: {"type": "integer"},
    Kind.DURATION: {"type": ["string", "number"]},
    Kind.CORES: {"type": ["string", "number"]},
    Kind.MEMORY: {"type": ["string", "integer"]},
    Kind.SWITCH: {"type": "boolean"},
    Kind.TEXT: {"type": "string"},
    Kind.TEXTS: {"type": "array", "items": {"type": "string"}},
    Kind.PRIORITY: {"type": ["string", "integer"]},
    Kind.VARIABLES: {"type": "object", "additionalProperties": {"type": "string"}},
}


def _schema(option: Option) -> dict[str, Any]:
    words = f"{option.help} Default: {option.default_words or 'none'}."
    example = {"examples": [option.check(option.example)]} if option.example and option.kind is Kind.TEXTS else {}
    return {**JSON_TYPES[option.kind], "description": words, **example}


OFFERED: Final = {option.name: option for option in offered(Surface.COMMAND)}
"""The options that tools take: those of `springtide submit`."""

Options = Annotated[
    dict[str, Any],
    Meta(
        description="Options of the job, as those of `springtide submit`.",
        extra_json_schema={
            "properties": {name: _schema(option) for name, option in OFFERED.items()},
            "additionalProperties": False,
        },
    ),
]

Text = Annotated[str, Meta(max_length=200)]
JobId = Annotated[str, Meta(min_length=1, max_length=64, description="Id of the job, such as 3kq9x7dm.")]
Cursor = Annotated[
    Annotated[str, Meta(max_length=2000)] | None,
    Meta(description="Continue a list: `next` of the answer before."),
]


def _listed(default: str) -> Meta:
    return Meta(ge=1, le=MAX_LISTED, description=f"Maximum number in the answer. Default: {default}.")


class ListJobs(Request, frozen=True, kw_only=True):
    """Which jobs to list."""

    everyone: Annotated[bool, Meta(description="Also jobs of other people, if you may see them.")] = False
    user: Annotated[Text | None, Meta(description="Only jobs of this person.")] = None
    state: Annotated[
        Text | None,
        Meta(description=f"Only jobs in these states, with commas between. States: {', '.join(SHOWN_STATES)}."),
    ] = None
    project: Annotated[Text | None, Meta(description="Only jobs of this project.")] = None
    tag: Annotated[Text | None, Meta(description="Only jobs with this tag.")] = None
    search: Annotated[
        Text | None,
        Meta(description="Words that the name, user, project, id or a tag contains, or names of set arguments."),
    ] = None
    where: Annotated[
        Text | None,
        Meta(description="Condition on arguments, metrics and columns, such as lr > 0.1 and val_loss < 0.3."),
    ] = None
    order: Annotated[
        Text | None,
        Meta(description="Value that sorts the jobs, such as best.val_loss; a minus before it reverses that."),
    ] = None
    limit: Annotated[int, _listed("20")] = 20
    cursor: Cursor = None


class OfJob(Request, frozen=True, kw_only=True):
    """Which job."""

    job: JobId


class WaitForJob(OfJob, frozen=True, kw_only=True):
    """Which job to wait for, and for how long."""

    seconds: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT_S, description="Longest time to wait, in seconds. Default: 30.")
    ] = 30


class ReadLog(OfJob, frozen=True, kw_only=True):
    """Which part of a log to read."""

    lines: Annotated[
        int, Meta(ge=1, le=MAX_LINES, description="Maximum number of lines of its end. Default: 100.")
    ] = 100
    offset: Annotated[
        Annotated[int, Meta(ge=0, le=1 << 53)] | None,
        Meta(
            description="Read on from this byte, such as `next` of the answer before. Default: read its end.",
        ),
    ] = None
    rank: Annotated[int, Meta(ge=0, le=1_000_000, description="Which worker, from 0.")] = 0


class ReadMetrics(OfJob, frozen=True, kw_only=True):
    """Which metrics to read."""

    names: Annotated[list[str], Meta(max_length=30, description="Only these metrics. Default: the first 30.")] = []
    goal: Annotated[
        Literal["min", "max"] | None,
        Meta(description="Which values are the best. Default: by the name of each, such as max for accuracy."),
    ] = None
    points: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_POINTS,
            description="Maximum number of points for each metric, evenly spaced. Default: 20.",
        ),
    ] = 20


class ForecastStart(Request, frozen=True, kw_only=True):
    """A job that might be sent."""

    options: Options = {}


class SubmitJob(Request, frozen=True, kw_only=True):
    """A job to send."""

    command: Annotated[
        list[str],
        Meta(
            min_length=1,
            max_length=4096,
            description='The command, a word each: ["python", "train.py", "--lr", "0.1"]. No shell reads it. '
            'A notebook with parameters is ["study.ipynb", "-p", "lr", "0.1"].',
        ),
    ]
    options: Options = {}
    directory: Annotated[
        Annotated[str, Meta(max_length=4096)] | None,
        Meta(
            description="The working directory, from which the command is sent with the project around it. "
            "Default: the one in which this server was started.",
        ),
    ] = None
    dry_run: Annotated[
        bool,
        Meta(
            description="True, the default: send nothing, and say what would be sent, when it would start, and "
            "what a pause would cost. False: send it."
        ),
    ] = True


class ListTrials(OfJob, frozen=True, kw_only=True):
    """Which trials of a sweep, which is a job, to list."""

    sort: Annotated[
        Text | None, Meta(description="`trial` or `value`, with a minus before it for the reverse order.")
    ] = None
    state: Annotated[
        Text | None, Meta(description="Only trials in these states, with commas between; `pruned` is one.")
    ] = None
    limit: Annotated[int, _listed("20")] = 20
    cursor: Cursor = None


class Nothing(Request, frozen=True, kw_only=True):
    """No arguments."""


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as jobs carry them; those that are null are left out. Raises `BadOption`."""
    for name in options:
        if name not in OFFERED:
            raise unknown_option(name, OFFERED)
    return checked({name: value for name, value in options.items() if value is not None})
