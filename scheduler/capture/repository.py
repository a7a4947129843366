"""The commit of a Git repository, read from its files: Git need not be installed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Commit:
    """The Git directory of a working tree, and the digest of its current commit."""

    directory: str
    digest: str


def current_commit(root: Path, home: Path) -> Commit | None:
    """Return the commit of the repository that a folder is in, None without one, or before the first commit."""
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            directory = _directory(folder / ".git")
            digest = None if directory is None else _digest(directory)
            return None if digest is None else Commit(str(directory), digest)
        if folder == home:
            return None
    return None


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
