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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from .account import become, forbid_new_privileges
from .checkpoints import OWN_MANIFEST, Checkpoint, is_whole, listed, recognised

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
STEP_NAMES = ("step", "iter", "checkpoint", "ckpt", "snapshot", "epoch")
"""Words before the number of steps in the name of a checkpoint, the most telling first."""

_OWN = re.compile(r"\d{8,}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WAY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
    values: dict[str, float]


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


@contextmanager
def opened(path: str, base: str | None) -> Iterator[str]:
    """Yield a path by which a directory can be used, without links below ``base``. Raises `OSError`."""
    if base is None:
        yield path
        return
    handle = os.open(base, _WAY)
    try:
        for part in _below(path, base):
            below = os.open(part, _WAY, dir_fd=handle)
            os.close(handle)
            handle = below
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _below(path: str, base: str) -> list[str]:
    """Return the parts of a path below ``base``. Raises `ValueError` for any other path."""
    relative = os.path.relpath(path, base)
    parts = [] if relative == "." else relative.split("/")
    if ".." in parts:
        raise ValueError(f"{path} is not below the directory of the job")
    return parts


def kept(request: dict[str, Any]) -> list[Kept]:
    """Return the checkpoints of a job, the newest first, those that `springtide.training` wrote before others."""
    base = request.get("base")
    found = []
    with suppress(OSError, ValueError), opened(request["checkpoints"], base) as place:
        found = [*_own(place, request["checkpoints"])]
    found.sort(key=lambda each: each.name, reverse=True)
    others = []
    for number, (root, prefix) in enumerate(request["roots"]):
        with suppress(OSError, ValueError), opened(root, base) as place:
            named = request["named"] if number == 0 else ()
            for each in recognised(listed(place, links=base is None), 0.0, named):
                of_job = each.written >= request["since"] or (number == 0 and each.path == request["also"])
                if of_job and is_whole(f"{place}/{each.path}"):
                    others.append(_other(each, root, prefix))
    others.sort(key=lambda each: -each.written)
    return [*found, *others][:MOST_LISTED]


def _other(found: Checkpoint, root: str, prefix: str) -> Kept:
    path = f"{root}/{found.path}"
    step = step_of(found.path)
    return Kept(f"{prefix}{found.path}", path, False, step, found.size, found.written, found.by, {})


def _own(place: str, root: str) -> Iterator[Kept]:
    for name in os.listdir(place):  # noqa: PTH208 - light to start
        if not _OWN.fullmatch(name):
            continue
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            manifest = _manifest(f"{place}/{name}/{OWN_MANIFEST}")
            size = sum(_number(each["size"]) or 0 for each in manifest["files"].values())
            written = _number(manifest["at"])
            values = {
                str(key)[:100]: number
                for key, value in list((manifest.get("values") or {}).items())[:MOST_VALUES]
                if (number := _number(value)) is not None
            }
            if written is not None:
                path, step = f"{root}/{name}", _number(manifest["step"])
                yield Kept(name, path, True, step, int(size), written, "", values)


def _manifest(path: str) -> Any:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as opened_file:
        return json.loads(opened_file.read(MOST_MANIFEST))


def _number(value: Any) -> float | None:
    """Return a number of a manifest, None for anything else, and for one that no count or time has."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not -MOST_NUMBER < value < MOST_NUMBER:
        return None
    return float(value)


def copy(request: dict[str, Any]) -> None:
    """Copy a checkpoint, ``source``, to the path ``target``, which then exists as a whole or not at all.

    Times of files stay. Raises `OSError`, or `ValueError` for what cannot be copied: links to folders, files that
    are not plain, a checkpoint that changes meanwhile.
    """
    base, source, target = request.get("base"), request["source"], request["target"]
    folder, _, name = source.rpartition("/")
    room, _, last = target.rpartition("/")
    with opened(folder, base) as place:
        os.makedirs(room, 0o700, exist_ok=True)  # noqa: PTH103
        beside = f"{room}/.{last}.new"
        _remove(beside)
        try:
            _copy(f"{place}/{name}", beside, links=base is None)
            os.rename(beside, target)  # noqa: PTH104
        except BaseException:
            _remove(beside)
            raise
        _sync(room)


def _copy(source: str, target: str, *, links: bool) -> None:
    about = os.stat(source, follow_symlinks=links)  # noqa: PTH116
    if stat.S_ISREG(about.st_mode):
        _copy_file(source, target, links=links)
        return
    if not stat.S_ISDIR(about.st_mode):
        raise ValueError("it is neither a plain file nor a folder")
    os.mkdir(target, 0o700)  # noqa: PTH102
    top = os.open(source, _DIRECTORY | (0 if links else os.O_NOFOLLOW))
    left = MOST_COPIED
    try:
        for path, folders, files, handle in os.fwalk(".", dir_fd=top):
            for name in folders:
                if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                    raise ValueError(f"it has a link to another folder, {os.path.normpath(f'{path}/{name}')}")
                os.mkdir(f"{target}/{path}/{name}", 0o700)  # noqa: PTH102
            for name in files:
                left -= 1
                if left < 0:
                    raise ValueError(f"it has more than {MOST_COPIED} files")
                _copy_file(name, f"{target}/{path}/{name}", links=links, within=handle)
            _sync(f"{target}/{path}")
    finally:
        os.close(top)


def _copy_file(source: str, target: str, *, links: bool, within: int | None = None) -> None:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    file = os.open(source, flags, dir_fd=within)
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError(f"{source.rpartition('/')[2]} is no plain file")
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


def delete(request: dict[str, Any]) -> None:
    """Delete the checkpoints ``paths``; one that is not there changes nothing. Raises `OSError`."""
    for path in request["paths"]:
        folder, _, name = path.rpartition("/")
        with suppress(FileNotFoundError), opened(folder, request.get("base")) as place:
            gone = f"{place}/.{name}.new"
            _remove(gone)
            os.rename(f"{place}/{name}", gone)  # noqa: PTH104 - a checkpoint is whole or not there
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
        if request["account"]:
            become(request["account"])
        forbid_new_privileges()
        os.nice(5)
        answer: dict[str, Any] = {}
        if request["do"] == "list":
            answer["kept"] = [each._asdict() for each in kept(request)]
        elif request["do"] == "copy":
            copy(request)
        else:
            delete(request)
    except OSError as error:
        answer = {"error": error.strerror or str(error), "gone": isinstance(error, FileNotFoundError)}
    except ValueError as error:
        answer = {"error": str(error), "gone": False}
    json.dump(answer, sys.stdout)
    return 0
