"""Lent GPU-hours: the unused quota that others borrow; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from springtide.scheduler.store.ledger import EndedFact, FactKind, Lot

NOTHING = 0.0, 0.0
"""The GPU-seconds that a project held and borrowed that held nothing."""


def lent(
    lots: Mapping[Lot, tuple[float, float]], facts: Iterable[EndedFact], span: tuple[float, float], step: int
) -> dict[Lot, float]:
    """Return the GPU-seconds that each project lent of a type in each step of a span.

    ``lots`` have the GPU-seconds that projects held and borrowed. The unused quota of a project is its own quota,
    less what it held within that. In each step the projects with unused quota lend the borrowed GPUs in proportion
    to that, and never more than it: GPUs beyond the unused quotas have no lender.
    """
    unused: defaultdict[tuple[int, str], list[tuple[Lot, float]]] = defaultdict(list)
    for lot, seconds in _own_quotas(facts, span, step).items():
        held, beyond = lots.get(lot, NOTHING)
        if (own := seconds - (held - beyond)) > 0.0:
            unused[lot[0], lot[2]].append((lot, own))
    borrowed: defaultdict[tuple[int, str], float] = defaultdict(float)
    for (at, _, gpu_type), (_, beyond) in lots.items():
        borrowed[at, gpu_type] += beyond
    found = {}
    for of_type, of_projects in unused.items():
        if wanted := borrowed.get(of_type, 0.0):
            share = min(1.0, wanted / sum(own for _, own in of_projects))
            found.update({lot: share * own for lot, own in of_projects})
    return found


def _own_quotas(facts: Iterable[EndedFact], span: tuple[float, float], step: int) -> dict[Lot, float]:
    """Return the GPU-seconds of quota that each project has for itself; an unlimited one has none."""
    whole, own = _by_project(facts, FactKind.QUOTA), _by_project(facts, FactKind.OWN_QUOTA)
    found: defaultdict[Lot, float] = defaultdict(float)
    for (project, gpu_type), quotas in whole.items():
        for start, end, value in _instead(quotas, own.get((project, gpu_type), ())):
            for at, seconds in _steps(max(start, span[0]), min(end, span[1]), step):
                found[at, project, gpu_type] += value * seconds
    return found


def _by_project(facts: Iterable[EndedFact], kind: FactKind) -> dict[tuple[str, str], list[EndedFact]]:
    found: defaultdict[tuple[str, str], list[EndedFact]] = defaultdict(list)
    for fact in facts:
        if fact.kind is kind:
            found[fact.project, fact.gpu_type].append(fact)
    return found


def _instead(quotas: Sequence[EndedFact], own: Sequence[EndedFact]) -> Iterator[tuple[float, float, float]]:
    """Yield spans with values: those of ``own``, and those of ``quotas`` where it has none."""
    for fact in own:
        if fact.value:
            yield fact.start, fact.end, fact.value
    for fact in quotas:
        if not fact.value:
            continue
        start = fact.start
        for other in sorted((each for each in own if each.end > fact.start), key=lambda each: each.start):
            if other.start >= fact.end:
                break
            yield start, other.start, fact.value
            start = max(start, other.end)
        yield start, fact.end, fact.value


def _steps(start: float, end: float, step: int) -> Iterator[tuple[int, float]]:
    """Yield the begin of each step of a span, and the seconds of the span in it."""
    while start < end:
        at = int(start // step * step)
        yield at, min(end, at + step) - start
        start = float(at + step)
