"""The file of a backup: a compressed tar archive that ends with a manifest of all that it holds."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from springtide.hub_extension.backup.contents import belongs
from springtide.scheduler.wording import LONG_GIVEN, given

MANIFEST = "manifest.json"
FORMAT = 1
"""Version of the archive's layout."""
LEVEL = 1
"""Compression level: databases shrink to a fifth, and the disk stays the slower part."""
CHUNK = 1 << 20


class BackupError(Exception):
    """A backup could not be made or restored; the message is shown to the admin."""


class Manifest(msgspec.Struct, frozen=True):
    """The last member of a backup. ``files`` maps the names of all others to their SHA-256 digests.

    ``at`` is when the copy of the store was made, in seconds since 1970. ``database`` is true if the store is in
    the backup; one in PostgreSQL may be left out.
    """

    format: int
    version: str
    at: float
    database: bool
    secrets: bool
    jobs: bool
    files: dict[str, str]


class Archive:
    """A backup that is being written."""

    def __init__(self, stream: IO[bytes], at: float) -> None:
        self._at = at
        self._packed = gzip.GzipFile(filename="", mode="wb", compresslevel=LEVEL, fileobj=stream, mtime=at)
        self._tar = tarfile.open(fileobj=self._packed, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self.files: dict[str, str] = {}

    def add(self, name: str, file: IO[bytes]) -> None:
        """Add an open file with its present size; data appended meanwhile is left out."""
        found = os.fstat(file.fileno())
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = found.st_size, found.st_mode & 0o777, int(found.st_mtime)
        member.uid, member.gid = found.st_uid, found.st_gid
        digest = _Digest(file, found.st_size)
        self._tar.addfile(member, io.BufferedReader(digest, CHUNK))
        self.files[name] = digest.sha.hexdigest()

    def close(self, manifest: Manifest) -> None:
        """Write the manifest, without which a backup is incomplete, and the archive's end."""
        content = msgspec.json.encode(manifest)
        member = tarfile.TarInfo(MANIFEST)
        member.size, member.mode, member.mtime = len(content), 0o600, int(self._at)
        self._tar.addfile(member, io.BytesIO(content))
        self._tar.close()
        self._packed.close()


class _Digest(io.RawIOBase):
    """Reads exactly ``size`` bytes of a file, zeros if it became shorter meanwhile, and digests them."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file = file
        self._left = size
        self.sha = hashlib.sha256()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; return the number of bytes, 0 at the end."""
        wanted = min(len(buffer), self._left)
        data = self._file.read(wanted).ljust(wanted, b"\0")
        buffer[:wanted] = data
        self._left -= wanted
        self.sha.update(data)
        return wanted


def read_archive(path: Path, keep: Callable[[str, int, IO[bytes]], None]) -> Manifest:
    """Read a backup, pass each file to ``keep``, which need not read it, and return the manifest.

    All content is compared with the manifest. Raises `BackupError` for a file that is no backup, is incomplete or
    changed, or has unexpected members.
    """
    manifest: Manifest | None = None
    found: dict[str, str] = {}
    with _reading(path) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() and manifest is None else None
            if content is None or not (member.name == MANIFEST or belongs(member.name)) or member.name in found:
                raise BackupError(f"{path} is no backup of Springtide: it holds {given(member.name, LONG_GIVEN)}.")
            if member.name == MANIFEST:
                manifest = _manifest(path, content.read())
                continue
            digest = _Digest(content, member.size)
            reader = io.BufferedReader(digest, CHUNK)
            keep(member.name, member.mode & 0o700, reader)
            while reader.read(CHUNK):
                pass
            found[member.name] = digest.sha.hexdigest()
    if manifest is None:
        raise BackupError(f"{path} is incomplete: its end is missing. Use another backup.")
    if found != manifest.files:
        wrong = sorted(
            name for name in found.keys() | manifest.files if found.get(name) != manifest.files.get(name)
        )
        raise BackupError(
            f"{path} was changed or is damaged: {wrong[0]} differs from the saved file. Use another backup."
        )
    return manifest


@contextmanager
def _reading(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, mode="r|gz") as tar:
            yield tar
    except FileNotFoundError:
        raise BackupError(f"There is no backup {path}.") from None
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise BackupError(f"{path} is no backup of Springtide, or is incomplete: {error}.") from error


def _manifest(path: Path, content: bytes) -> Manifest:
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupError(f"{path} is no backup of Springtide: {error}.") from error
    if manifest.format != FORMAT:
        raise BackupError(
            f"{path} was written by Springtide {manifest.version} in a format ({manifest.format}) that this "
            "version does not know. Install that version."
        )
    return manifest
