"""What a job leaves for its user."""

from __future__ import annotations

import os

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.plain import open_plain


def read_output(places: JobPlaces, parts: tuple[str, ...], limit: int) -> bytes | None:
    """A file of the job's output directory, None if there is none.

    Raises `ExecutorError` if it is larger than ``limit`` or is not a plain file of the job.
    """
    try:
        owner = places.output.stat(follow_symlinks=False).st_uid
    except FileNotFoundError:
        return None
    file = open_plain(places.output, parts, owner)
    if file is None:
        return None
    with os.fdopen(file, "rb") as content:
        data = content.read(limit + 1)
    if len(data) > limit:
        raise ExecutorError(f"{'/'.join(parts)!r} is larger than {limit} bytes.")
    return data
