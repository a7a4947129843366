"""Whether the files of an SQLite store are still in their place while a process has them open.

SQLite keeps using files that were removed or moved away, and so would accept data that no other process reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from springtide.scheduler.store.errors import StoreMovedError

FileId = tuple[int, int]
"""Device and inode of a file."""
WAL_SUFFIX = "-wal"
DELETED = " (deleted)"
"""Suffix of the kernel on the name of an open file that was removed."""


class Place:
    """The place of an SQLite store that this process has open: the database and its write-ahead log."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.log = database.with_name(database.name + WAL_SUFFIX)
        self._database_id = _id(database)
        self._log_id: FileId | None = None

    def check(self) -> None:
        """Raise `StoreMovedError` if one of the open files is not there any more, or another is.

        The log comes and goes with the connections: it has moved only if it is still open.
        """
        found = _id(self.database)
        if found is None or found != self._database_id:
            what = "removed" if found is None else "replaced by another file"
            raise StoreMovedError(f"The store {self.database} was {what} while the service runs.", log_only=False)
        found = _id(self.log)
        if found == self._log_id:
            return
        opened = set(_open_files(os.getpid()))
        if self._log_id in opened or (found is not None and found not in opened):
            raise StoreMovedError(f"The journal {self.log} was removed while the service runs.", log_only=True)
        self._log_id = found


def removed_files(database: Path, pid: int) -> list[Path]:
    """Return which files of a store a process has open that were removed meanwhile."""
    place = Path(os.path.realpath(database))
    names = [str(place), f"{place}{WAL_SUFFIX}"]
    links = {link for link in _links(pid) if link.endswith(DELETED)}
    return [Path(name) for name in names if f"{name}{DELETED}" in links]


def _id(path: Path) -> FileId | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open_files(pid: int) -> Iterator[FileId]:
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - the names are enough
        with suppress(OSError):
            found = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116 - a Path of each is not needed
            yield found.st_dev, found.st_ino


def _links(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            with suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
