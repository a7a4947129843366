"""Notifications: what people chose, and deliveries through channels that leave the pool's pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, bindparam, delete, desc, func, insert, select, update

from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import (
    OPEN,
    Channel,
    Delivery,
    DeliveryState,
    Notification,
    NotificationChoice,
)
from springtide.scheduler.store import schema

_table = schema.deliveries
_open_states = [state.value for state in OPEN]
_settle = (
    update(_table)
    .where(_table.c.event == bindparam("of_event"), _table.c.channel == bindparam("through"))
    .values(state=bindparam("to_state"), at=bindparam("changed"), why=bindparam("reason"))
)
_choice = msgspec.json.Decoder(NotificationChoice)
_notification = msgspec.json.Decoder(Notification)
_reason = msgspec.json.Decoder(Reason)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def choices(connection: Connection) -> tuple[NotificationChoice, ...]:
    """Return what all people chose."""
    rows = connection.execute(select(schema.notification_choices.c.body)).scalars()
    return tuple(map(_choice.decode, rows))


def put_choices(connection: Connection, changed: Sequence[NotificationChoice]) -> None:
    """Insert or replace what people chose."""
    table = schema.notification_choices
    if changed:
        connection.execute(delete(table).where(table.c.user.in_([choice.user for choice in changed])))
        rows = [{"user": choice.user, "body": _text(choice)} for choice in changed]
        connection.execute(insert(table), rows)


def add(connection: Connection, new: Sequence[Delivery]) -> None:
    """Insert deliveries."""
    if new:
        connection.execute(insert(_table), [_row(delivery) for delivery in new])


def settle(connection: Connection, changed: Sequence[Delivery]) -> None:
    """Write the states of deliveries."""
    rows = [
        {
            "of_event": delivery.event,
            "through": delivery.channel,
            "to_state": delivery.state.value,
            "changed": delivery.at,
            "reason": None if delivery.why is None else _text(delivery.why),
        }
        for delivery in changed
    ]
    connection.execute(_settle, rows)


def unfinished(connection: Connection) -> list[Delivery]:
    """Return the deliveries that wait or are being sent, oldest first."""
    query = select(_table).where(_table.c.state.in_(_open_states)).order_by(_table.c.event)
    return [_delivery(row) for row in connection.execute(query)]


def waiting(connection: Connection, user: str, channel: Channel, limit: int) -> list[Delivery]:
    """Return the deliveries of a person that wait for a channel, oldest first."""
    wanted = (
        _table.c.state == DeliveryState.WAITING.value,
        _table.c.user == user,
        _table.c.channel == channel,
    )
    query = select(_table).where(*wanted).order_by(_table.c.event).limit(limit)
    return [_delivery(row) for row in connection.execute(query)]


def latest(connection: Connection, user: str, channels: Sequence[Channel]) -> dict[Channel, Delivery]:
    """Return the latest delivery of a person through each of the channels that was tried, whatever its outcome."""
    found = {}
    for channel in channels:
        tried = (_table.c.state != DeliveryState.WAITING.value) | _table.c.why.is_not(None)
        query = select(_table).where(_table.c.user == user, _table.c.channel == channel, tried)
        row = connection.execute(query.order_by(desc(_table.c.at), desc(_table.c.event)).limit(1)).first()
        if row is not None:
            found[channel] = _delivery(row)
    return found


def prune(connection: Connection, keep: int) -> None:
    """Delete finished deliveries of all but about the ``keep`` newest events."""
    newest = connection.execute(select(func.max(schema.events.c.id))).scalar()
    if newest is not None:
        finished = _table.c.state.not_in(_open_states)
        connection.execute(delete(_table).where(finished, _table.c.event <= newest - keep))


def _row(delivery: Delivery) -> dict[str, Any]:
    return {
        "event": delivery.event,
        "channel": delivery.channel,
        "user": delivery.user,
        "state": delivery.state.value,
        "at": delivery.at,
        "notification": _text(delivery.notification),
        "why": None if delivery.why is None else _text(delivery.why),
    }


def _delivery(row: Row[Any]) -> Delivery:
    return Delivery(
        row.event,
        row.channel,
        row.at,
        _notification.decode(row.notification),
        DeliveryState(row.state),
        None if row.why is None else _reason.decode(row.why),
    )
