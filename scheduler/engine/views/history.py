"""GPUs held and borrowed by each project over time, and its quota, for the tide chart; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from springtide.scheduler import wire
from springtide.scheduler.gpu_types import total as total_of
from springtide.scheduler.store.ledger import EndedFact
from springtide.scheduler.store.records import GpuUse

MAX_POINTS = 1_000
"""Maximum number of points of a chart, apart from the first and the last."""


@dataclass(slots=True)
class _Change:
    """What changes at a moment: GPUs by project, and quotas by project and GPU type."""

    held: Counter[str] = field(default_factory=Counter)
    borrowed: Counter[str] = field(default_factory=Counter)
    quotas: dict[tuple[str, str], int | None] = field(default_factory=dict)


def history(
    uses: Sequence[GpuUse],
    start: float,
    end: float,
    total: int,
    quotas: Mapping[str, int | None],
    *,
    quota_facts: Sequence[EndedFact] = (),
    measured: Sequence[wire.UsageShare] = (),
) -> wire.History:
    """Return the GPUs held by each project from ``start`` to ``end``, at most `MAX_POINTS` changes of it.

    ``total`` is the number of train GPUs, ``quotas`` are the present ones, ``quota_facts`` those of the span by
    GPU type, and ``measured`` is the measured use.
    """
    changes: dict[float, _Change] = defaultdict(_Change)
    busy = 0.0
    for item in uses:
        begin, stop = max(start, item.start), min(end, item.end)
        if stop <= begin:
            continue
        busy += (stop - begin) * item.gpus
        for at, sign in ((begin, 1), (stop, -1)):
            changes[at].held[item.project] += sign * item.gpus
            changes[at].borrowed[item.project] += sign * item.borrowed
    for fact in quota_facts:
        quota = None if fact.value is None else int(fact.value)
        changes[max(start, fact.start)].quotas[fact.project, fact.gpu_type] = quota
        changes[fact.end].quotas.setdefault((fact.project, fact.gpu_type), 0)
    span = (end - start) * total
    return wire.History(
        start=start,
        end=end,
        total=total,
        quotas=dict(quotas),
        points=_points(changes, start, end),
        share_held=min(1.0, busy / span) if span > 0 else 0.0,
        share_used=_share_used(measured),
    )


def _share_used(measured: Sequence[wire.UsageShare]) -> float | None:
    """Return the part of the held time in which the GPUs computed, as far as they report it."""
    reported = [each for each in measured if each.utilization is not None]
    held = sum(each.held for each in reported)
    return sum(each.held * (each.utilization or 0.0) for each in reported) / held if held else None


def _points(changes: Mapping[float, _Change], start: float, end: float) -> list[wire.HistoryPoint]:
    held, borrowed = Counter[str](), Counter[str]()
    quotas: dict[str, dict[str, int | None]] = defaultdict(dict)
    points = [wire.HistoryPoint(at=start, held={}, borrowed={})]
    min_gap = (end - start) / MAX_POINTS
    for at in sorted(at for at in changes if at < end):
        change = changes[at]
        held.update(change.held)
        borrowed.update(change.borrowed)
        for (project, gpu_type), quota in change.quotas.items():
            quotas[project][gpu_type] = quota
        last = points[-1]
        replaces = at == last.at or at - last.at < min_gap
        changed = {project: total_of(quotas[project]) for project, _ in change.quotas}
        point = wire.HistoryPoint(
            at=last.at if replaces else at,
            held=_present(held),
            borrowed=_present(borrowed),
            quotas={**last.quotas, **changed} if replaces else changed,
        )
        points[-1 if replaces else len(points) :] = [point]
    points.append(wire.HistoryPoint(at=end, held=dict(points[-1].held), borrowed=dict(points[-1].borrowed)))
    return points


def _present(counts: Mapping[str, int]) -> dict[str, int]:
    return {project: count for project, count in counts.items() if count}
