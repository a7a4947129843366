"""Deliveries of notifications through channels that leave the pool's pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, bindparam, delete, desc, func, select, update

from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import (
    OPEN,
    Channel,
    Delivery,
    DeliveryState,
)
from springtide.scheduler.store import schema
from springtide.scheduler.store.rows import Rows, as_json

MOST_TRIED = 1_000
"""Number of the latest deliveries that show whether a channel fails."""
_table = schema.deliveries
_open_states = [state.value for state in OPEN]
_settle = (
    update(_table)
    .where(_table.c.event == bindparam("of_event"), _table.c.channel == bindparam("through"))
    .values(state=bindparam("to_state"), at=bindparam("changed"), why=bindparam("reason"))
)
_rows = Rows(_table, Delivery)


def add(connection: Connection, new: Sequence[Delivery]) -> None:
    """Insert deliveries."""
    _rows.insert(connection, new)


def settle(connection: Connection, changed: Sequence[Delivery]) -> None:
    """Write the states of deliveries."""
    rows = [
        {
            "of_event": delivery.event,
            "through": delivery.channel,
            "to_state": delivery.state.value,
            "changed": delivery.at,
            "reason": None if delivery.why is None else as_json(delivery.why),
        }
        for delivery in changed
    ]
    connection.execute(_settle, rows)


def unfinished(connection: Connection) -> list[Delivery]:
    """Return the deliveries that wait or are being sent, oldest first."""
    query = select(_table).where(_table.c.state.in_(_open_states)).order_by(_table.c.event)
    return _rows.read(connection, query)


def waiting(connection: Connection, user: str, channel: Channel, limit: int) -> list[Delivery]:
    """Return a person's waiting deliveries through a channel, oldest first."""
    wanted = (
        _table.c.state == DeliveryState.WAITING.value,
        _table.c.user == user,
        _table.c.channel == channel,
    )
    query = select(_table).where(*wanted).order_by(_table.c.event).limit(limit)
    return _rows.read(connection, query)


def made_after(connection: Connection, events: Collection[int], moment: float) -> set[int]:
    """Return those of the events that were recorded after a moment, in seconds since the epoch."""
    table = schema.events
    query = select(table.c.id).where(table.c.id.in_(events), table.c.at > moment)
    return set(connection.execute(query).scalars())


def latest(connection: Connection, user: str, channels: Sequence[Channel]) -> dict[Channel, Delivery]:
    """Return a person's latest tried delivery through each of the channels, whatever its outcome."""
    found = {}
    for channel in channels:
        tried = (_table.c.state != DeliveryState.WAITING.value) | _table.c.why.is_not(None)
        query = select(_table).where(_table.c.user == user, _table.c.channel == channel, tried)
        for delivery in _rows.read(connection, query.order_by(desc(_table.c.at), desc(_table.c.event)).limit(1)):
            found[channel] = delivery
    return found


def failing(connection: Connection, since: float, own: Collection[str]) -> dict[Channel, tuple[float, Reason]]:
    """Return since when no message by a channel has arrived, and why the latest did not, of those that fail.

    Only attempts after ``since`` count; the reasons ``own`` are those of single people.
    """
    tried = (_table.c.state.in_([DeliveryState.SENT.value, DeliveryState.FAILED.value])) | _table.c.why.is_not(
        None
    )
    query = select(_table).where(_table.c.at >= since, tried).order_by(desc(_table.c.at)).limit(MOST_TRIED)
    found: dict[Channel, tuple[float, Reason]] = {}
    arrived = set[Channel]()
    for delivery in _rows.read(connection, query):
        if delivery.state is DeliveryState.SENT:
            arrived.add(delivery.channel)
        elif delivery.channel not in arrived and delivery.why is not None and delivery.why.code not in own:
            _, why = found.get(delivery.channel, (0.0, delivery.why))
            found[delivery.channel] = delivery.at, why
    return found


def prune(connection: Connection, keep: int) -> None:
    """Delete finished deliveries of all but about the ``keep`` newest events."""
    newest = connection.execute(select(func.max(schema.events.c.id))).scalar()
    if newest is not None:
        finished = _table.c.state.not_in(_open_states)
        connection.execute(delete(_table).where(finished, _table.c.event <= newest - keep))
