"""The files of jobs: packed, named by their content, small ones in SQL and large ones beside it."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from springtide.scheduler.store.errors import StoreError, StoreFullError
from springtide.scheduler.store.records import Bundle

SMALL = 64 * 1024
"""Bytes up to which a bundle is kept in SQL."""

_files = msgspec.msgpack.Decoder(dict[str, bytes])


def pack(files: Mapping[str, bytes]) -> Bundle:
    """The files as one bundle; equal files make equal bundles."""
    content = msgspec.msgpack.encode(dict(sorted(files.items())))
    return Bundle(hashlib.sha256(content).hexdigest(), content)


def unpack(content: bytes) -> dict[str, bytes]:
    """The files of a bundle."""
    return _files.decode(content)


class BundleFiles:
    """Large bundles as files of one directory, each written once, synced and renamed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, bundle: Bundle) -> None:
        """Keep the bundle durably. Raises `StoreFullError` if there is no room."""
        path = self._directory / bundle.digest
        if path.exists():
            return
        temporary = self._directory / f".{bundle.digest}.{secrets.token_hex(4)}"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with temporary.open("xb") as file:
                file.write(bundle.content)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(path)
            _sync_directory(self._directory)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise StoreFullError("The disk that holds the jobs' files is full.") from error
            raise StoreError(f"A job's files could not be kept in {self._directory}: {error.strerror}.") from error

    def read(self, digest: str) -> bytes:
        """The bundle's content, checked against its name."""
        try:
            content = (self._directory / digest).read_bytes()
        except OSError as error:
            raise StoreError(f"The job's files are missing from {self._directory}: {error.strerror}.") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreError(f"The job's files in {self._directory / digest} were changed after submission.")
        return content

    def drop_except(self, wanted: frozenset[str], older_than: float) -> int:
        """Delete what is not wanted and was written before ``older_than``; how many were deleted."""
        if not self._directory.is_dir():
            return 0
        dropped = 0
        for path in self._directory.iterdir():
            if path.name not in wanted and path.stat().st_mtime < older_than:
                path.unlink(missing_ok=True)
                dropped += 1
        return dropped


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
