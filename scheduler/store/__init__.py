"""The durable state in SQL: intents, the queue, decisions and accounting."""

from springtide.scheduler.store.decisions import read_decision
from springtide.scheduler.store.errors import (
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreTakenError,
    StoreTooNewError,
)
from springtide.scheduler.store.store import Store

__all__ = [
    "Store",
    "StoreDamagedError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreTakenError",
    "StoreTooNewError",
    "read_decision",
]
