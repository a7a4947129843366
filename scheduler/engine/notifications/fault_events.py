"""What is told of GPUs and nodes that are drained because of a fault, and of stopped launches; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from springtide.scheduler import sentences
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import Channel, ChannelEvents, Notification, NotificationEvent
from springtide.scheduler.store.records import POOL


@dataclass(frozen=True, slots=True)
class Fault:
    """A GPU or node that was drained because of a fault, or a launch stop: a unique id, and what is told of it."""

    id: str
    title: Reason
    why: str
    next: Reason


def faults(transaction: Transaction) -> list[Fault]:
    """Return the GPUs and the nodes that the transaction drains because of a fault, and its launch stops."""
    drained = {gpu: record for gpu, record in transaction.gpu_drains.items() if record and record.by == POOL}
    found = [
        Fault(
            f"{gpu.uuid}.{drained[gpu.uuid].since:.0f}",
            Reason("notify-gpu-drained", {"gpu": gpu.index, "node": node.name}),
            drained[gpu.uuid].why,
            Reason("notify-gpu-drained-next"),
        )
        for node in (transaction.nodes.all if drained else ())
        for gpu in node.devices
        if gpu.uuid in drained
    ]
    found += [
        Fault(
            f"{name}.{record.since:.0f}",
            Reason("notify-node-drained", {"node": name}),
            record.why,
            Reason("notify-node-drained-next", {"finish": record.finish}),
        )
        for name, record in transaction.drains.items()
        if record and record.by == POOL
    ]
    found += [
        Fault(
            f"launch-stop.{stop.block.scope}.{stop.at:.3f}",
            Reason("notify-launch-stopped", {"scope": stop.block.scope.value, "name": stop.block.name}),
            stop.detail,
            Reason("notify-launch-stopped-next"),
        )
        for stop in transaction.launch_stops
    ]
    return found


def notifications(user: str, found: Iterable[Fault], chosen: ChannelEvents) -> Sequence[Notification]:
    """Return what a person is told of faults: nothing if no channel was chosen for them."""
    channels = tuple(channel for channel in Channel if NotificationEvent.FAULT in chosen.get(channel, ()))
    if not channels:
        return ()
    return [
        Notification(
            id=fault.id,
            user=user,
            job="",
            event=NotificationEvent.FAULT,
            title=sentences.text(fault.title),
            text=f"{fault.why} {sentences.text(fault.next)}",
            channels=channels,
        )
        for fault in found
    ]
