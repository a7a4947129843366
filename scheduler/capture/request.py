"""The submission request for a captured program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springtide.scheduler.capture.command import Captured, placed_path
from springtide.scheduler.capture.environment import python_environment
from springtide.scheduler.wire import ImageContents, JobEnvironment, Submission, missing_modules

SEARCH_PATH = "PYTHONPATH"


def environment_shown(
    request: Submission, image: str | None, contents: ImageContents | None = None
) -> JobEnvironment:
    """Return the environment of a job to show before its submission.

    ``image`` is the container image of the job, None on one machine; ``contents`` are its declared contents.
    """
    environment = request.environment
    return JobEnvironment(
        python="" if environment is None else environment.python,
        path="" if environment is None else environment.path,
        packages={} if environment is None else environment.packages,
        missing=missing_modules(environment, image, request.requirements, contents),
        files=sorted(request.files),
        file_count=len(request.files),
        file_bytes=sum(map(len, request.files.values())),
        tree=request.tree,
        variables=sorted(request.env),
        requirements=request.requirements,
    )


def submission(captured: Captured, options: Mapping[str, Any], key: str | None = None) -> Submission:
    """Return the request for a job with these options, which are those of `wire.OPTIONS` as requests carry them.

    ``key`` makes the request safe to repeat.
    """
    return Submission(
        **{
            **options,
            "name": options.get("name") or captured.name,
            "env": _variables(captured, options.get("env", {})),
        },
        argv=list(captured.argv),
        kind=captured.kind,
        cwd=captured.cwd,
        files=dict(captured.files),
        source=captured.source,
        key=key,
        environment=python_environment(captured),
        tree=None if captured.project is None else captured.project.described(),
    )


def _variables(captured: Captured, own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a job; a search path of its own comes before that of its project."""
    paths = [own[SEARCH_PATH]] if own.get(SEARCH_PATH) else []
    if paths and captured.project is not None:
        paths = [placed_path(paths[0], captured.project)]
    paths += [captured.env[SEARCH_PATH]] if SEARCH_PATH in captured.env else []
    return {**captured.env, **own, **({SEARCH_PATH: ":".join(paths)} if paths else {})}
