"""The oracle of the ledger: GPU-seconds of entries against those of the attempts, from their rows alone."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from math import isclose

ATTEMPTS = "SELECT job, number, gpus, created, ended FROM attempts WHERE gpus > 0"
ENTRIES = "SELECT job, attempt, gpus, start, \"end\", borrowed, id FROM ledger WHERE job <> '' ORDER BY id"
SUMS = "SELECT step, SUM(held), SUM(borrowed) FROM ledger_sums GROUP BY step"
SUMMED = "SELECT value FROM meta WHERE key = 'ledger_summed'"


def gpu_seconds(gpus: int, start: float, end: float) -> Fraction:
    """Return the exact product: rounding hides no second, and makes none up."""
    return gpus * (Fraction(end) - Fraction(start))


def disagreements(store: sqlite3.Connection) -> Iterator[str]:
    """Yield a sentence for each difference between the attempts and the ledger of a pool in which nothing runs."""
    held: dict[str, Fraction] = defaultdict(Fraction)
    for job, number, gpus, created, ended in store.execute(ATTEMPTS):
        if ended is None:
            yield f"attempt {number} of {job} has not ended"
        else:
            held[job] += gpu_seconds(gpus, created, ended)
    entered: dict[str, Fraction] = defaultdict(Fraction)
    last: dict[tuple[str, int], float] = {}
    summed = next(iter(store.execute(SUMMED)), (0,))[0]
    totals = [0.0, 0.0]
    for job, attempt, gpus, start, end, borrowed, number in store.execute(ENTRIES):
        entered[job] += gpu_seconds(gpus, start, end)
        if last.get((job, attempt), start) != start or end <= start:
            yield f"entry {number} of attempt {attempt} of {job} is from {start} to {end}, after {last}"
        if not 0 <= borrowed <= gpus:
            yield f"entry {number} of {job} borrows {borrowed} of {gpus} GPUs"
        last[job, attempt] = end
        if number <= summed:
            totals = [totals[0] + gpus * (end - start), totals[1] + borrowed * (end - start)]
    for job in sorted(held.keys() | entered.keys()):
        if held[job] != entered[job]:
            yield f"{job} held {float(held[job])} GPU-seconds, {float(entered[job])} by the ledger"
    for job, attempt in store.execute("SELECT job, attempt FROM holdings"):
        yield f"attempt {attempt} of {job} still holds GPUs"
    for step, *sums in store.execute(SUMS):
        if not all(isclose(one, other, abs_tol=1e-3) for one, other in zip(sums, totals, strict=True)):
            yield f"the sums of {step} s are {sums}, those of their entries {totals}"
