"""The outcome in the other pool, and how far the simulation is from the record, in sentences; pure."""

from __future__ import annotations

from collections.abc import Iterator

from springtide.scheduler.wire.past import PastFigures, PastOutcome
from springtide.scheduler.wording import amount, capital, duration, listed, quoted

SAME = 1.0
"""Seconds by which waits may differ and count as equal."""

UNIT_DIGITS = 10
"""GPU-hours from which on they are whole numbers."""
CLOSE = 0.02
"""Part by which GPU-hours of the simulation may differ from the recorded ones."""
LEAST = 0.05
"""GPU-hours by which they may differ in any case."""


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


def deviation(recorded: PastOutcome, simulated: PastOutcome) -> str:
    """Return whose simulated GPU-hours differ from the recorded ones by more than `CLOSE`; else nothing."""
    pairs = [(quoted(name), was, simulated.projects[name]) for name, was in recorded.projects.items()]
    if recorded.others is not None and simulated.others is not None:
        pairs.append(("all others", recorded.others, simulated.others))
    apart = [f"{who} {_hours(after)} instead of {_hours(was)}" for who, was, after in pairs if _differ(was, after)]
    if not apart:
        return ""
    return (
        f"The pool as it was, simulated, differs from the record: GPU-hours of {listed(apart)}. Compare the two "
        "simulations with each other, not with a report. Among few jobs a second may decide which one goes first, "
        "and the others follow from that."
    )


def _differ(recorded: PastFigures, simulated: PastFigures) -> bool:
    difference = abs(simulated.gpu_hours - recorded.gpu_hours)
    return difference > max(LEAST, CLOSE * recorded.gpu_hours)


def _hours(figures: PastFigures) -> str:
    return f"{figures.gpu_hours:.2f}" if figures.gpu_hours < UNIT_DIGITS else amount(round(figures.gpu_hours))
