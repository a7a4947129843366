"""Folders for work in progress: each is removed by its process, or by the next one if its own was killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from springtide.scheduler.own_files import try_lock

PLAIN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class ScratchFolder:
    """A new folder in ``there``, for its owner alone; its name begins with ``prefix``.

    Its process locks it as long as it lives. Folders with this prefix that are not locked are removed: their
    processes were killed.
    """

    def __init__(self, there: Path, prefix: str) -> None:
        _remove_left_over(there, prefix)
        while True:
            self.path = Path(mkdtemp(prefix=prefix, dir=there))
            self._lock = os.open(self.path, PLAIN)
            try:
                is_own = try_lock(self._lock)
            except OSError:
                is_own = True  # a file system without locks: it is not taken for one that was left
            if is_own and self.path.exists():
                break
            os.close(self._lock)  # another process has taken it for one that was left

    def remove(self) -> None:
        """Remove the folder with its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_left_over(there: Path, prefix: str) -> None:
    for path in there.glob(f"{prefix}*"):
        with suppress(OSError), _opened(path) as folder:
            if os.fstat(folder).st_uid == os.geteuid() and try_lock(folder):
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    folder = os.open(path, PLAIN)
    try:
        yield folder
    finally:
        os.close(folder)
