"""Copies of jobs' event files, and event files of their reported metrics, in a folder that TensorBoard reads.

The pool has both wherever the job runs, so nothing of its volumes has to be mounted. Event files only grow: new
records are added to a copy, at the place up to which TensorBoard has read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Final

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from springtide.scheduler.client import Client
from springtide.scheduler.file_names import real_name
from springtide.scheduler.model import JobState
from springtide.scheduler.own_outputs import is_event_file
from springtide.scheduler.tracking_names import folder_name, metric_name, whole_step
from springtide.scheduler.wire import Job, OutputFile, Point
from springtide.scheduler.wording import count, quoted, size

MOST_BYTES: Final = 2 * 2**30
"""Maximum size of the copied event files of one job, in bytes."""
VERSION: Final = "brain.Event:2"
"""The version of the format, with which each file begins."""
REPORTED: Final = "reported"
"""Folder of the metrics that a job reported, beside those of its own event files."""


class JobLogs:
    """The logs of one job in a folder of its own below ``root``."""

    def __init__(self, client: Client, job: Job, root: Path, most: int = MOST_BYTES) -> None:
        self._client = client
        self._job = job
        self._folder = root / f"{folder_name(job.name)}-{job.id}"
        self._most = most
        self._position = 0
        self._left_out: tuple[OutputFile, ...] = ()
        self.settled = False
        """Whether the copies have all that the job has written, after its end."""

    @property
    def name(self) -> str:
        """The job's name in quotation marks, else its id."""
        return quoted(self._job.name) if self._job.name else self._job.id

    @property
    def note(self) -> str:
        """A sentence about the event files that were not copied, empty if all were."""
        if not self._left_out:
            return ""
        files = count(len(self._left_out), "event file")
        whole = size(sum(file.size for file in self._left_out))
        return f"{files} of {self.name} ({whole}) left out: at most {size(self._most)} of a job are shown."

    @property
    def nothing(self) -> str:
        """Why there is nothing to show, as a sentence; empty if there is something."""
        if self._folder.exists():
            return ""
        place = self._job.environment and self._job.environment.in_place
        if place:
            folder = quoted(place)
            return f"{self.name} has reported no metric. It runs in {folder} itself: its own logs are there."
        yet = "" if self.settled else " yet"
        return f"{self.name} has reported no metric and written no event file{yet}."

    def refresh(self) -> None:
        """Copy the new part. Raises `PoolError` and `Unreachable`, and `OSError` for a full disk."""
        if self.settled:
            return
        job = self._client.job(self._job.id)
        for files in self._chosen(self._client.outputs(job.id).items):
            self._copy(files)
        self._write_reports()
        self._job = job
        self.settled = JobState(job.state).final

    def _chosen(self, files: Iterable[OutputFile]) -> list[OutputFile]:
        """Return the event files to copy: the smallest, as far as the maximum allows."""
        known = sorted((file for file in files if is_event_file(file.name)), key=lambda file: file.size)
        chosen, left = 0, self._most
        while chosen < len(known) and known[chosen].size <= left:
            left -= known[chosen].size
            chosen += 1
        self._left_out = tuple(known[chosen:])
        return known[:chosen]

    def _copy(self, file: OutputFile) -> None:
        place = self._folder / real_name(file.name)
        if not place.resolve().is_relative_to(self._folder.resolve()):
            return
        there = place.stat().st_size if place.exists() else 0
        if there == file.size:
            return
        if there > file.size:
            place.unlink()
            there = 0
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("ab") as copy:
            self._client.append_output(self._job.id, file.name, copy, after=there)

    def _write_reports(self) -> None:
        found = self._client.all_points(self._job.id, after=self._position)
        points = [point for point in found if point.seq > self._position]
        shown = [point for point in points if point.values]
        if shown:
            folder = self._folder / REPORTED
            folder.mkdir(parents=True, exist_ok=True)
            place = folder / f"events.out.tfevents.{round(self._job.submitted)}.springtide"
            with place.open("ab") as file:
                begins = not file.tell()
                file.write(records(shown, begins=begins))
        if points:
            self._position = points[-1].seq


def records(points: Iterable[Point], *, begins: bool) -> bytes:
    """Return reports as records of an event file; ``begins``: with the one that is first in a file."""
    text = BytesIO()
    writer = RecordWriter(text)
    for number, point in enumerate(points):
        if begins and not number:
            writer.write(Event(wall_time=point.at, file_version=VERSION).SerializeToString())
        values = [Summary.Value(tag=metric_name(name), simple_value=value) for name, value in point.values.items()]
        event = Event(wall_time=point.at, step=whole_step(point.step), summary=Summary(value=values))
        writer.write(event.SerializeToString())
    return text.getvalue()
