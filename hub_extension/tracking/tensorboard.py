"""Event files of TensorBoard: a directory for each job, with one file to which all attempts add.

A file beside it records up to where it is whole and its last report: after a failure midway the rest is cut off
and written again. Files and directories get the permissions of the log directory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlencode

import msgspec
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter, register_writer_factory

from springtide.hub_extension.tracking.tracker import TensorboardSettings, TrackerDownError
from springtide.scheduler.tracking_names import folder_name, metric_name, whole_step
from springtide.scheduler.wire import Job, Point

VERSION: Final = "brain.Event:2"
"""The version of the format, with which each file begins."""
APPENDED: Final = "springtide-append"


class Written(msgspec.Struct, frozen=True):
    """Up to where an event file is whole: its size in bytes, and the ``seq`` of its last report."""

    size: int = 0
    seq: int = 0


class Appending:
    """Opens files for `RecordWriter` in append mode."""

    def open(self, path: str) -> BinaryIO:
        """Open the file whose path follows the prefix."""
        return Path(path.removeprefix(f"{APPENDED}:")).open("ab")


register_writer_factory(APPENDED, Appending())


class TensorboardRun:
    """The directory of a job; see `Run`."""

    def __init__(self, directory: Path, events: Path, mode: int) -> None:
        self._events = events
        self._directory = directory
        self._mode = mode
        self._noted = directory / "position.json"
        self._written = self._begun()

    @property
    def position(self) -> int:
        """See `Run.position`."""
        return self._written.seq

    async def write(self, points: Sequence[Point]) -> None:
        """See `Run.write`."""
        try:
            self._written = await asyncio.shield(asyncio.to_thread(self._append, points))
        except OSError as error:
            raise _down(error) from error

    async def settle(self, job: Job) -> None:
        """Do nothing: event files know no states of runs."""

    def _begun(self) -> Written:
        for directory in (self._directory.parent, self._directory):
            if not directory.is_dir():
                directory.mkdir()
                directory.chmod(self._mode)
        try:
            return msgspec.json.decode(self._noted.read_bytes(), type=Written)
        except (FileNotFoundError, msgspec.DecodeError):
            return Written()

    def _append(self, points: Sequence[Point]) -> Written:
        with self._events.open("ab") as file:
            file.truncate(self._written.size)
        writer = RecordWriter(f"{APPENDED}:{self._events}")
        try:
            if not self._written.size:
                writer.write(Event(wall_time=points[0].at, file_version=VERSION).SerializeToString())
            for point in points:
                if point.values:
                    writer.write(_event(point).SerializeToString())
            writer.flush()
        finally:
            writer.close()
        self._events.chmod(self._mode & 0o666)
        written = Written(self._events.stat().st_size, points[-1].seq)
        new = self._noted.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(written))
        new.replace(self._noted)
        return written


class Tensorboard:
    """The log directory; see `Tracker`."""

    name = "TensorBoard"

    def __init__(self, settings: TensorboardSettings) -> None:
        self._root = settings.directory
        self._page = settings.page

    async def open(self, job: Job) -> TensorboardRun:
        """See `Tracker.open`."""
        try:
            return await asyncio.to_thread(self._opened, job)
        except OSError as error:
            raise _down(error) from error

    def _opened(self, job: Job) -> TensorboardRun:
        directory = self._root / run_name(job)
        events = directory / f"events.out.tfevents.{round(job.submitted)}.springtide"
        return TensorboardRun(directory, events, self._root.stat().st_mode & 0o777)

    async def address(self, job: Job) -> str | None:
        """See `Tracker.address`."""
        if not self._page or not await asyncio.to_thread((self._root / run_name(job)).is_dir):
            return None
        chosen = urlencode({"runFilter": f"^{re.escape(run_name(job))}$"})
        return f"{self._page}/?{chosen}#timeseries"

    async def close(self) -> None:
        """See `Tracker.close`."""


def run_name(job: Job) -> str:
    """Return the path of a job's directory in the log directory, which is its name in TensorBoard."""
    return f"{folder_name(job.project) or '_'}/{folder_name(job.name)}-{job.id}"


def _event(point: Point) -> Event:
    values = [Summary.Value(tag=metric_name(name), simple_value=value) for name, value in point.values.items()]
    return Event(wall_time=point.at, step=whole_step(point.step), summary=Summary(value=values))


def _down(error: OSError) -> TrackerDownError:
    return TrackerDownError(f"its files cannot be written: {error.strerror}")
