"""What is told of GPUs that a transaction drains because of a fault; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from springtide.scheduler import sentences
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Gpu, Node, Reason
from springtide.scheduler.notifications import Channel, ChannelEvents, Notification, NotificationEvent
from springtide.scheduler.store.records import POOL, GpuDrainRecord

Fault: TypeAlias = tuple[Node, Gpu, GpuDrainRecord]
"""A GPU that was drained because of a fault, on its node."""


def faults(transaction: Transaction) -> list[Fault]:
    """Return the GPUs that the transaction drains because of a fault."""
    drained = {gpu: record for gpu, record in transaction.gpu_drains.items() if record and record.by == POOL}
    if not drained:
        return []
    return [
        (node, gpu, drained[gpu.uuid])
        for node in transaction.nodes.all
        for gpu in node.devices
        if gpu.uuid in drained
    ]


def notifications(user: str, found: Iterable[Fault], chosen: ChannelEvents) -> Sequence[Notification]:
    """Return what a person is told of faults: nothing if no channel was chosen for them."""
    channels = tuple(channel for channel in Channel if NotificationEvent.FAULT in chosen.get(channel, ()))
    if not channels:
        return ()
    return [
        Notification(
            id=f"{record.gpu}.{record.since:.0f}",
            user=user,
            job="",
            event=NotificationEvent.FAULT,
            title=sentences.text(Reason("notify-gpu-drained", {"gpu": gpu.index, "node": node.name})),
            text=f"{record.why} {sentences.text(Reason('notify-gpu-drained-next'))}",
            channels=channels,
        )
        for node, gpu, record in found
    ]
