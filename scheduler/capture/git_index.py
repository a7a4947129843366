"""The index of a Git repository: the tracked files, and which of them Git does not look at in a working tree."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

MOST_BYTES = 64 << 20
"""Maximum size of an index that is read, in bytes."""
LINK, REPOSITORY = 0o120000, 0o160000
"""Modes of symbolic links and of the commits of submodules."""
_STAT = struct.Struct(">10L")
_MODE = 6
"""Place of the mode among the ten numbers before the digest of an entry."""
_EXTENDED, _STAGE, _LENGTH = 0x4000, 0x3000, 0x0FFF
_SKIP_WORKTREE = 0x4000


class Entry(NamedTuple):
    """A tracked file: its path, mode and digest, and the size and the times (s, ns) that Git saw last."""

    path: str
    mode: int
    digest: bytes
    size: int
    changed_at: tuple[int, int]
    flags: int
    more: int

    @property
    def kind(self) -> int:
        """The kind of file, without permissions."""
        return self.mode & 0o170000


def job_index(content: bytes, width: int, is_elsewhere: Callable[[Entry], bool]) -> bytes | None:
    """Return the index of a copy of the working tree: without times, and blind to entries that are elsewhere.

    ``width`` is the length of a digest in bytes. None means an index that cannot be read alone, such as a
    split one.
    """
    try:
        signature, version, number = struct.unpack_from(">4sLL", content)
        if signature != b"DIRC" or version not in {2, 3, 4}:
            return None
        parts, end = [struct.pack(">4sLL", b"DIRC", 3, number)], 12
        for entry, after in _entries(content, version, number, width):
            merged = not entry.flags & _STAGE
            parts.append(_written(entry, skip=merged and is_elsewhere(entry)))
            end = after
        kept = _needed_extensions(content[end:-width])
    except (struct.error, ValueError):
        return None
    if kept is None:
        return None
    body = b"".join([*parts, kept])
    return body + _hash(width, body)


def blob_digest(content: bytes, width: int) -> bytes:
    """Return the digest by which Git knows a file with this content."""
    return _hash(width, b"blob %d\0" % len(content) + content)


def _hash(width: int, content: bytes) -> bytes:
    made = hashlib.sha1 if width == hashlib.sha1(usedforsecurity=False).digest_size else hashlib.sha256
    return made(content, usedforsecurity=False).digest()


def _entries(content: bytes, version: int, number: int, width: int) -> Iterator[tuple[Entry, int]]:
    """Yield the entries, each with the position after it. Raises ValueError or struct.error if there are fewer."""
    start, name = 12, b""
    for _ in range(number):
        numbers = _STAT.unpack_from(content, start)
        digest_at = start + _STAT.size
        at = digest_at + width
        (flags,) = struct.unpack_from(">H", content, at)
        at += 2
        more = 0
        if flags & _EXTENDED:
            (more,) = struct.unpack_from(">H", content, at)
            at += 2
        kept = b""
        if version == 4:
            dropped, at = _varint(content, at)
            kept = name[: len(name) - dropped]
        end = content.index(b"\0", at)
        name = kept + content[at:end]
        start = end + 1 if version == 4 else end + 8 - (end - start) % 8
        digest = content[digest_at : digest_at + width]
        entry = Entry(os.fsdecode(name), numbers[_MODE], digest, numbers[9], (numbers[2], numbers[3]), flags, more)
        yield entry, start


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = -1
    while True:
        if at >= len(content):
            raise ValueError("the index is cut short")
        byte = content[at]
        at += 1
        value = ((value + 1) << 7) + (byte & 0x7F)
        if not byte & 0x80:
            return value, at


def _written(entry: Entry, *, skip: bool) -> bytes:
    more = entry.more | (_SKIP_WORKTREE if skip else 0)
    name = os.fsencode(entry.path)
    flags = entry.flags & ~(_EXTENDED | _LENGTH) | min(len(name), _LENGTH)
    head = _STAT.pack(0, 0, 0, 0, 0, 0, entry.mode, 0, 0, 0) + entry.digest
    head += struct.pack(">HH", flags | _EXTENDED, more) if more else struct.pack(">H", flags)
    length = len(head) + len(name)
    return head + name + b"\0" * (8 - length % 8)


def _needed_extensions(rest: bytes) -> bytes | None:
    """Return the extensions that Git has to understand; None if one leads to another file.

    The others speed Git up in the working tree that they were made for.
    """
    kept = b""
    at = 0
    while at < len(rest):
        name, size = struct.unpack_from(">4sL", rest, at)
        if name == b"sdir":
            kept += rest[at : at + 8 + size]
        elif not name[:1].isupper():
            return None
        at += 8 + size
    return kept
