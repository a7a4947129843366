"""Where everything of a job lies, and how the records of an attempt are read and written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from springtide.scheduler.executors.base import AttemptKey, ExecutorError, Exit, ExitKind
from springtide.scheduler.executors.files.plain import DIRECTORY, make_directory, write_tree
from springtide.scheduler.executors.supervisor.records import leave, take_lock, write_record

_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """The directories and files of one job."""

    root: Path

    @property
    def code(self) -> Path:
        return self.root / "code"

    @property
    def work(self) -> Path:
        """The job's own directory, which it starts in unless it asks for another."""
        return self.root / "work"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def reports(self) -> Path:
        return self.root / "reports.jsonl"

    @property
    def attempts(self) -> Path:
        return self.root / "attempts"

    def numbers(self) -> list[int]:
        """The attempts that there are, in order."""
        try:
            names = [path.name for path in self.attempts.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isdecimal() and name.isascii())


@dataclass(frozen=True, slots=True)
class Layout:
    """The part of the state directory that the executor keeps."""

    state: Path

    @property
    def jobs(self) -> Path:
        return self.state / "jobs"

    @property
    def epoch(self) -> Path:
        return self.jobs / ".epoch"

    def job(self, job: str) -> JobPlaces:
        """Raises `ExecutorError` for what cannot be the id of a job."""
        if not _JOB.fullmatch(job):
            raise ExecutorError(f"{job!r} is not the id of a job.")
        return JobPlaces(self.jobs / job)

    def attempt(self, key: AttemptKey) -> Path:
        """The attempt's directory."""
        if key.attempt < 1:
            raise ExecutorError(f"Attempts are numbered from 1; {key.attempt} is not one.")
        return self.job(key.job).attempts / str(key.attempt)

    def all_jobs(self) -> list[str]:
        """Ids of all jobs that have a directory."""
        return sorted(path.name for path in self.jobs.iterdir() if _JOB.fullmatch(path.name))


@contextmanager
def opened(directory: Path) -> Iterator[int]:
    """A descriptor of the directory."""
    handle = os.open(directory, DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def read_record(directory: Path, name: str) -> dict[str, Any] | None:
    """A record of the attempt; None if it is not there or was torn by a crash of the machine."""
    try:
        found = json.loads((directory / name).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def read_exit(directory: Path) -> Exit | None:
    """How the attempt ended, None if that is not recorded."""
    record = read_record(directory, "exit.json")
    if record is None:
        return None
    try:
        return Exit(
            kind=ExitKind(record["kind"]),
            at=float(record["at"]),
            code=record.get("code"),
            signal=record.get("signal"),
            paused=bool(record.get("paused")),
            killed=bool(record.get("killed")),
            detail=str(record.get("detail", "")),
        )
    except (KeyError, ValueError, TypeError):
        return None


def leave_request(directory: Path, name: str) -> None:
    """Make the empty file that asks for a pause or a kill; that works on a full disk too."""
    with opened(directory) as handle:
        leave(handle, name)


def record_exit(directory: Path, ended: Exit) -> Exit | None:
    """Record how an attempt ended that no supervisor runs, and return the record that holds now.

    None if a supervisor runs it after all. Never replaces a record.
    """
    with opened(directory) as handle:
        lock = take_lock(handle)
        if lock is None:
            return None
        try:
            known = read_exit(directory)
            if known is None:
                write_record(
                    handle,
                    "exit.json",
                    {
                        "kind": ended.kind.value,
                        "at": ended.at,
                        "code": ended.code,
                        "signal": ended.signal,
                        "paused": ended.paused,
                        "killed": ended.killed,
                        "detail": ended.detail,
                    },
                )
            return known or ended
        finally:
            os.close(lock)


def make_places(places: JobPlaces, files: Mapping[str, bytes], owner: tuple[int, int] | None) -> None:
    """Make what the job itself writes to, and its files; what is there already stays as it is.

    Raises `ExecutorError` for names of files that are none, OSError if the disk does not take it.
    """
    for path in (places.work, places.checkpoints, places.output):
        make_directory(path, 0o700, owner)
    write_tree(places.code, files, owner)
    if not places.reports.exists():
        places.reports.touch(mode=0o600)
        if owner:
            os.chown(places.reports, *owner)
