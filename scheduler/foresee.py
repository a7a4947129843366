"""Forecasts in a process of their own, so that looking ahead never keeps the pool waiting.

``python -m springtide.scheduler.foresee`` reads questions from its standard input and answers on its standard
output, frame by frame; it ends when the input does. It gives way to everything else on the machine.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

import msgspec

from springtide.scheduler.forecast import Outlook, forecast
from springtide.scheduler.model import Job, Node, Project, Settings, Snapshot

LENGTH_BYTES = 8
NICE = 10
TURNS = (0.6, 0.8, 1.0)
"""The parts of the time by which the three runs of a forecast have to be over."""
MANY = 300
"""Jobs from which on run times are taken coarsely."""
GRAIN = 1 / 32


class Question(msgspec.Struct, frozen=True):
    """A snapshot without its jobs, and what is asked of it; ``batches`` frames with the jobs follow.

    ``asked`` None means all waiting jobs. ``past`` are run times in seconds, shortest first, by kind of job.
    ``most`` and ``budget`` (seconds of computing) bound the cost, ``horizon`` is how many seconds to look ahead.
    """

    now: float
    nodes: tuple[Node, ...]
    projects: tuple[Project, ...]
    settings: Settings
    asked: list[str] | None
    past: list[tuple[float, ...]]
    batches: int
    most: int
    horizon: float
    budget: float


class Batch(msgspec.Struct, frozen=True):
    """Some of the jobs, and for each the place of its kind in ``past``; -1 for none."""

    jobs: list[Job]
    kinds: list[int]


class Answer(msgspec.Struct, frozen=True):
    """The outlook, or what went wrong."""

    outlook: Outlook | None
    error: str = ""


def framed(content: bytes) -> bytes:
    """One frame: its length, then its content."""
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def answer(question: Question, batches: Sequence[Batch], clock: Callable[[], float]) -> Outlook:
    """The outlook that was asked for. ``clock`` tells seconds of computing."""
    jobs = tuple(job for batch in batches for job in batch.jobs)
    kinds = [kind for batch in batches for kind in batch.kinds]
    past = {job.id: question.past[kind] for job, kind in zip(jobs, kinds, strict=True) if kind >= 0}
    began = clock()

    def stop(run: int) -> bool:
        return clock() - began > question.budget * TURNS[run]

    return forecast(
        Snapshot(question.now, question.nodes, question.projects, jobs, question.settings),
        question.asked,
        horizon=question.horizon,
        past=past,
        most=question.most,
        grain=GRAIN if len(jobs) > MANY else 0.0,
        stop=stop,
    )


def serve(source: BinaryIO, sink: BinaryIO, clock: Callable[[], float]) -> None:
    """Answer questions until there are no more."""
    questions, batches = msgspec.msgpack.Decoder(Question), msgspec.msgpack.Decoder(Batch)
    while (content := _frame(source)) is not None:
        question = questions.decode(content)
        parts = [_frame(source) for _ in range(question.batches)]
        if None in parts:
            return
        try:
            reply = Answer(answer(question, [batches.decode(part or b"") for part in parts], clock))
        except Exception as error:  # noqa: BLE001 - whoever asked logs it
            reply = Answer(None, f"{type(error).__name__}: {error}")
        sink.write(framed(msgspec.msgpack.encode(reply)))
        sink.flush()


def _frame(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    content = source.read(int.from_bytes(head, "big"))
    return content if len(content) == int.from_bytes(head, "big") else None


def main() -> None:
    """Serve as a process: quietly, and for as long as somebody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer, time.process_time)


if __name__ == "__main__":
    main()
