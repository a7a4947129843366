"""Removal of the files of jobs, and their size."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from springtide.scheduler.executors.files.layout import JobPlaces

REMOVALS: Final = 5
"""Maximum number of tries to delete the directory of a job."""
MOST_MEASURED: Final = 200_000
"""Maximum number of files that are looked at for the size of a job."""


def remove_files(places: JobPlaces) -> None:
    """Delete the directory of a job, also if something that ends writes into it or deletes in it meanwhile."""
    for tries_left in reversed(range(REMOVALS)):
        try:
            _remove(places.root)
        except FileNotFoundError:
            if not os.path.lexists(places.root):
                return
            if not tries_left:
                raise
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not tries_left:
                raise
        else:
            return


def _remove(root: Path) -> None:
    """Delete a directory; by ``rm`` if it is too deep for Python, which needs a call and a file for each level."""
    try:
        shutil.rmtree(root)
    except (RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EMFILE:
            raise
        subprocess.run(["rm", "-rf", "--", str(root)], check=False, stderr=subprocess.DEVNULL)
        if os.path.lexists(root):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(root)) from error


def size_of_files(places: JobPlaces) -> int:
    """Return the size of the directory of a job in bytes, without what cannot be read; links are not followed."""
    size, left, folders = 0, MOST_MEASURED, [str(places.root)]
    while folders and left > 0:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                left -= 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_size
                if left <= 0:
                    break
    return size
