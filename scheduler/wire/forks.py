"""Checkpoints of jobs, and jobs that continue from a checkpoint of another one."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from springtide.scheduler.arguments import MAX_ARGUMENTS, Argument, Typed
from springtide.scheduler.metrics import Value
from springtide.scheduler.wire.environments import PythonEnvironment
from springtide.scheduler.wire.reruns import NO_ARGUMENTS, Again
from springtide.scheduler.wire.shapes import Answer, Request
from springtide.scheduler.wire.submission import Submission
from springtide.scheduler.wire.trees import ProjectTree

MAX_PATH = 1200
"""Maximum length of the name of a checkpoint, in characters."""
MAX_DELETED = 200
"""Maximum number of checkpoints in one request."""
CheckpointName = Annotated[str, Meta(min_length=1, max_length=MAX_PATH)]


class Checkpoint(Answer, frozen=True, kw_only=True):
    """A checkpoint that a job has saved.

    ``name`` identifies it: a number for one of ``springtide.training``, else its path in the job's working
    directory. ``by`` is the framework that writes such files, empty for ``springtide.training``. ``step`` is None
    if it is not known; ``values`` are the numbers reported before it was saved. ``needed`` says that the job is
    unfinished and resumes from it, or ``for_population``, that the next generation may continue from it.
    """

    name: str
    step: float | None
    size: int
    written: float
    by: str = ""
    values: dict[str, Value] = {}
    needed: bool = False
    for_population: bool = False


class CheckpointList(Answer, frozen=True, kw_only=True):
    """The checkpoints of a job, the newest first; ``text`` says why there are none, empty if there are some."""

    items: list[Checkpoint]
    text: str = ""


class CheckpointsDelete(Request, frozen=True, kw_only=True):
    """Delete checkpoints of a job; ``force`` also the one that the unfinished job resumes from."""

    names: Annotated[list[CheckpointName], Meta(min_length=1, max_length=MAX_DELETED)]
    force: bool = False


class Program(Request, frozen=True, kw_only=True):
    """Another program for a fork; its fields are those of a submission.

    Without ``files`` and ``tree`` it runs with those of the first job.
    """

    argv: Annotated[list[str], Meta(min_length=1, max_length=4096)]
    kind: Annotated[str, Meta(pattern=r"^(command|function|notebook)(?!\n)$")] = "command"
    cwd: Annotated[str, Meta(max_length=4096)] | None = None
    files: dict[str, bytes] | None = None
    source: Annotated[str, Meta(max_length=200_000)] = ""
    environment: PythonEnvironment | None = None
    tree: ProjectTree | None = None
    arguments: Annotated[dict[str, Argument], Meta(max_length=MAX_ARGUMENTS)] = {}


def program_of(submission: Submission) -> Program:
    """Return the program of a submission."""
    return Program(
        argv=submission.argv,
        kind=submission.kind,
        cwd=submission.cwd,
        files=submission.files,
        source=submission.source,
        environment=submission.environment,
        tree=submission.tree,
        arguments=submission.arguments,
    )


Fork = msgspec.defstruct(
    "Fork",
    [
        ("step", float | None, None),
        ("checkpoint", CheckpointName | None, None),
        ("program", Program | None, None),
    ],
    bases=(Again,),
    frozen=True,
    kw_only=True,
    module=__name__,
    namespace={
        "__doc__": "A new job that continues from a checkpoint of another one.\n\n"
        "``step`` or ``checkpoint``, a name, say from which one; the newest without either. ``program`` "
        "runs in place of the first job's. The other fields are those of a run again."
    },
)


def fork(
    changes: dict[str, Any],
    key: str | None = None,
    *,
    step: float | None = None,
    checkpoint: str | None = None,
    arguments: Typed = NO_ARGUMENTS,
    program: Program | None = None,
) -> Struct:
    """Return the request for options as requests carry them, those of `OPTIONS`, and for typed ``arguments``."""
    return Fork(**changes, key=key, step=step, checkpoint=checkpoint, arguments=dict(arguments), program=program)
