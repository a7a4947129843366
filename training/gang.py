"""The part of a process in the agreement of its gang: files for records, and a thread that answers meanwhile.

The files are in the directory of checkpoints, which all processes share, in pods too. A network file system may
keep what it has read for a minute, but not across an opening of the file, and an absent name not across the
creation of it: therefore every access opens its file anew, and creates it if it is not there.
"""

from __future__ import annotations

import atexit
import os
import shutil
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Callable, Optional

from springtide.training.agreement import WORD, Board, Kind, Member, Record

LOOK_EVERY = 0.05
"""Interval between checks whether this process is asked to pause, in seconds."""
CALL_EVERY = 0.5
"""Interval between checks whether another process was asked, in seconds."""
SETTLE_EVERY = 0.01
"""Interval between reads of the word while the step of the pause is decided, in seconds."""
HAND_OVER_AFTER = 0.5
"""Time after which a process decides if rank 0 has not, in seconds."""

_RECORD = struct.Struct("<qqqq")
_MARK = 0x5052494E47544944
_PREFIX = ".pause-of-attempt-"


class Files(Board):
    """A board of one file for each record; a record that is just being written counts as `Kind.PRESENT`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, place: int) -> Optional[Record]:
        """Return the newest record at this place. Raises OSError."""
        file = self._open(place)
        try:
            data = os.pread(file, _RECORD.size, 0)
        finally:
            os.close(file)
        if not data:
            return None
        if len(data) < _RECORD.size:
            return Record(Kind.PRESENT)
        kind, step, stride, check = _RECORD.unpack(data)
        return Record(Kind(kind), step, stride) if check == kind ^ step ^ stride ^ _MARK else Record(Kind.PRESENT)

    def write(self, place: int, record: Record) -> None:
        """Replace the record at this place. Raises OSError."""
        kind, step, stride = record
        file = self._open(place)
        try:
            os.pwrite(file, _RECORD.pack(kind, step, stride, kind ^ step ^ stride ^ _MARK), 0)
        finally:
            os.close(file)

    def _open(self, place: int) -> int:
        name = "word" if place == WORD else f"rank-{place}"
        return os.open(str(self._directory / name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class Gang:
    """This process as one of ``world``, which pause at the same step of the attempt.

    It enters the agreement at its first question. Files of an earlier attempt in ``directory`` do not count.
    Agreements of one gang that count different steps have different names in ``name``.
    """

    def __init__(self, directory: Path, attempt: int, rank: int, world: int, name: str = "") -> None:
        self._directory = directory
        self._attempt = attempt
        self._rank = rank
        self._own = directory / f"{_PREFIX}{attempt}" / name
        self._member = Member(Files(self._own), rank, world)
        self._entered = False
        self._settled = threading.Event()
        self._process = os.getpid()

    def reached(self, step: int, asked: Callable[[], bool]) -> bool:
        """Return whether to pause at ``step``; wait while that is being decided."""
        if not self._entered:
            self._enter(asked)
        answer = self._member.answer(step)
        if answer is None:
            self._settled.wait()
            answer = self._member.answer(step)
        return bool(answer)

    def _enter(self, asked: Callable[[], bool]) -> None:
        """Enter the agreement; if the disk is full, try again at the next step."""
        if self._rank == 0:
            self._forget_attempts_before()
        try:
            self._own.mkdir(parents=True, exist_ok=True)
            self._member.enter()
        except OSError:
            return
        self._entered = True
        atexit.register(self._leave)
        threading.Thread(target=self._watch, args=(asked,), name="springtide-pause", daemon=True).start()

    def _forget_attempts_before(self) -> None:
        for path in self._directory.glob(f"{_PREFIX}*"):
            number = path.name[len(_PREFIX) :]
            if number.isdigit() and int(number) < self._attempt:
                shutil.rmtree(str(path), ignore_errors=True)

    def _watch(self, asked: Callable[[], bool]) -> None:
        called = time.monotonic() + CALL_EVERY
        while not asked():
            if time.monotonic() >= called:
                called = time.monotonic() + CALL_EVERY
                if _try(self._member.is_called):
                    break
            time.sleep(LOOK_EVERY)
        while not _try(self._halt):
            time.sleep(LOOK_EVERY)
        decides = time.monotonic() + (0.0 if self._rank == 0 else HAND_OVER_AFTER)
        while not _try(lambda: self._member.settle(decide=time.monotonic() >= decides)):
            time.sleep(SETTLE_EVERY)
        self._settled.set()

    def _halt(self) -> bool:
        self._member.halt()
        return True

    def _leave(self) -> None:
        if os.getpid() == self._process:
            with suppress(OSError):
                self._member.leave()
            self._settled.set()


def _try(act: Callable[[], bool]) -> bool:
    """Return the function's result, False while the files cannot be reached."""
    try:
        return act()
    except OSError:
        return False
