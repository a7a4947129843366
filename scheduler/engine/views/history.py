"""GPUs held by each project over time, for the tide chart; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from springtide.scheduler import wire
from springtide.scheduler.store.records import GpuUse

MAX_POINTS = 1_000
"""Maximum number of points of a chart, apart from the first and the last."""


def history(
    uses: Sequence[GpuUse],
    start: float,
    end: float,
    total: int,
    quotas: Mapping[str, int | None],
    *,
    measured: Sequence[wire.UsageShare] = (),
) -> wire.History:
    """Return the GPUs held by each project from ``start`` to ``end``, at most `MAX_POINTS` changes of it.

    ``total`` is the number of train GPUs, ``measured`` the measured use of them.
    """
    deltas: dict[float, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    busy = 0.0
    for item in uses:
        begin = max(start, item.start)
        stop = end if item.end is None else min(end, item.end)
        if stop <= begin:
            continue
        busy += (stop - begin) * item.gpus
        deltas[begin][item.project] += item.gpus
        deltas[stop][item.project] -= item.gpus
    span = (end - start) * total
    return wire.History(
        start=start,
        end=end,
        total=total,
        quotas=dict(quotas),
        points=_points(deltas, start, end),
        share_held=min(1.0, busy / span) if span > 0 else 0.0,
        share_used=_share_used(measured),
    )


def _share_used(measured: Sequence[wire.UsageShare]) -> float | None:
    """Return the part of the held time in which the GPUs computed, as far as they report it."""
    reported = [each for each in measured if each.utilization is not None]
    held = sum(each.held for each in reported)
    return sum(each.held * (each.utilization or 0.0) for each in reported) / held if held else None


def _points(deltas: Mapping[float, Mapping[str, int]], start: float, end: float) -> list[wire.HistoryPoint]:
    now: dict[str, int] = {}
    points = [wire.HistoryPoint(at=start, held={})]
    min_gap = (end - start) / MAX_POINTS
    for at in sorted(deltas):
        for project, change in deltas[at].items():
            now[project] = now.get(project, 0) + change
        if at >= end:
            break
        point = wire.HistoryPoint(at=at, held={project: count for project, count in now.items() if count})
        if at == points[-1].at or at - points[-1].at < min_gap:
            points[-1] = wire.HistoryPoint(at=points[-1].at, held=point.held)
        else:
            points.append(point)
    last = points[-1].held
    points.append(wire.HistoryPoint(at=end, held=dict(last)))
    return points
