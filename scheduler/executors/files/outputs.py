"""The output files of a job, by the texts of their names (`springtide.scheduler.file_names`)."""

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
from springtide.scheduler.file_names import real_name, shown_name
from springtide.scheduler.own_outputs import OwnOutputs
from springtide.scheduler.wording import LONG_GIVEN, given

DEEPEST = 8
"""Maximum depth of a listed folder."""
MOST_FILES = 100_000
"""Number of files of a working folder after which no further ones are looked at."""
MOST_FOLDERS = 1_000
"""Number of folders after which no further ones are looked into."""


def list_outputs(places: JobPlaces, most: int, own: OwnOutputs | None = None) -> tuple[OutputFile, ...]:
    """Return the plain files of the job's output directory, then its ``own`` outputs, by folder and name.

    There are at most ``most``. Links and what does not belong to the job are left out, as `open_output` does not
    open them; so are folders deeper than `DEEPEST`. Raises `ExecutorError` if a directory cannot be read.
    """
    found = _listed(places.output, "output directory", most)
    if own is None or len(found) >= most:
        return found
    taken = {file.name for file in found}
    named = ((own.name_of(file.name), file) for file in list_own_files(places, MOST_FILES))
    more = (
        OutputFile(name, file.size, file.written) for name, file in named if name is not None and name not in taken
    )
    return (*found, *islice(more, most - len(found)))


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
            if stat.S_ISREG(about.st_mode) and about.st_uid == owner:
                path = shown_name(os.path.normpath(f"{folder}/{name}"))
                yield OutputFile(path, about.st_size, about.st_mtime)


def open_output(
    places: JobPlaces, parts: tuple[str, ...], limit: int, own: OwnOutputs | None = None
) -> BinaryIO | None:
    """Open the output of the job at this path, also one of its ``own``; None if there is none.

    Raises `ExecutorError` if it is larger than ``limit`` bytes or not a plain file of the job.
    """
    file = _opened(places.output, parts)
    path = None if own is None else own.path_of(shown_name("/".join(parts)))
    if file is None and path is not None:
        file = _opened(places.work, tuple(real_name(path).split("/")))
        if file is not None and os.fstat(file).st_mtime == COPIED_AT:
            os.close(file)
            return None
    if file is None:
        return None
    opened = os.fdopen(file, "rb", buffering=0)
    size = os.fstat(file).st_size
    if size > limit:
        opened.close()
        raise ExecutorError(
            f"{given(shown_name('/'.join(parts)), LONG_GIVEN)} has {size} bytes; at most {limit} can be fetched."
        )
    return opened


def _opened(root: Path, parts: tuple[str, ...]) -> int | None:
    try:
        owner = root.stat(follow_symlinks=False).st_uid
    except FileNotFoundError:
        return None
    return open_plain(root, parts, owner)
