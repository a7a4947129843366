"""What can go wrong with the store, in words for the one who runs it."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not do what was asked."""


class StoreLockedError(StoreError):
    """Another service has the store open."""


class StoreTooNewError(StoreError):
    """The store was written by a newer version of Springtide."""


class StoreFullError(StoreError):
    """There is no room left: nothing of the transaction was written."""


class StoreTakenError(StoreError):
    """Another service has taken the store over since it was opened: this one must not write any more."""
