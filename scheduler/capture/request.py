"""The submission request for a captured program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from springtide.scheduler.capture.command import Captured, placed_path
from springtide.scheduler.capture.environment import python_environment
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.program import GPU_VARIABLES, Here, chosen_by_pool
from springtide.scheduler.capture.variables import carried, uncarried
from springtide.scheduler.resuming import named_paths, problem
from springtide.scheduler.wire import (
    ImageContents,
    JobEnvironment,
    Submission,
    missing_modules,
    named_after,
)
from springtide.scheduler.wire.environments import SEARCH_PATH, missing_text
from springtide.scheduler.wire.submission import given_beside
from springtide.scheduler.wording import listed, plural


def environment_shown(
    request: Submission,
    image: str | None,
    contents: ImageContents | None = None,
    unsent: Sequence[str] = (),
) -> JobEnvironment:
    """Return the environment of a job to show before its submission.

    ``image`` is the container image of the job, None on one machine; ``contents`` are its declared contents.
    ``unsent`` are the variables of `unsent`.
    """
    environment = request.environment
    path = "" if environment is None else environment.path
    missing = missing_modules(environment, image, request.requirements, contents)
    return JobEnvironment(
        program="" if environment is None else environment.program,
        name="" if environment is None else environment.name,
        image="" if environment is None else environment.image,
        unsent=list(unsent),
        python="" if environment is None else environment.python,
        path=path,
        packages={} if environment is None else environment.packages,
        missing=missing,
        missing_text=missing_text(missing, image or path),
        files=sorted(request.files),
        file_count=len(request.files),
        file_bytes=sum(map(len, request.files.values())),
        tree=request.tree,
        in_place=(request.cwd or "") if request.in_place else "",
        variables=sorted(request.env),
        requirements=request.requirements,
    )


def with_carried(options: Mapping[str, Any], here: Here) -> dict[str, Any]:
    """Return the options with the variables that they carry from a place. Raises `CaptureError`."""
    found = carried(options.get("carry", ()), here)
    return {**options, "env": {**found, **options.get("env", {})}} if found else dict(options)


def unsent(request: Submission, here: Here, further: Sequence[str] = ()) -> list[str]:
    """Return the well-known variables that are set at the place and that the job does not get.

    ``further`` are the names and patterns of variables that an administrator added.
    """
    return uncarried(here, request.env, further)


def notes_of(captured: Captured, request: Submission) -> tuple[str, ...]:
    """Return the sentences for whoever submits: those about the work, and those about it with its options."""
    chosen = [name for name in GPU_VARIABLES if name in request.env]
    notes = (*captured.notes, chosen_by_pool(chosen)) if chosen else captured.notes
    project = captured.project
    if project is None:
        return notes
    named = [*(named_paths(request.resume) if request.resume else ()), *request.outputs]
    places = (project.place_of(Path(captured.cwd, path)) for path in named)
    shared = sorted({folder for place in places if place and (folder := project.in_place(place)) is not None})
    if not shared:
        return notes
    verb, them = plural(len(shared), "is", "are"), plural(len(shared), "it", "them")
    note = (
        f"{listed(shared)} {verb} written in place, so all jobs of this project share {them}: a checkpoint there "
        "may be another job's. A folder that does not exist yet is the job's own."
    )
    return (*notes, note)


def submission(
    captured: Captured, options: Mapping[str, Any], key: str | None = None, *, here: Here | None = None
) -> Submission:
    """Return the request for a job with these options, which are those of `wire.OPTIONS` as requests carry them.

    ``key`` makes the request safe to repeat. ``here`` is the place that the job gets its environment from, None if
    it gets none. Raises `CaptureError` for variables that cannot be carried, and for arguments to resume that the
    program cannot get.
    """
    chosen = dict(options) if here is None else with_carried(options, here)
    resume = chosen.get("resume")
    if resume is not None and (wrong := problem(resume, captured.kind, captured.argv)) is not None:
        raise CaptureError(" ".join(wrong))
    return Submission(
        **{
            **chosen,
            "name": (options.get("name") or "").strip() or named_after(captured.name),
            "env": _variables(captured, chosen.get("env", {})),
            "given": given_beside(options),
        },
        argv=list(captured.argv),
        kind=captured.kind,
        cwd=captured.cwd,
        files=dict(captured.files),
        source=captured.source,
        arguments=dict(captured.arguments),
        key=key,
        environment=python_environment(captured, here),
        tree=None if captured.project is None else captured.project.described(),
    )


def _variables(captured: Captured, own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a job; a search path of its own comes before that of its project."""
    paths = [own[SEARCH_PATH]] if own.get(SEARCH_PATH) else []
    if paths and captured.project is not None:
        paths = [placed_path(paths[0], captured.project)]
    paths += [captured.env[SEARCH_PATH]] if SEARCH_PATH in captured.env else []
    return {**captured.env, **own, **({SEARCH_PATH: ":".join(paths)} if paths else {})}
