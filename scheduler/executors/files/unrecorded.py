"""Jobs whose directories were made before the store has a record of them, as those of forks are.

Their ids are files of the directory ``jobs/.unrecorded``: made before the directory of such a job, and deleted
once the record is on disk, or all files of the job are gone. Whatever step a crash hits, the directory of a job
without a record is found again, and no other directory is taken for one.
"""

from __future__ import annotations

import os
from pathlib import Path

from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files.layout import Layout, names_of_jobs
from springtide.scheduler.executors.files.plain import sync
from springtide.scheduler.own_files import make_own_directory


class Unrecorded:
    """The jobs of a layout whose files are there before their record."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def begin(self, job: str) -> None:
        """Note that the directory of a new job is about to be made. Raises `ExecutorError` if there is one."""
        root, mark = self._layout.job(job).root, self._mark(job)
        if mark.exists():
            return
        if os.path.lexists(root):
            raise ExecutorError(f"{root} exists already, and belongs to no job that begins now.")
        make_own_directory(self._layout.unrecorded, 0o700)
        mark.touch(0o600)
        sync(self._layout.unrecorded)

    def settle(self, job: str) -> None:
        """Note that the record of a job is on disk, or that all of its files are gone."""
        self._mark(job).unlink(missing_ok=True)

    def jobs(self) -> list[str]:
        """Return the jobs that were begun and not settled."""
        try:
            return names_of_jobs(path.name for path in self._layout.unrecorded.iterdir())
        except FileNotFoundError:
            return []

    def _mark(self, job: str) -> Path:
        self._layout.job(job)
        return self._layout.unrecorded / job
