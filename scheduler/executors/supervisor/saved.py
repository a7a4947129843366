"""The saved checkpoints of a job: listed, copied and deleted by a process of the job's account.

It reads one request as JSON from its standard input, and writes the answer to its standard output. In a request
with ``base`` all paths are below that directory and no link is followed, because jobs of other people share the
account.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from .account import become, end_with, forbid_new_privileges
from .checkpoints import OWN_MANIFEST, SETTLED, Checkpoint, completeness, listed, recognised, written_to

MOST_LISTED = 200
"""Maximum number of checkpoints in an answer, the newest ones."""
MOST_MANIFEST = 4 << 20
"""Maximum size of a manifest that is read, in bytes."""
MOST_NUMBER = 1e15
"""Size of a number in a manifest from which it counts for nothing."""
MOST_VALUES = 50
"""Maximum number of metrics in an answer for each checkpoint."""
MOST_COPIED = 100_000
"""Maximum number of files of a copied checkpoint."""
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""Numbers that are not finite, as `springtide.training` writes them."""
STEP_NAMES = ("step", "iter", "checkpoint", "ckpt", "snapshot", "epoch")
"""Words before the number of steps in the name of a checkpoint, the most significant first."""

_OWN = re.compile(r"\d{8,}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_WAY = _FOLDER | os.O_NOFOLLOW
_BLOCK = 1 << 24


class Kept(NamedTuple):
    """A saved checkpoint.

    ``name`` is its path as people read it, ``path`` where it is, ``own`` whether `springtide.training` wrote it.
    ``by`` is the framework that writes such ones otherwise. ``values`` are the numbers reported before its save.
    """

    name: str
    path: str
    own: bool
    step: float | None
    size: int
    written: float
    by: str
    values: dict[str, float | str]


def step_of(name: str) -> float | None:
    """Return the step that the name of a framework's checkpoint has, None if it has none."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    if last.isdigit():
        return float(last)
    for word in STEP_NAMES:
        found = re.search(rf"(?:^|[^a-z])(?:[a-z]*_)?{word}s?[-_=]?(\d{{1,15}})", last)
        if found is not None:
            return float(found[1])
    return None


class Base:
    """The directory of the job, opened with the service's rights; None for one where links are followed."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._handle = None if path is None else os.open(path, _WAY)

    @property
    def follows(self) -> bool:
        """Whether links are followed."""
        return self._handle is None

    def enter(self, path: str) -> None:
        """Make a directory the working directory of this process.

        Raises `OSError`, or `ValueError` for one outside of it.
        """
        if self._handle is None or self.path is None:
            os.chdir(path)
            return
        relative = os.path.relpath(path, self.path)
        parts = [] if relative == "." else relative.split("/")
        if ".." in parts:
            raise ValueError(f"{path} is not below the directory of the job")
        os.fchdir(self._handle)
        for part in parts:
            handle = os.open(part, _WAY)
            os.fchdir(handle)
            os.close(handle)


def kept(request: dict[str, Any], base: Base) -> list[Kept]:
    """Return the checkpoints of a job, the newest first, those that `springtide.training` wrote before others."""
    found = []
    with suppress(OSError, ValueError):
        base.enter(request["checkpoints"])
        found = [*_own(request["checkpoints"], links=base.follows)]
    found.sort(key=lambda each: each.name, reverse=True)
    others: list[Kept] = []
    for root, prefix in request["roots"]:
        with suppress(OSError, ValueError):
            base.enter(root)
            named = () if prefix else request["named"]
            before = {each.path for each in others}
            mine = [
                (each, whole)
                for each in recognised(listed(".", links=base.follows), 0.0, named)
                if f"{root}/{each.path}" not in before
                if each.written >= request["since"] or (not prefix and each.path == request["also"])
                if (whole := completeness(each.path)) is not False
            ]
            busy = written_to([each.path for each, whole in mine if whole is None and _is_young(each)])
            others += [_other(each, root, prefix) for each, _ in mine if each.path not in busy]
    others.sort(key=lambda each: -each.written)
    return [*found, *others][:MOST_LISTED]


def _is_young(found: Checkpoint) -> bool:
    return time.time() - found.written < SETTLED


def _other(found: Checkpoint, root: str, prefix: str) -> Kept:
    path = f"{root}/{found.path}"
    step = step_of(found.path)
    return Kept(f"{prefix}{found.path}", path, False, step, found.size, found.written, found.by, {})


def _own(root: str, *, links: bool) -> Iterator[Kept]:
    """Yield the whole checkpoints of `springtide.training` in the working directory, whose path is ``root``."""
    for name in os.listdir():  # noqa: PTH208 - light to start
        if not _OWN.fullmatch(name):
            continue
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            manifest = _manifest(name, links=links)
            if not _is_whole(name, manifest["files"], links=links):
                continue
            size = sum(each["size"] for each in manifest["files"].values())
            written = _number(manifest["at"])
            values = {
                str(key)[:100]: number
                for key, value in list((manifest.get("values") or {}).items())[:MOST_VALUES]
                if (number := _reported(value)) is not None
            }
            if written is not None:
                path, step = f"{root}/{name}", _number(manifest["step"])
                yield Kept(name, path, True, step, int(size), written, "", values)


def are_damaged(root: str) -> bool:
    """Return whether `springtide.training` wrote checkpoints to a folder, none of which is whole any more.

    The folder becomes the working directory of this process. Raises `OSError`.
    """
    os.chdir(root)
    names = [each for each in os.listdir() if _OWN.fullmatch(each) and os.path.lexists(f"{each}/{OWN_MANIFEST}")]  # noqa: PTH208
    return bool(names) and next(_own(root, links=True), None) is None


def has_own(root: str) -> bool:
    """Return whether a folder has a whole checkpoint of `springtide.training`.

    The folder becomes the working directory of this process. Raises `OSError`.
    """
    try:
        os.chdir(root)
    except FileNotFoundError:
        return False
    return next(_own(root, links=True), None) is not None


def _manifest(name: str, *, links: bool) -> Any:
    place = os.open(name, _DIRECTORY | (0 if links else os.O_NOFOLLOW))
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(OWN_MANIFEST, flags, dir_fd=place), "rb") as file:
            return json.loads(file.read(MOST_MANIFEST))
    finally:
        os.close(place)


