"""What would have been, in one sentence; pure."""

from __future__ import annotations

from collections.abc import Iterator

from springtide.scheduler.wire.past import PastFigures, PastOutcome
from springtide.scheduler.wording import amount, capital, duration, listed

SAME = 1.0
"""Seconds by which waits may differ and count as equal."""


def headline(before: PastOutcome, after: PastOutcome) -> str:
    """Return how the pool that might have been differs from the one that was."""
    if before == after:
        return "Nothing would have been different."
    return f"{capital(listed(list(_parts(before.total, after.total))) or 'almost nothing changes')}."


def _parts(before: PastFigures, after: PastFigures) -> Iterator[str]:
    yield from _wait("median wait", before.wait_p50_s, after.wait_p50_s)
    if before.wait_p50_s is None or after.wait_p50_s is None or abs(before.wait_p50_s - after.wait_p50_s) < SAME:
        yield from _wait("95 % wait", before.wait_p95_s, after.wait_p95_s)
    yield from _more("pauses", before.pauses, after.pauses)
    finished = after.finished - before.finished
    if finished:
        word = "job finishes" if abs(finished) == 1 else "jobs finish"
        yield f"{amount(abs(finished))} {'more' if finished > 0 else 'fewer'} {word}"
    if before.cost is not None and after.cost is not None and round(after.cost) != round(before.cost):
        yield f"cost {amount(round(before.cost))} → {amount(round(after.cost))}"


def _wait(name: str, before: float | None, after: float | None) -> Iterator[str]:
    if before is not None and after is not None and abs(before - after) >= SAME:
        yield f"{name} {duration(before)} → {duration(after)}"


def _more(name: str, before: int, after: int) -> Iterator[str]:
    if before == after:
        return
    if not before:
        yield f"{amount(after)} {name} instead of none"
        return
    part = abs(after - before) / before
    yield f"{part:.0%} {'more' if after > before else 'fewer'} {name}".replace("%", " %", 1)
