"""What is told of workspaces whose GPUs are not used: to their owners, before and after they are stopped; pure."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler import sentences
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import Channel, ChannelEvents, Notification, NotificationEvent
from springtide.scheduler.sentences.sentence import Params
from springtide.scheduler.store.records import IdleRecord


def changed(transaction: Transaction) -> list[IdleRecord]:
    """Return the records by which the transaction tells the owner of a workspace something."""
    found = []
    for key, record in transaction.idle_records.items():
        before = transaction.state.idle_records.get(key)
        if record is not None and _news(before, record):
            found.append(record)
    return found


def _news(before: IdleRecord | None, after: IdleRecord) -> bool:
    if after.stopped is not None:
        return before is None or before.stopped is None
    return after.told is not None and (before is None or before.told != after.told)


def notifications(record: IdleRecord, chosen: ChannelEvents) -> Sequence[Notification]:
    """Return what the owner is told: nothing if no channel was chosen for it."""
    channels = tuple(channel for channel in Channel if NotificationEvent.WORKSPACE in chosen.get(channel, ()))
    if not channels:
        return ()
    about: Params = {"server": record.server, "gpus": record.gpus, "unused": record.unused}
    if record.stopped is not None:
        title, text = Reason("notify-workspace-stopped", about), Reason("notify-workspace-stopped-next")
    else:
        title = Reason("notify-workspace-unused", about)
        notice: float | None = None if record.stops is None or record.told is None else record.stops - record.told
        text = Reason("notify-workspace-stays" if notice is None else "notify-workspace-stops", {"notice": notice})
    at = record.stopped if record.stopped is not None else record.told
    return [
        Notification(
            id=f"workspace.{record.user}.{record.server}.{at:.0f}",
            user=record.user,
            job="",
            event=NotificationEvent.WORKSPACE,
            title=sentences.text(title),
            text=sentences.text(text),
            channels=channels,
        )
    ]