def _is_whole(name: str, files: dict[str, Any], *, links: bool) -> bool:
    """Return whether a checkpoint has all files of its manifest, in their sizes."""
    place = os.open(name, _DIRECTORY | (0 if links else os.O_NOFOLLOW))
    try:
        return all(_size(path, place, links=links) == about["size"] for path, about in files.items())
    finally:
        os.close(place)


def _size(path: str, within: int, *, links: bool) -> int | None:
    """Return the size of a plain file below a folder, None for anything else. Raises `OSError`, `ValueError`."""
    *folders, last = path.split("/")
    if {"", ".", ".."} & {*folders, last}:
        raise ValueError(f"{path} is no path below a folder")
    handle = os.dup(within)
    try:
        for each in folders:
            inner = os.open(each, _FOLDER if links else _WAY, dir_fd=handle)
            os.close(handle)
            handle = inner
        about = os.stat(last, dir_fd=handle, follow_symlinks=links)
        return about.st_size if stat.S_ISREG(about.st_mode) else None
    finally:
        os.close(handle)


def _reported(value: Any) -> float | str | None:
    """Return a reported value of a manifest: a number, or how JSON has one that is not finite."""
    return value if value in NOT_FINITE else _number(value)


def _number(value: Any) -> float | None:
    """Return a number of a manifest, None for anything else, and for one that no count or time has."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not -MOST_NUMBER < value < MOST_NUMBER:
        return None
    return float(value)


def copy(request: dict[str, Any], base: Base, room: Base) -> None:
    """Copy a checkpoint, ``source``, to the path ``target`` in ``room``; it is there as a whole or not at all.

    Times of files stay. Raises `OSError`, or `ValueError` for what cannot be copied: links to folders, files that
    are not plain, a checkpoint that changes meanwhile.
    """
    folder, _, name = request["source"].rpartition("/")
    base.enter(folder)
    source = os.open(".", _WAY)
    assert room.path is not None
    below = os.path.relpath(request["target"], room.path)
    room.enter(room.path)
    os.makedirs(os.path.dirname(below) or ".", 0o700, exist_ok=True)  # noqa: PTH103, PTH120
    room.enter(os.path.dirname(request["target"]))  # noqa: PTH120
    last = os.path.basename(below)  # noqa: PTH119
    beside = f".{last}.new"
    _remove(beside)
    try:
        _copy(name, beside, links=base.follows, within=source)
        os.rename(beside, last)  # noqa: PTH104
    except BaseException:
        _remove(beside)
        raise
    _sync(".")


def _copy(name: str, target: str, *, links: bool, within: int) -> None:
    about = os.stat(name, dir_fd=within, follow_symlinks=links)
    if stat.S_ISREG(about.st_mode):
        _copy_file(name, target, links=links, within=within)
        return
    if not stat.S_ISDIR(about.st_mode):
        raise ValueError("it is neither a plain file nor a folder")
    os.mkdir(target, 0o700)  # noqa: PTH102
    top = os.open(name, _DIRECTORY | (0 if links else os.O_NOFOLLOW), dir_fd=within)
    left = MOST_COPIED
    try:
        for path, folders, files, handle in os.fwalk(".", dir_fd=top):
            for each in folders:
                if stat.S_ISLNK(os.stat(each, dir_fd=handle, follow_symlinks=False).st_mode):
                    raise ValueError(f"it has a link to another folder, {os.path.normpath(f'{path}/{each}')}")
                os.mkdir(f"{target}/{path}/{each}", 0o700)  # noqa: PTH102
            for each in files:
                left -= 1
                if left < 0:
                    raise ValueError(f"it has more than {MOST_COPIED} files")
                _copy_file(each, f"{target}/{path}/{each}", links=links, within=handle)
            _sync(f"{target}/{path}")
    finally:
        os.close(top)


def _copy_file(source: str, target: str, *, links: bool, within: int) -> None:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    file = os.open(source, flags, dir_fd=within)
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"{source} is no plain file")
        copied = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _copy_content(file, copied)
            os.fsync(copied)
            os.utime(copied, ns=(about.st_atime_ns, about.st_mtime_ns))
        finally:
            os.close(copied)
        after = os.fstat(file)
        if (after.st_size, after.st_mtime_ns) != (about.st_size, about.st_mtime_ns):
            raise ValueError("it is being written at this moment")
    finally:
        os.close(file)


def _copy_content(source: int, target: int) -> None:
    """Copy a file; file systems that can share its blocks do so."""
    try:
        while os.copy_file_range(source, target, _BLOCK):
            pass
    except OSError:
        os.lseek(source, 0, os.SEEK_SET)
        os.lseek(target, 0, os.SEEK_SET)
        while block := os.read(source, _BLOCK):
            view = memoryview(block)
            while view:
                view = view[os.write(target, view) :]


def delete(request: dict[str, Any], base: Base) -> None:
    """Delete the checkpoints ``paths``; one that is not there changes nothing. Raises `OSError`."""
    for path in request["paths"]:
        folder, _, name = path.rpartition("/")
        with suppress(FileNotFoundError):
            base.enter(folder)
            gone = f".{name}.new"
            _remove(gone)
            os.rename(name, gone)  # noqa: PTH104 - a checkpoint is whole or not there
            _remove(gone)


def _remove(path: str) -> None:
    try:
        about = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except FileNotFoundError:
        return
    if stat.S_ISDIR(about.st_mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)  # noqa: PTH108


def _sync(directory: str) -> None:
    handle = os.open(directory, _DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def main() -> int:
    """Carry out the request on standard input; return the exit code of the process."""
    request = json.load(sys.stdin)
    os.umask(0o077)
    try:
        base = Base(request.get("base"))
        room = Base(request.get("room"))
        if request["account"]:
            become(request["account"])
        forbid_new_privileges()
        os.nice(5)
        answer: dict[str, Any] = {}
        if request["do"] == "list":
            answer["kept"] = [each._asdict() for each in kept(request, base)]
        elif request["do"] == "copy":
            end_with(request["parent"])  # a copy without the service that waits for it has no job
            copy(request, base, room)
        else:
            delete(request, base)
    except OSError as error:
        answer = {"error": error.strerror or str(error), "gone": isinstance(error, FileNotFoundError)}
    except ValueError as error:
        answer = {"error": str(error), "gone": False}
    json.dump(answer, sys.stdout)
    return 0
