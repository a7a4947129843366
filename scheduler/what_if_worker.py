"""The process that computes what would have been, outside the service.

``python -m springtide.scheduler.what_if_worker`` reads one `PastQuestion` from its standard input, as msgpack, and
writes lines of JSON: how far it is, then the answer. It runs at a low priority.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from springtide.scheduler.process_tuning import loading
from springtide.scheduler.scenario import Scenario, parse
from springtide.scheduler.simulate.what_if import (
    ImpossibleError,
    RecordedJob,
    changed,
    difference,
    outcome,
    recorded_outcome,
)
from springtide.scheduler.wire.past import PastChanges, PastOutcome

NICE = 10
"""Increment of the process's nice value."""


class PastQuestion(msgspec.Struct, frozen=True):
    """A ``scenario`` as JSON, and what would be another in it; ``unchanged`` is its outcome, if that is known.

    ``recorded`` are its jobs by their records. ``known`` are the projects with figures of their own, None for all.
    """

    scenario: bytes
    changes: PastChanges
    recorded: list[RecordedJob]
    known: list[str] | None = None
    unchanged: PastOutcome | None = None


class PastProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the answer: the part of the work that is done, and in the last line all outcomes or an error.

    With the outcomes is the ``difference`` between the pools in words.
    """

    progress: float
    recorded: PastOutcome | None = None
    unchanged: PastOutcome | None = None
    changed: PastOutcome | None = None
    difference: list[str] = []
    impossible: str = ""


def answer(question: PastQuestion, tell: Callable[[PastProgress], None]) -> None:
    """Compute the outcomes, and report progress."""
    with loading():
        scenario = parse(question.scenario, "the past")
    try:
        other = changed(scenario, question.changes)
    except ImpossibleError as error:
        tell(PastProgress(1.0, impossible=str(error)))
        return
    parts: list[Scenario] = [other] if question.unchanged is not None else [scenario, other]

    def passed(done: int) -> Callable[[float], None]:
        return lambda part: tell(PastProgress(round((done + part) / len(parts), 3)))

    found = [outcome(part, question.known, passed(done)) for done, part in enumerate(parts)]
    recorded = recorded_outcome(scenario, question.recorded, question.known)
    said = difference(scenario, other, question.changes)
    tell(PastProgress(1.0, recorded, question.unchanged or found[0], found[-1], difference=said))


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer the question of the input."""

    def tell(progress: PastProgress) -> None:
        sink.write(msgspec.json.encode(progress) + b"\n")
        sink.flush()

    answer(msgspec.msgpack.decode(source.read(), type=PastQuestion), tell)


def main() -> None:
    """Run the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
