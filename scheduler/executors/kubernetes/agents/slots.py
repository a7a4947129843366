"""The GPUs behind the numbered slots of a node; pure.

The pool counts slots, and the kubelet chooses the GPUs of a pod. As soon as an agent tells which these are, the
slots of the pod's worker stand for them, and the other slots for the other GPUs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from springtide.scheduler.model import Gpu, Node
from springtide.scheduler.resources.network_cards import NearestCards
from springtide.scheduler.telemetry.agent.report import ReportedGpu
from springtide.scheduler.telemetry.machine import Device, islands, sockets


def gpus_of_node(node: Node, only_node: bool, gpus: Sequence[ReportedGpu]) -> list[ReportedGpu]:
    """Return the GPUs of a machine that are those of ``node``: of its resource.

    One whose resource is unknown belongs to the only node of its machine. None are returned if there are more than
    the node has slots, as for GPUs that are shared by time: then nothing tells which is which.
    """
    found = [gpu for gpu in gpus if gpu.resource == node.resource or (only_node and not gpu.resource)]
    return found if len(found) <= node.gpus else []


def assign(
    node: Node,
    gpus: Sequence[str],
    held: Mapping[tuple[int, ...], Collection[str]],
    others: Collection[str],
    before: Mapping[int, str],
) -> dict[int, str]:
    """Return the GPU behind each slot of a node.

    ``held`` are the GPUs of known pods by the slots that the pool gave them, ``others`` the GPUs of other pods,
    which slots that count as taken are to stand for. Slots keep the GPU from ``before`` as far as they can.
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
    """Give GPUs that no slot stands for to slots, to each the one from before where that is possible."""
    used = set(found.values())
    free = [gpu for gpu in gpus if gpu not in used]
    kept = {slot: before[slot] for slot in slots if before.get(slot) in free}
    left = [gpu for gpu in free if gpu not in kept.values()]
    found |= kept | dict(zip((slot for slot in slots if slot not in kept), left, strict=False))


def described(node: Node, slots: Mapping[int, str], gpus: Sequence[ReportedGpu]) -> Node:
    """Return the node with the GPUs behind its slots; with islands and sockets if all of them are known.

    ``gpus`` are all GPUs of its machine.
    """
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    reported = {slot: by_uuid[uuid] for slot, uuid in slots.items() if uuid in by_uuid}
    if not reported:
        return node
    devices = tuple(
        Gpu(gpu.uuid, slot.index, gpu.name or slot.name, gpu.memory_mib, cards=_nearest(gpu))
        if (gpu := reported.get(slot.index))
        else slot
        for slot in node.devices
    )
    if len(reported) < node.gpus:
        return replace(node, devices=devices)
    place = {uuid: slot for slot, uuid in slots.items()}
    all_slots = [
        Device(
            gpu.uuid,
            gpu.name,
            gpu.memory_mib,
            frozenset(place[gpus[other].uuid] for other in gpu.linked if gpus[other].uuid in place),
            gpu.socket,
        )
        for gpu in (reported[slot] for slot in range(node.gpus))
    ]
    found = sockets(all_slots)
    return replace(node, devices=devices, islands=islands(all_slots), sockets=found if len(found) > 1 else ())


def _nearest(gpu: ReportedGpu) -> NearestCards | None:
    return None if gpu.cards is None else NearestCards(gpu.cards.within, gpu.cards.names)
