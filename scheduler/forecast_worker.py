"""The forecast process, which computes forecasts outside the service.

``python -m springtide.scheduler.forecast_worker`` reads requests from its standard input and writes replies to its
standard output, as frames of a length and a msgpack object. It ends with its input, and runs at a low priority.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

import msgspec

from springtide.scheduler.forecast import Outlook, Stopping, StopTime, forecast
from springtide.scheduler.model import Job, Node, Project, RecentUse, Settings, Snapshot

LENGTH_BYTES = 8
"""Size of a frame's length, in bytes."""
NICE = 10
"""Increment of the process's nice value."""
RUN_SHARES = (0.5, 0.7, 0.85, 1.0)
"""Parts of the computing time by which the four runs of a forecast have to end."""
MAX_EXACT_JOBS = 300
"""Maximum number of jobs whose run times are not rounded."""
GRAIN = 1 / 32
"""Relative precision of rounded run times."""


class ForecastRequest(msgspec.Struct, frozen=True):
    """A snapshot without its jobs, which follow in ``batches`` frames of `JobBatch`, and the request.

    ``asked`` are ids of waiting jobs, None for all. ``past`` are run times in seconds, shortest first, by kind of
    job. ``most`` is the maximum number of waiting jobs to take into account; ``budget`` the computing time and
    ``horizon`` the time to look ahead, in seconds. ``diagnosed`` are waiting jobs for which to find the changes
    that let them start. ``stopping`` are the attempts that were asked to stop.
    """

    now: float
    nodes: tuple[Node, ...]
    projects: tuple[Project, ...]
    settings: Settings
    recent_use: tuple[RecentUse, ...]
    asked: list[str] | None
    past: list[tuple[float, ...]]
    batches: int
    most: int
    horizon: float
    budget: float
    diagnosed: list[str] = []
    stopping: list[Stopping] = []


class JobBatch(msgspec.Struct, frozen=True):
    """A part of the jobs: for each the index of its kind in ``past``, -1 for none, and the time of its pauses."""

    jobs: list[Job]
    kinds: list[int]
    stops: list[StopTime]


class ForecastReply(msgspec.Struct, frozen=True):
    """The outlook, or an error message."""

    outlook: Outlook | None
    error: str = ""


def framed(content: bytes) -> bytes:
    """Return one frame: its length, then its content."""
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def answer(request: ForecastRequest, batches: Sequence[JobBatch], clock: Callable[[], float]) -> Outlook:
    """Return the requested outlook. ``clock`` returns the computing time used so far, in seconds."""
    jobs = tuple(job for batch in batches for job in batch.jobs)
    kinds = [kind for batch in batches for kind in batch.kinds]
    past = {job.id: request.past[kind] for job, kind in zip(jobs, kinds, strict=True) if kind >= 0}
    times = [time for batch in batches for time in batch.stops]
    began = clock()

    def stop(run: int) -> bool:
        return clock() - began > request.budget * RUN_SHARES[run]

    return forecast(
        Snapshot(request.now, request.nodes, request.projects, jobs, request.settings, request.recent_use),
        request.asked,
        diagnosed=request.diagnosed,
        horizon=request.horizon,
        past=past,
        most=request.most,
        grain=GRAIN if len(jobs) > MAX_EXACT_JOBS else 0.0,
        stops={job.id: time for job, time in zip(jobs, times, strict=True)},
        stopping=request.stopping,
        stop=stop,
    )


def serve(source: BinaryIO, sink: BinaryIO, clock: Callable[[], float]) -> None:
    """Answer requests until the input ends."""
    requests, batches = msgspec.msgpack.Decoder(ForecastRequest), msgspec.msgpack.Decoder(JobBatch)
    while (content := _frame(source)) is not None:
        request = requests.decode(content)
        parts = [_frame(source) for _ in range(request.batches)]
        if None in parts:
            return
        try:
            reply = ForecastReply(answer(request, [batches.decode(part or b"") for part in parts], clock))
        except Exception as error:  # noqa: BLE001 - the service logs it
            reply = ForecastReply(None, f"{type(error).__name__}: {error}")
        sink.write(framed(msgspec.msgpack.encode(reply)))
        sink.flush()


def _frame(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    content = source.read(int.from_bytes(head, "big"))
    return content if len(content) == int.from_bytes(head, "big") else None


def main() -> None:
    """Run the process until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer, time.process_time)


if __name__ == "__main__":
    main()
