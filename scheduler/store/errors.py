"""Errors of the store; their messages are for the admin of the service."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not be read or written."""


class StoreLockedError(StoreError):
    """Another service has the store open."""


class StoreTooNewError(StoreError):
    """The store was written by a newer version of Springtide."""


class StoreDamagedError(StoreError):
    """The database file is damaged; the message names the file and what to do."""


class StoreMovedError(StoreError):
    """The files of the store are not where they were opened; nothing is written.

    ``log_only`` says that the database is in its place and only its write-ahead log is not, ``saved`` that all
    committed data are in a file that has a name.
    """

    def __init__(self, message: str, *, log_only: bool, saved: bool = False) -> None:
        super().__init__(message)
        self.log_only = log_only
        self.saved = saved


class FilesGoneError(StoreError):
    """The files of a job are kept no longer."""


class StoreFullError(StoreError):
    """The disk is full; nothing of the transaction was written."""


class StoreTakenError(StoreError):
    """Another service has taken the store over since it was opened, and this one must no longer write."""


class StoreUnsureError(StoreError):
    """The connection broke during a commit: it is not known whether the commit is on disk."""
