"""What a user may say about a job besides what it runs."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

import msgspec

from springtide.scheduler.capture import Captured, sources
from springtide.scheduler.wire import Submission, Wish
from springtide.widgets.errors import CaptureError, OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of ``submit``, the magic and the form.

    ``gpus`` is per worker. ``project`` may be left out by who has one only. ``priority`` is a name or a number.
    ``time_limit`` is the longest the job may run in all, in seconds or as a timedelta; ``grace`` the seconds it
    has to save when it is asked to pause. ``image`` is the container image it runs in, on a cluster; that of this
    notebook unless another is named.
    """

    name: str = ""
    project: str | None = None
    gpus: int = 1
    workers: int = 1
    min_workers: int | None = None
    priority: str | int = "train"
    preemptible: bool | None = None
    gpu_types: Sequence[str] = ()
    require: str | None = None
    prefer: str | None = None
    rotate: bool = True
    time_limit: float | timedelta | None = None
    retries: int = 0
    grace: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None


NAMES = frozenset(option.name for option in fields(Options))


def wish(options: Options) -> Wish:
    """What a job with these options asks for, whatever it runs. Raises `OptionError`."""
    limit = options.time_limit
    return Wish(
        name=_text("name", options.name),
        project=options.project,
        gpus=_whole("gpus", options.gpus, 1),
        workers=_whole("workers", options.workers, 1),
        min_workers=None if options.min_workers is None else _whole("min_workers", options.min_workers, 1),
        priority=_priority(options.priority),
        preemptible=options.preemptible,
        gpu_types=_texts("gpu_types", options.gpu_types),
        require=options.require,
        prefer=options.prefer,
        rotate=options.rotate,
        time_limit=limit.total_seconds() if isinstance(limit, timedelta) else limit,
    )


def submission(captured: Captured, options: Options, key: str) -> Submission:
    """The request that sends ``captured``; ``key`` makes it safe to repeat. Raises `OptionError`."""
    asked = wish(options)
    return Submission(
        **msgspec.structs.asdict(msgspec.structs.replace(asked, name=asked.name or captured.name)),
        argv=list(captured.argv),
        kind=captured.kind,
        retries=_whole("retries", options.retries, 0),
        grace=options.grace,
        env={**captured.env, **{_text("env", name): _text("env", value) for name, value in options.env.items()}},
        cwd=captured.cwd,
        image=None if options.image is None else _text("image", options.image),
        files=dict(captured.files),
        source=captured.source,
        key=key,
    )


def check_size(request: Submission, most: int, variables: Mapping[str, int]) -> None:
    """Raise `CaptureError` with the sizes of what is sent if the request is larger than ``most`` bytes."""
    length = len(msgspec.json.encode(request))
    if length <= most:
        return
    sizes = {name: len(content) for name, content in request.files.items()} | dict(variables)
    msg = (
        f"The job is too large to send: {sources.size(length)}, and the pool takes {sources.size(most)}. "
        f"Largest: {sources.listing(sizes)}. "
        "Leave large data in a file and pass its path; the job reads it where it lies."
    )
    raise CaptureError(msg)


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        msg = f"{name} has to be a whole number of at least {least}; it is {value!r:.80}."
        raise OptionError(msg)
    return number


def _priority(value: Any) -> str | int:
    return value if isinstance(value, str) else _whole("priority", value, 0)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        msg = f"{name} has to be a text; it is {value!r:.80}."
        raise OptionError(msg)
    return value


def _texts(name: str, values: Any) -> list[str]:
    if isinstance(values, str):
        return [values]
    return [_text(name, value) for value in values]
