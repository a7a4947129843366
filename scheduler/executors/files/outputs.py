"""The output files of a job."""

from __future__ import annotations

import os
from typing import BinaryIO

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.plain import open_plain


def open_output(places: JobPlaces, parts: tuple[str, ...], limit: int) -> BinaryIO | None:
    """Open a file of the job's output directory for reading; None if there is none.

    Raises `ExecutorError` if it is larger than ``limit`` bytes or not a plain file of the job.
    """
    try:
        owner = places.output.stat(follow_symlinks=False).st_uid
    except FileNotFoundError:
        return None
    file = open_plain(places.output, parts, owner)
    if file is None:
        return None
    opened = os.fdopen(file, "rb", buffering=0)
    size = os.fstat(file).st_size
    if size > limit:
        opened.close()
        raise ExecutorError(f"{'/'.join(parts)!r} has {size} bytes; at most {limit} can be fetched.")
    return opened
