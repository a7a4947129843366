"""The layout of the state directory, and the records of attempts in it."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from springtide.scheduler.executors.base import HISTORY, AttemptKey, ExecutorError, Exit, ExitKind
from springtide.scheduler.executors.files.plain import (
    DIRECTORY,
    make_directory,
    open_plain,
    replace_file,
    write_tree,
)
from springtide.scheduler.executors.supervisor.records import (
    KILL,
    KILL_NOW,
    RUN_TIME,
    leave,
    take_lock,
    write_record,
)
from springtide.scheduler.executors.supervisor.tree import NEW
from springtide.scheduler.model import Block
from springtide.scheduler.wording import given

_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
DISCARDED = "discarded"
PACKED = "project.tree"
CODE, WORK, CHECKPOINTS, OUTPUT = "code", "work", "checkpoints", "output"
ATTEMPTS = "attempts"
REPORTS = "reports.jsonl"
BEGINNING = "beginning.json"
"""Record of an attempt: the size of its job's reports when it was launched."""
LONGEST_BEGINNING = 256
EPOCH = ".epoch"
"""File of the newest epoch that acted, in the directory of jobs."""
UNRECORDED = ".unrecorded"
"""Directory of the ids of jobs whose directories may be there before their records, in the directory of jobs."""


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """The directories and files of one job."""

    root: Path

    @property
    def code(self) -> Path:
        """Directory of the submitted files."""
        return self.root / CODE

    @property
    def work(self) -> Path:
        """The working directory of the job, unless it requests another."""
        return self.root / WORK

    def tree(self, root: str) -> Path:
        """Return the job's copy of the project with this folder."""
        name = PurePosixPath(root).name
        return self.work / (name if name and name != NEW else "project")

    @property
    def packed(self) -> Path:
        """File of the packed project tree, which is removed once it is unpacked."""
        return self.code / PACKED

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints."""
        return self.root / CHECKPOINTS

    @property
    def output(self) -> Path:
        """Directory of the job's outputs for its user."""
        return self.root / OUTPUT

    @property
    def reports(self) -> Path:
        """File of the reports of all attempts."""
        return self.root / REPORTS

    @property
    def attempts(self) -> Path:
        """Directory of the attempts, by number."""
        return self.root / ATTEMPTS

    def numbers(self) -> list[int]:
        """Return the numbers of the attempts, in order."""
        return sorted(int(name) for name in directories(self.attempts) if name.isdecimal() and name.isascii())

    def beginnings(self) -> list[tuple[int, int]]:
        """Return where the reports of attempts begin, in bytes, with their numbers, in order, if recorded."""
        found = ((_read_beginning(self.attempts / str(number)), number) for number in self.numbers())
        return sorted((begin, number) for begin, number in found if begin is not None)

    def write_beginning(self, directory: int) -> None:
        """Record in the open ``directory`` of an attempt that is launched where its reports begin."""
        try:
            file = open_plain(self.root, (REPORTS,))
        except ExecutorError:
            return
        if file is not None:
            size = os.fstat(file).st_size
            os.close(file)
            write_record(directory, BEGINNING, {"reports": size}, durable=False)


@dataclass(frozen=True)
class Layout:
    """The part of the state directory that the executor uses."""

    state: Path

    @cached_property
    def jobs(self) -> Path:
        """Directory of the jobs, by id."""
        return self.state / "jobs"

    @property
    def unrecorded(self) -> Path:
        """Directory of the ids of jobs whose directories may be there before their records."""
        return self.jobs / UNRECORDED

    def job(self, job: str) -> JobPlaces:
        """Return the paths of a job. Raises `ExecutorError` if this cannot be the id of a job."""
        if not _JOB.fullmatch(job):
            raise ExecutorError(f"{given(job)} is not the id of a job.")
        return JobPlaces(self.jobs / job)

    def attempt(self, key: AttemptKey) -> Path:
        """Return the directory of an attempt. Raises `ExecutorError` for a number below 1."""
        if key.attempt < 1:
            raise ExecutorError(f"Attempts are numbered from 1; {key.attempt} is not one.")
        return self.job(key.job).root / f"{ATTEMPTS}/{key.attempt}"

    def all_jobs(self) -> list[str]:
        """Return the ids of all jobs that have a directory."""
        return names_of_jobs(directories(self.jobs))


