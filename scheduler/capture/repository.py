"""The repositories of a project, read from the files of Git: it need not be installed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from springtide.scheduler.capture.git_index import LINK, MOST_BYTES, REPOSITORY, Entry, blob_digest, job_index

COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
MOST_COMPARED = 64 << 20
"""Size of the files of a repository that are read to compare them with the index, in bytes."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The Git directory of a working tree, and the digest of its current commit."""

    directory: str
    digest: str


def current_commit(root: Path, home: Path) -> Commit | None:
    """Return the commit of the repository that a folder is in, None without one, or before the first commit."""
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return commit_of(folder)
        if folder == home:
            return None
    return None


def commit_of(folder: Path) -> Commit | None:
    """Return the commit of the repository whose working tree begins at a folder, None without one."""
    directory = _directory(folder / ".git")
    digest = None if directory is None else _digest(directory)
    return None if digest is None else Commit(str(directory), digest)


@dataclass(frozen=True)
class CopiedPaths:
    """The paths of a copy of a working tree: of files, of links with their targets, of folders."""

    files: Collection[str]
    links: Mapping[str, str]
    folders: Collection[str]


class Tracked:
    """The index of a repository as it is now: the tracked files in the folder ``root``."""

    def __init__(self, root: Path, commit: Commit) -> None:
        self._root = root
        self._width = len(commit.digest) // 2
        self._left = MOST_COMPARED
        self.content, self._written_at = _index(Path(commit.directory, "index"))

    def in_copy(self, copied: CopiedPaths, place: str) -> bytes | None:
        """Return the index of the copy at ``place`` of a project's copy; None if it cannot be read.

        Git does not look at tracked files that the copy has as links, and that are unchanged here.
        """

        def is_elsewhere(entry: Entry) -> bool:
            path = f"{place}/{entry.path}" if place else entry.path
            if path in (copied.folders if entry.kind == REPOSITORY else copied.files) and entry.kind != LINK:
                return False
            about = _lstat(f"{self._root}/{entry.path}")
            if about is None or (path in copied.links and self._target(entry) == copied.links[path]):
                return False
            return self._is_unchanged(entry, about)

        return job_index(self.content, self._width, is_elsewhere)

    def _target(self, entry: Entry) -> str | None:
        try:
            return os.readlink(f"{self._root}/{entry.path}")  # noqa: PTH115 - Path changes the target
        except OSError:
            return None

    def _is_unchanged(self, entry: Entry, about: os.stat_result) -> bool:
        """Return whether a file is as it was last added: by size and time as in Git, or by its content."""
        if entry.kind == REPOSITORY:
            commit = commit_of(self._root / entry.path)
            return commit is not None and bytes.fromhex(commit.digest) == entry.digest
        if stat.S_IFMT(about.st_mode) != entry.kind:
            return False
        size = about.st_size & 0xFFFFFFFF
        if entry.size not in {size, 0}:
            return False
        seconds, fraction = divmod(about.st_mtime_ns, 10**9)
        same = entry.size == size and entry.changed_at in {(seconds, fraction), (seconds, 0)}
        if same and about.st_mtime_ns < self._written_at:
            return True
        self._left -= about.st_size
        return self._left >= 0 and blob_digest(self._content(entry), self._width) == entry.digest

    def _content(self, entry: Entry) -> bytes:
        if entry.kind == LINK:
            return os.fsencode(self._target(entry) or "")
        try:
            return (self._root / entry.path).read_bytes()
        except OSError:
            return b""


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _index(path: Path) -> tuple[bytes, int]:
    """Return the content of an index, empty if there is none, and the time of its last change (ns)."""
    try:
        about = path.stat()
        return (path.read_bytes() if about.st_size <= MOST_BYTES else b""), about.st_mtime_ns
    except OSError:
        return b"", 0


def _directory(path: Path) -> Path | None:
    """Return the Git directory, which a file of that name may name."""
    if path.is_dir():
        return path
    text = _text(path)
    return (path.parent / text.removeprefix("gitdir:").strip()).resolve() if text.startswith("gitdir:") else None


def _digest(directory: Path) -> str | None:
    head = _text(directory / "HEAD")
    name = head.removeprefix("ref:").strip()
    if not head.startswith("ref:"):
        return name if COMMIT.fullmatch(name) else None
    if not name.startswith("refs/") or ".." in name.split("/"):
        return None
    common = (directory / (_text(directory / "commondir") or ".")).resolve()
    for place in (directory / name, common / name):
        if COMMIT.fullmatch(digest := _text(place)):
            return digest
    packed = re.search(rf"^([0-9a-f]{{40,64}}) {re.escape(name)}$", _text(common / "packed-refs"), re.MULTILINE)
    return packed[1] if packed else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
