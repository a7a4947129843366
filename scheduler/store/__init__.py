"""The truth of intent, queue, decisions and accounting, in SQL."""

from springtide.scheduler.store.errors import (
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreTakenError,
    StoreTooNewError,
)
from springtide.scheduler.store.store import Store

__all__ = ["Store", "StoreError", "StoreFullError", "StoreLockedError", "StoreTakenError", "StoreTooNewError"]
