"""GPUs held and borrowed by each project over time, its quota, and the pool's GPUs, for the tide chart; pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from springtide.scheduler import wire
from springtide.scheduler.gpu_types import total as total_of
from springtide.scheduler.store.ledger import EndedFact, FactKind
from springtide.scheduler.store.records import GpuUse

KINDS = frozenset({FactKind.QUOTA, FactKind.GPUS})
"""The kinds of facts that are part of a chart."""
MAX_POINTS = 1_000
"""Maximum number of points of a chart, apart from the first and the last."""


@dataclass(slots=True)
class _Change:
    """What changes at a moment: GPUs by project, quotas by project and GPU type, and the pool's GPUs by type."""

    held: Counter[str] = field(default_factory=Counter)
    borrowed: Counter[str] = field(default_factory=Counter)
    quotas: dict[tuple[str, str], int | None] = field(default_factory=dict)
    gpus: dict[str, int] = field(default_factory=dict)


def history(
    uses: Sequence[GpuUse],
    start: float,
    end: float,
    quotas: Mapping[str, int | None],
    *,
    facts: Sequence[EndedFact] = (),
    measured: Sequence[wire.UsageShare] = (),
) -> wire.History:
    """Return the GPUs held by each project from ``start`` to ``end``, at most `MAX_POINTS` changes of it.

    ``quotas`` are the present ones, ``facts`` those of the span of `KINDS`, and ``measured`` is the measured use.
    Before the first fact the pool had no GPUs.
    """
    changes: dict[float, _Change] = defaultdict(_Change)
    busy = room = 0.0
    for item in uses:
        begin, stop = max(start, item.start), min(end, item.end)
        if stop <= begin:
            continue
        busy += (stop - begin) * item.gpus
        for at, sign in ((begin, 1), (stop, -1)):
            changes[at].held[item.project] += sign * item.gpus
            changes[at].borrowed[item.project] += sign * item.borrowed
    for fact in facts:
        begins, ends = changes[max(start, fact.start)], changes[fact.end]
        if fact.kind is FactKind.GPUS:
            gpus = int(fact.value or 0)
            begins.gpus[fact.gpu_type] = gpus
            ends.gpus.setdefault(fact.gpu_type, 0)
            room += gpus * (min(end, fact.end) - max(start, fact.start))
        else:
            begins.quotas[fact.project, fact.gpu_type] = None if fact.value is None else int(fact.value)
            ends.quotas.setdefault((fact.project, fact.gpu_type), 0)
    points = _points(changes, start, end)
    return wire.History(
        start=start,
        end=end,
        total=points[-1].total,
        quotas=dict(quotas),
        points=points,
        share_held=min(1.0, busy / room) if room > 0 else 0.0,
        share_used=_share_used(measured),
    )


def _share_used(measured: Sequence[wire.UsageShare]) -> float | None:
    """Return the part of the held time in which the GPUs computed, as far as they report it."""
    reported = [each for each in measured if each.utilization is not None]
    held = sum(each.held for each in reported)
    return sum(each.held * (each.utilization or 0.0) for each in reported) / held if held else None


def _points(changes: Mapping[float, _Change], start: float, end: float) -> list[wire.HistoryPoint]:
    held, borrowed, gpus = Counter[str](), Counter[str](), dict[str, int]()
    quotas: dict[str, dict[str, int | None]] = defaultdict(dict)
    points = [wire.HistoryPoint(at=start, held={}, borrowed={}, total=0)]
    min_gap = (end - start) / MAX_POINTS
    for at in sorted(at for at in changes if at < end):
        change = changes[at]
        held.update(change.held)
        borrowed.update(change.borrowed)
        gpus.update(change.gpus)
        for (project, gpu_type), quota in change.quotas.items():
            quotas[project][gpu_type] = quota
        last = points[-1]
        replaces = at == last.at or at - last.at < min_gap
        changed = {project: total_of(quotas[project]) for project, _ in change.quotas}
        point = wire.HistoryPoint(
            at=last.at if replaces else at,
            held=_present(held),
            borrowed=_present(borrowed),
            total=sum(gpus.values()),
            quotas={**last.quotas, **changed} if replaces else changed,
        )
        points[-1 if replaces else len(points) :] = [point]
    last = points[-1]
    points.append(wire.HistoryPoint(at=end, held=dict(last.held), borrowed=dict(last.borrowed), total=last.total))
    return points


def _present(counts: Mapping[str, int]) -> dict[str, int]:
    return {project: count for project, count in counts.items() if count}
