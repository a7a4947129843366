"""Recent use: the GPU time that projects had beyond their quotas, of which half is forgotten in each half-life."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from springtide.scheduler.model import RecentUse, UseKey

INTERVAL_PER_PROJECT = 0.06
"""Seconds between two renewals of the use of a project, for each project that borrows: the cost has a bound."""


def used_by(record: RecentUse, now: float, half_life: float) -> float:
    """Return the recent use at ``now``, in GPU-seconds: past use and GPUs borrowed since, both with decay."""
    kept = math.exp2(-max(0.0, now - record.at) / half_life)
    return record.gpu_seconds * kept + record.borrowed * half_life / math.log(2) * (1.0 - kept)


def as_of(record: RecentUse, now: float, half_life: float) -> RecentUse:
    """Return the same use, computed at ``now``."""
    return replace(record, gpu_seconds=used_by(record, now, half_life), at=max(now, record.at))


def renewed(
    records: Mapping[UseKey, RecentUse], borrowed: Mapping[UseKey, int], now: float, half_life: float
) -> list[RecentUse]:
    """Return the records that change because these numbers of GPUs are borrowed from ``now`` on.

    If any number has changed, the use of all other borrowing projects is computed again, too: projects are
    compared when jobs end or start.
    """
    changed = {
        key: replace(as_of(before, now, half_life), borrowed=gpus)
        for key, gpus in borrowed.items()
        if gpus != (before := records.get(key, RecentUse(*key, at=now))).borrowed
    }
    if not changed:
        return []
    others = [record for key, record in records.items() if record.borrowed and key not in changed]
    interval = INTERVAL_PER_PROJECT * len(others)
    return [*changed.values(), *(as_of(record, now, half_life) for record in others if now > record.at + interval)]
