"""The durable state in SQL: intents, the queue, decisions and accounting."""

from springtide.scheduler.store.errors import (
    FilesGoneError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreMovedError,
    StoreTakenError,
    StoreTooNewError,
    StoreUnsureError,
)
from springtide.scheduler.store.outside import read_decision, read_left_jobs, read_withheld
from springtide.scheduler.store.queries.listing import ORDERS, Position, position
from springtide.scheduler.store.store import Store

__all__ = [
    "ORDERS",
    "FilesGoneError",
    "Position",
    "Store",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreMovedError",
    "StoreTakenError",
    "StoreTooNewError",
    "StoreUnsureError",
    "position",
    "read_decision",
    "read_left_jobs",
    "read_withheld",
]
