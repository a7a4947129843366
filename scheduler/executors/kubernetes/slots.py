"""The GPUs behind the numbered slots of a node that gives out its GPUs itself; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from springtide.scheduler.model import Node

PodName: TypeAlias = tuple[str, str]
"""Namespace and name of a pod."""
PodPlaces: TypeAlias = Mapping[PodName, tuple[str, tuple[int, ...]]]
"""Node of the pool and slots of pods."""


def assign(
    node: Node,
    gpus: Sequence[str],
    held: Mapping[tuple[int, ...], Collection[str]],
    others: Collection[str],
    before: Mapping[int, str],
) -> dict[int, str]:
    """Return the GPU behind each slot of a node.

    ``held`` are the GPUs of known pods by their slots in the pool, ``others`` the GPUs of other pods, to assign to
    slots that count as taken. Slots keep the GPU from ``before`` as far as possible.
    """
    order = {gpu: at for at, gpu in enumerate(gpus)}
    found: dict[int, str] = {}
    for slots, theirs in held.items():
        known = sorted({*theirs} & order.keys() - {*found.values()}, key=order.__getitem__)
        kept = {slot: before[slot] for slot in slots if before.get(slot) in known}
        left = [gpu for gpu in known if gpu not in kept.values()]
        found |= kept | dict(zip((slot for slot in sorted(slots) if slot not in kept), left, strict=False))
    waiting = {slot for slots in held for slot in slots} - found.keys()
    taken = [slot for slot in sorted(node.taken) if slot not in found and slot not in waiting]
    _fill(found, taken, [gpu for gpu in gpus if gpu in others], before)
    _fill(found, [slot for slot in range(node.gpus) if slot not in found], gpus, before)
    return found


def _fill(found: dict[int, str], slots: Sequence[int], gpus: Sequence[str], before: Mapping[int, str]) -> None:
    """Assign the GPUs without a slot to these slots, to each its earlier one if possible."""
    used = set(found.values())
    free = [gpu for gpu in gpus if gpu not in used]
    kept = {slot: before[slot] for slot in slots if before.get(slot) in free}
    left = [gpu for gpu in free if gpu not in kept.values()]
    found |= kept | dict(zip((slot for slot in slots if slot not in kept), left, strict=False))
