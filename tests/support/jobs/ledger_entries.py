"""The entries of the ledger, for tests."""

from __future__ import annotations

from sqlalchemy import Connection, select

from springtide.scheduler.store import codec, schema
from springtide.scheduler.store.ledger import LedgerEntry
from springtide.scheduler.store.tables import Tables


def kept_entries(connection: Connection, now: float) -> list[LedgerEntry]:
    """Return all entries that are kept, those of what is held up to ``now`` included."""
    ended = codec.ledger.read(connection, select(schema.ledger).order_by(schema.ledger.c.id))
    holdings = Tables.holdings.load(connection).values()
    return [*ended, *(entry for holding in holdings for entry in holding.entries(now))]
