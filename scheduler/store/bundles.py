"""The files of jobs, packed into bundles that are named by their content; large ones are kept in files."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from springtide.scheduler.own_files import sync_directory
from springtide.scheduler.store.errors import FilesGoneError, StoreError, StoreFullError
from springtide.scheduler.store.records import Bundle

SMALL = 64 * 1024
"""Maximum size of a bundle kept in SQL, in bytes."""

ROOM = 1024 * 1024
"""Room that a disk must have to be called writable, in bytes."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

_files = msgspec.msgpack.Decoder(dict[str, bytes])


def pack(files: Mapping[str, bytes]) -> Bundle:
    """Pack files into a bundle; equal files give equal bundles."""
    content = msgspec.msgpack.encode(dict(sorted(files.items())))
    return Bundle(hashlib.sha256(content).hexdigest(), content)


def unpack(content: bytes) -> dict[str, bytes]:
    """Return the files of a bundle."""
    return _files.decode(content)


class BundleFiles:
    """Large bundles, as files of one directory that are written once, synced and renamed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        """Held while a file is looked at and then kept or deleted."""

    def save(self, bundle: Bundle) -> None:
        """Keep the bundle durably. Raises `StoreFullError` if there is no room."""
        path = self.directory / bundle.digest
        with self._lock:
            if path.exists():
                path.touch()
                return
        temporary = self.directory / f".{bundle.digest}.{secrets.token_hex(4)}"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
            ) as file:
                file.write(bundle.content)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
            sync_directory(self.directory)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            if error.errno in FULL:
                raise StoreFullError(f"The disk that holds {self.directory} is full.") from error
            raise StoreError(f"A job's files could not be kept in {self.directory}: {error.strerror}.") from error

    def read(self, digest: str) -> bytes:
        """Return the content of a bundle.

        Raises `FilesGoneError` if it is missing, `StoreError` if it does not match its digest.
        """
        try:
            content = (self.directory / digest).read_bytes()
        except FileNotFoundError:
            raise FilesGoneError(f"The job's files are missing from {self.directory}.") from None
        except OSError as error:
            raise StoreError(f"The job's files are missing from {self.directory}: {error.strerror}.") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreError(f"The job's files in {self.directory / digest} were changed after submission.")
        return content

    def drop_except(self, wanted: frozenset[str], older_than: float) -> int:
        """Delete files that are not ``wanted`` and were written before ``older_than``; return their number."""
        if not self.directory.is_dir():
            return 0
        dropped = 0
        for path in self.directory.iterdir():
            with self._lock:
                if path.name not in wanted and path.stat().st_mtime < older_than:
                    path.unlink(missing_ok=True)
                    dropped += 1
        return dropped


def check_room(directory: Path) -> None:
    """Make a file of `ROOM` bytes in a directory for a moment. Raises `StoreFullError` or `StoreError`."""
    path = directory / f".room.{secrets.token_hex(4)}"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(file, 0, ROOM)
        finally:
            os.close(file)
            path.unlink()
    except OSError as error:
        if error.errno in FULL:
            raise StoreFullError(f"The disk that holds {directory} is full.") from error
        raise StoreError(f"No file can be written in {directory}: {error.strerror}.") from error
