"""Removal of the files of jobs, and their size."""

from __future__ import annotations

import errno
import os
import shutil
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
            shutil.rmtree(places.root)
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


def size_of_files(places: JobPlaces) -> int:
    """Return the size of the directory of a job in bytes, without what cannot be read; links are not followed."""
    size, left = 0, MOST_MEASURED
    for _, _, names, handle in os.fwalk(places.root, onerror=None):
        for name in names:
            left -= 1
            if left < 0:
                return size
            try:
                size += os.stat(name, dir_fd=handle, follow_symlinks=False).st_size
            except OSError:
                continue
    return size