def names_of_jobs(names: Iterable[str]) -> list[str]:
    """Return the names that can be ids of jobs, sorted."""
    return sorted(name for name in names if _JOB.fullmatch(name))


def directories(path: Path) -> list[str]:
    """Return the names of the directories in a directory; links and files are none, in its own place too."""
    try:
        with opened(path) as handle, os.scandir(handle) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return []
        raise


@contextmanager
def opened(directory: Path) -> Iterator[int]:
    """Open a directory and yield its descriptor."""
    handle = os.open(directory, DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def _read_beginning(directory: Path) -> int | None:
    try:
        file = open_plain(directory, (BEGINNING,))
    except ExecutorError:
        return None
    if file is None:
        return None
    try:
        begin = json.loads(os.pread(file, LONGEST_BEGINNING, 0))["reports"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    finally:
        os.close(file)
    return begin if type(begin) is int and begin >= 0 else None


def read_record(directory: Path, name: str) -> dict[str, Any] | None:
    """Return a record of an attempt, None if it does not exist or a crash of the machine left it incomplete."""
    try:
        with open(f"{directory}/{name}", "rb") as file:  # noqa: PTH123 - read before each launch
            decoded = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return decoded if isinstance(decoded, dict) else None


def read_exit(directory: Path) -> Exit | None:
    """Return how the attempt ended, None if that is not recorded."""
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
            ran=None if record.get("ran") is None else _duration(record["ran"]),
            complete=record.get("complete") is True,
            returned=_yes_or_no(record.get("returned")),
            block=msgspec.convert(record.get("block"), Block | None),
        )
    except (KeyError, ValueError, TypeError, msgspec.ValidationError):
        return None


def _yes_or_no(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def read_run_time(directory: Path) -> float:
    """Return how long the attempt had run when its supervisor last recorded it, in seconds; 0 if it never did."""
    try:
        return _duration((directory / RUN_TIME).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return 0.0


def _duration(value: Any) -> float:
    """Return a number of seconds. Raises `ValueError` for any other value."""
    seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise ValueError(value)
    return seconds


def leave_request(directory: Path, name: str) -> None:
    """Create the empty file that requests a pause or an end; that works on a full disk too.

    A supervisor of an earlier version knows no request to kill at once, and kills within seconds.
    """
    with opened(directory) as handle:
        leave(handle, name)
        if name == KILL_NOW:
            leave(handle, KILL)


def record_exit(directory: Path, ended: Exit) -> Exit | None:
    """Record the end of an attempt without a supervisor, and return the valid record.

    An existing record is not replaced. Returns None if the attempt has a supervisor.
    """
    with opened(directory) as handle:
        lock = take_lock(handle)
        if lock is None:
            return None
        try:
            recorded = read_exit(directory)
            if recorded is None:
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
                        "ran": ended.ran,
                        "complete": ended.complete,
                        "returned": ended.returned,
                        "block": msgspec.to_builtins(ended.block),
                    },
                )
            return recorded or ended
        finally:
            os.close(lock)


def make_places(
    places: JobPlaces,
    files: Mapping[str, bytes],
    owner: tuple[int, int] | None,
    history: bytes | None = None,
) -> None:
    """Create the directories that the job writes to, and its files; existing ones are left alone.

    The file `HISTORY` is replaced by ``history``, if that is given.

    Raises `ExecutorError` for invalid names of files, `OSError` if the disk cannot be written to.
    """
    with opened(places.root) as root:
        for name in (WORK, CHECKPOINTS, OUTPUT):
            make_directory(name, 0o700, owner, within=root)
        if not files:
            make_directory(CODE, 0o700, owner, within=root)
        with suppress(FileExistsError):
            reports = os.open(REPORTS, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=root)
            try:
                if owner:
                    os.fchown(reports, *owner)
            finally:
                os.close(reports)
    if files:
        write_tree(places.code, files, owner)
    if history is not None:
        replace_file(places.code, HISTORY, history, owner)


def write_packed(places: JobPlaces, root: str, packed: bytes, owner: tuple[int, int] | None) -> None:
    """Write the packed tree of the project with this folder, unless the job has its copy already."""
    if packed and not os.path.lexists(places.tree(root)):
        replace_file(places.code, PACKED, packed, owner)
