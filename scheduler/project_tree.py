"""The packed files of a project: sent with a submission, stored once, and unpacked where the job runs.

A packed tree is `HEAD`, a line with the size of its manifest in bytes, the manifest as JSON, and the contents of
its files in the order of the manifest. Equal trees give equal bytes. The unpacking part is
`springtide.scheduler.executors.supervisor.tree`, which cannot import this module.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from springtide.scheduler.wording import LONG_GIVEN, given

MIB: Final = 1 << 20
HEAD: Final = b"springtide tree 1\n"
PLACE: Final = "{project_tree}"
"""Placeholder of the folder of the job's project, in commands and in values of variables."""
OUTSIDE: Final = ".outside"
"""Folder in a tree with the folders of scripts outside of the project, each by its whole path."""
MOST_FILES: Final = 20_000
MOST_BYTES: Final = 256 * MIB
"""Maximum size of the files of a tree, in bytes."""
MOST_PACKED: Final = MOST_BYTES + 16 * MIB
"""Maximum size of a packed tree, in bytes."""
CACHES: Final = frozenset(
    {"__pycache__", ".git", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".springtide.new"}
)
"""Names of files that are neither copied nor linked, as in `springtide.scheduler.executors.supervisor.tree`."""
LONGEST_PATH: Final = 1024
LONGEST_PART: Final = 255


class TreeError(ValueError):
    """A packed tree cannot be read or would leave its folder; the message says why."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a tree."""

    content: bytes
    executable: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """The content of a packed tree, sorted by path.

    ``files`` have path, size in bytes and executable bit, ``links`` path and relative target. ``folders`` are
    empty ones.
    """

    files: tuple[tuple[str, int, bool], ...]
    links: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def file_bytes(self) -> int:
        """Size of all files, in bytes."""
        return sum(size for _, size, _ in self.files)


def outside_place(folder: str) -> str:
    """Return the place in a tree of a folder outside of the project."""
    return f"{OUTSIDE}{folder}".rstrip("/")


def at_submission(text: str, root: str) -> str:
    """Return a text with the folders of the submission in place of those of the copy of the project ``root``."""
    return text.replace(f"{PLACE}/{OUTSIDE}/", "/").replace(PLACE, root)


def pack(files: Mapping[str, TreeFile], links: Mapping[str, str], folders: Iterable[str] = ()) -> bytes:
    """Return the packed tree of these files and relative links, by path, and of empty folders."""
    ordered = sorted(files.items())
    manifest = Manifest(
        tuple((path, len(file.content), file.executable) for path, file in ordered),
        tuple(sorted(links.items())),
        tuple(sorted(folders)),
    )
    head = msgspec.json.encode(manifest)
    return b"".join([HEAD, b"%d\n" % len(head), head, *(file.content for _, file in ordered)])


def digest_of(packed: bytes) -> str:
    """Return the digest that a packed tree is named by."""
    return hashlib.sha256(packed).hexdigest()


def read_manifest(packed: bytes) -> Manifest:
    """Return the manifest of a packed tree. Raises `TreeError` for anything that `pack` does not make."""
    size = re.match(rb"(\d{1,9})\n", packed[len(HEAD) : len(HEAD) + 10])
    if not packed.startswith(HEAD) or size is None:
        raise TreeError("These are not the packed files of a project.")
    start = len(HEAD) + size.end()
    end = start + int(size[1])
    try:
        manifest = msgspec.json.decode(packed[start:end], type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TreeError(f"The list of the project's files cannot be read: {error}.") from None
    _check(manifest)
    if end + manifest.file_bytes != len(packed):
        raise TreeError("The project's files do not have the sizes of their list.")
    return manifest


def file_digests(packed: bytes) -> dict[str, str]:
    """Return digests of the files of a packed tree, by path. Raises `TreeError` for what `pack` does not make."""
    manifest = read_manifest(packed)
    at, found = len(packed) - manifest.file_bytes, {}
    for path, size, _ in manifest.files:
        found[path] = hashlib.sha256(packed[at : at + size]).hexdigest()
        at += size
    return found


def _check(manifest: Manifest) -> None:
    if len(manifest.files) + len(manifest.links) + len(manifest.folders) > MOST_FILES:
        raise TreeError(f"The project has more than {MOST_FILES} files.")
    if any(size < 0 for _, size, _ in manifest.files) or manifest.file_bytes > MOST_BYTES:
        raise TreeError(f"The project's files have more than {MOST_BYTES // MIB} MiB.")
    paths = [path for path, *_ in manifest.files] + [path for path, _ in manifest.links]
    for path in (*paths, *manifest.folders):
        if not is_plain_path(path):
            raise TreeError(f"{given(path, LONG_GIVEN)} is not a path inside the project.")
    for path, target in manifest.links:
        if not stays_inside(path, target):
            raise TreeError(f"The link {given(path, LONG_GIVEN)} leads out of the project.")
    taken = set(paths)
    below = (*paths, *(f"{folder}/" for folder in manifest.folders))
    folders = {folder for path in below for folder in parents(path)}
    both = taken & folders
    if both or len(taken) < len(paths):
        raise TreeError(f"{given(min(both or taken), LONG_GIVEN)} is in the project twice.")


def is_plain_path(path: str) -> bool:
    """Return whether this is a relative path without detours that a file system takes."""
    try:
        parts = [part.encode() for part in path.split("/")]
    except UnicodeEncodeError:
        return False
    if "\0" in path or len(path.encode()) > LONGEST_PATH:
        return False
    return all(part not in {b"", b".", b".."} and len(part) <= LONGEST_PART for part in parts)


def stays_inside(path: str, target: str) -> bool:
    """Return whether a link's relative target is inside the tree."""
    whole = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    try:
        fits = bool(target) and len(target.encode()) <= LONGEST_PATH
    except UnicodeEncodeError:
        return False
    return fits and "\0" not in target and not whole.startswith(("/", "../")) and whole != ".."


def parents(path: str) -> list[str]:
    """Return the folders that a relative path is in, except the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
