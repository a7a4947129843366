"""The output files of a job."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from springtide.scheduler.executors.base import ExecutorError, OutputFile
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.plain import DIRECTORY, open_plain
from springtide.scheduler.executors.supervisor.tree import CACHES, COPIED_AT
from springtide.scheduler.wording import LONG_GIVEN, given

DEEPEST = 8
"""Maximum depth of a listed folder."""
MOST_FILES = 100_000
"""Number of files of a working folder after which no further ones are looked at."""
MOST_FOLDERS = 1_000
"""Number of folders after which no further ones are looked into."""


def list_outputs(places: JobPlaces, most: int) -> tuple[OutputFile, ...]:
    """Return the plain files of the job's output directory, at most ``most``, by folder and name.

    Links and what does not belong to the job are left out, as `open_output` does not open them; so are folders
    deeper than `DEEPEST`. Raises `ExecutorError` if the directory cannot be read.
    """
    return _listed(places.output, "output directory", most)


def list_own_files(places: JobPlaces, most: int) -> tuple[OutputFile, ...]:
    """Return the plain files that the job wrote or changed in its working folder, as `list_outputs` does.

    In its copy of a project these are the files that were not copied, or not left as they were; names begin with
    the folder of the copy. Left out are links, caches, and what belongs to Git.
    """
    found = _listed(places.work, "working folder", MOST_FILES, CACHES)
    return tuple(islice((file for file in found if file.written != COPIED_AT), most))


def _listed(folder: Path, what: str, most: int, skipped: Collection[str] = ()) -> tuple[OutputFile, ...]:
    try:
        root = os.open(folder, DIRECTORY)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ExecutorError(f"The {what} cannot be read: {error.strerror}.") from error
    try:
        return tuple(islice(_files(root, os.fstat(root).st_uid, skipped), most))
    except OSError as error:
        raise ExecutorError(f"The {what} cannot be read: {error.strerror}.") from error
    finally:
        os.close(root)


def _files(root: int, owner: int, skipped: Collection[str]) -> Iterator[OutputFile]:
    walk = os.fwalk(".", dir_fd=root, follow_symlinks=False)
    for visited, (folder, folders, names, opened) in enumerate(walk, 1):
        entered = sorted(set(folders).difference(skipped))
        folders[:] = entered if folder.count("/") < DEEPEST and visited < MOST_FOLDERS else []
        for name in sorted(names):
            try:
                about = os.stat(name, dir_fd=opened, follow_symlinks=False)
            except FileNotFoundError:  # renamed or removed by the job meanwhile
                continue
            if stat.S_ISREG(about.st_mode) and about.st_uid == owner and _is_text(name):
                yield OutputFile(os.path.normpath(f"{folder}/{name}"), about.st_size, about.st_mtime)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


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
        raise ExecutorError(
            f"{given('/'.join(parts), LONG_GIVEN)} has {size} bytes; at most {limit} can be fetched."
        )
    return opened
