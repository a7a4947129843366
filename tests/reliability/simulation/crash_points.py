"""Every point of the script at which the service may crash, and the comparison with the run that never did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simulation.faults import CrashPoints
from simulation.script import Outcome, play
from simulation.store import StoreBed


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """Before or after the ``number``-th write or action of a run."""

    kind: str
    number: int
    after: bool

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.kind} {self.number}"


def points_of(outcome: Outcome) -> list[Point]:
    """Return every point of a run."""
    numbers = (("write", outcome.writes), ("action", outcome.actions))
    return [
        Point(kind, number, after)
        for kind, count in numbers
        for number in range(1, count + 1)
        for after in (False, True)
    ]


def differences(bed: StoreBed, expected: Outcome, points: list[Point]) -> Iterator[str]:
    """Crash once at each point, and yield a sentence for each difference from the run that never crashed."""
    for point in points:
        outcome = play(bed, CrashPoints(point.kind, point.number, after=point.after))
        if outcome.crashes != 1:
            yield f"{point}: the service crashed {outcome.crashes} times"
        for problem in outcome.problems:
            yield f"{point}: {problem}"
        for name, end in expected.ends.items():
            if outcome.ends[name] != end:
                yield f"{point}: {name} ended as {outcome.ends[name]}, not as {end}"
