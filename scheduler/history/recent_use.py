"""Recent use: the GPU time that projects had beyond their quotas, of which half is forgotten in each half-life."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec.structs import replace

from springtide.scheduler.model import RecentUse, UseKey

RENEWED_EVERY = 60.0
"""Seconds after which the use of a project that goes on borrowing is computed again, if its jobs change."""


def used_by(record: RecentUse, now: float, half_life: float) -> float:
    """Return the recent use at ``now``, in GPU-seconds: what is left of the past and of what is borrowed since."""
    kept = math.exp2(-max(0.0, now - record.at) / half_life)
    return record.gpu_seconds * kept + record.borrowed * half_life / math.log(2) * (1.0 - kept)


def renewed(
    records: Mapping[UseKey, RecentUse], borrowed: Mapping[UseKey, int], now: float, half_life: float
) -> list[RecentUse]:
    """Return the records that change because these numbers of GPUs are borrowed from ``now`` on."""
    found: list[RecentUse] = []
    for key, gpus in borrowed.items():
        before = records.get(key, RecentUse(*key, at=now))
        goes_on = gpus == before.borrowed
        if goes_on and (not gpus or now < before.at + RENEWED_EVERY):
            continue
        used = used_by(before, now, half_life)
        found.append(replace(before, gpu_seconds=used, borrowed=gpus, at=max(now, before.at)))
    return found
