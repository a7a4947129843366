"""Recognition of the checkpoints that frameworks write by themselves, from a list of files.

`CONVENTIONS` is the table of their names. `recognised` is a pure function of paths, sizes and times; the walk that
makes the list is bounded.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

DEEPEST = 8
"""Maximum depth of a searched folder."""
MOST_FOLDERS = 2_000
"""Number of folders after which no further ones are searched."""
MOST_FILES = 50_000
"""Number of files after which the search ends."""
MOST_LINKS = 100
"""Number of linked folders after which no further ones are searched."""
MOST_LINKED_FOLDERS = 200
MOST_LINKED_FILES = 2_000
"""Number of files of one linked folder after which its search ends: it may hold a dataset."""
MOST_OPENED = 5
"""Number of newest checkpoints of which the end is read, until one is whole."""
SETTLED = 2.0
"""Age below which a file counts as still being written, in seconds."""
LOOK_EVERY = 0.05
"""Interval at which a young file is looked at, in seconds."""
LONGEST_PATH = 1024
LONGEST_END = 1 << 16
"""Number of bytes at the end of a file that are searched for the mark of its end."""

LONGEST_HEAD = 10 << 20
"""Maximum size of the head of a safetensors file that is read, in bytes; a longer one counts as incomplete."""
OLD_PYTORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""Beginning of files of PyTorch before its version 1.6: pickles, then data of no known size."""
_PICKLED = re.compile(rb"\x80[\x02-\x05]")
_HEADED = re.compile(rb"[\x00-\xff]{3,4}\x00{4,5}\{", re.DOTALL)
"""Beginning of safetensors: the length of the head in 8 bytes, then JSON."""
_SKIPPED = re.compile(r"\.|node_modules$|__pycache__$|site-packages$|venv$")
_TEMPORARY = re.compile(r"(?i)(^|/)(tmp[-_.]|[.~])|[-_.]tmp([-_./]|$)|\.(part|partial|incomplete|new)$|~$")
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class File(NamedTuple):
    """A file: its path in the searched folder, its size in bytes, when it was last written."""

    path: str
    size: int
    written: float


class Checkpoint(NamedTuple):
    """A checkpoint: the path of its file or folder, its size in bytes, when it was written, and by whom."""

    path: str
    size: int
    written: float
    by: str


class Convention(NamedTuple):
    """The names by which a framework's checkpoints are known.

    ``name`` matches the last part of a checkpoint's path. A checkpoint with ``parts`` is a folder, complete when
    each of them matches the path of one of its files; one without is a file.
    """

    by: str
    name: str
    parts: tuple[str, ...] = ()


CONVENTIONS = (
    Convention(
        "Transformers",
        r"checkpoint-\d+",
        (r"trainer_state\.json", r"(model|pytorch_model|adapter_model|tf_model|optimizer)\b.*"),
    ),
    Convention("Accelerate", r".+", (r"random_states_0\.pkl",)),
    Convention("PyTorch (distributed)", r".+", (r"\.metadata", r"[^/]+\.distcp")),
    Convention("Orbax", r"\d+", (r"_CHECKPOINT_METADATA",)),
    Convention("Keras", r".+", (r"training_metadata\.json", r"latest\.weights\.h5")),
    Convention("Lightning", r".+\.ckpt"),
    Convention("Keras", r".+(\.keras|\.weights\.h5)"),
    Convention("XGBoost", r".+\.(ubj|xgb)|(.*[-_.])?(xgb|xgboost)[-_.].*json"),
    Convention("LightGBM", r".+\.snapshot_iter_\d+|(.*[-_.])?(lgb|lightgbm)[-_.](.*[-_.])?txt"),
    Convention("Stable-Baselines3", r".+_\d+_steps\.zip"),
    Convention("CatBoost", r".+\.cbsnapshot"),
    Convention(
        "PyTorch",
        r"(?i)(.*[^a-z])?(checkpoint|ckpt|last|latest|snapshot|resume|epoch)s?([^a-z].*)?\.(pt|pth|tar)",
    ),
    Convention(
        "the program",
        r"(?i)(.*[^a-z])?(checkpoint|ckpt|snapshot|resume)s?([^a-z].*)?\.(pkl|joblib|npz|h5|msgpack|safetensors)",
    ),
)
"""The known conventions. Those of folders come first: what lies in such a folder is no checkpoint of its own."""

DATA = re.compile(r"(?i).+\.(bin|ckpt|h5|hdf5|joblib|keras|msgpack|npz|pickle|pkl|pt|pth|safetensors|tar)")
"""Names of files that a program may load when it gets an argument without a path, such as ``--resume``."""
_FOLDERS = [
    (each.by, re.compile(each.name), [re.compile(part) for part in each.parts])
    for each in CONVENTIONS
    if each.parts
]
_FILES = [(each.by, re.compile(each.name)) for each in CONVENTIONS if not each.parts]
_OWN = re.compile(r"\d+")
OWN_MANIFEST = "manifest.json"
"""File in the checkpoints of `springtide.training`, which reports them itself."""


def recognised(
    files: Iterable[File], since: float, named: Sequence[str] = (), *, any_data: bool = False
) -> list[Checkpoint]:
    """Return the checkpoints among files, the newest first; those before ``since`` are not the job's.

    ``named`` are paths that the job's user named, whatever their names; with ``any_data`` every file counts whose
    suffix is that of a model. Temporary, empty and incomplete ones are
    left out.
    """
    usable = [each for each in files if each.size and not _TEMPORARY.search(_visible(each.path))]
    names: dict[str, list[str]] = defaultdict(list)
    for file in usable:
        folder, _, name = file.path.rpartition("/")
        names[folder].append(name)
    folders = {folder: by for folder, inside in names.items() if (by := _by_of_folder(folder, inside)) is not None}
    folders.update(dict.fromkeys(named, "named by resume"))
    found = []
    inside_of: dict[str, list[File]] = defaultdict(list)
    for file in usable:
        above = next((each for each in _above(file.path) if each in folders), None)
        if above is not None:
            inside_of[above].append(file)
        elif (by_name := _by_of_file(file.path, any_data=any_data)) is not None:
            found.append(Checkpoint(file.path, file.size, file.written, by_name))
    for folder, inside_files in inside_of.items():
        if folders[folder]:
            size, written = sum(each.size for each in inside_files), max(each.written for each in inside_files)
            found.append(Checkpoint(folder, size, written, folders[folder]))
    return sorted((each for each in found if each.written >= since), key=lambda each: (-each.written, each.path))


def _visible(path: str) -> str:
    """Return a path without the hidden name of a metadata file, which is not temporary."""
    return path.removesuffix("/.metadata")


def _above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the highest first, then the path itself."""
    parts = path.split("/")
    return ("/".join(parts[:number]) for number in range(1, len(parts) + 1))


def _by_of_folder(folder: str, names: Sequence[str]) -> str | None:
    """Return whose checkpoint a folder is; empty if it is one of `springtide.training`, None if it is none."""
    last = folder.rpartition("/")[2]
    if _OWN.fullmatch(last) and OWN_MANIFEST in names:
        return ""
    for by, name, parts in _FOLDERS:
        if name.fullmatch(last) and all(any(part.fullmatch(each) for each in names) for part in parts):
            return by
    return None


def _by_of_file(path: str, *, any_data: bool) -> str | None:
    last = path.rpartition("/")[2]
    found = next((by for by, name in _FILES if name.fullmatch(last)), None)
    return "the program" if found is None and any_data and DATA.fullmatch(last) else found


def listed(root: str, *, links: bool = True) -> list[File]:
    """Return the plain files below a folder, within the bounds of a search, which runs as the job's account.

    Links to files and folders count as what they lead to, as a job's copy of its project has them, unless
    ``links`` is false; below a linked folder none is followed. A folder that cannot be opened has none.
    """
    linked: list[str] | None = [] if links else None
    found = list(islice(_walk(root, "", MOST_FOLDERS, linked), MOST_FILES))
    for link in sorted(linked or ())[:MOST_LINKS]:
        found += islice(_walk(f"{root}/{link}", f"{link}/", MOST_LINKED_FOLDERS, None), MOST_LINKED_FILES)
    return found


def _walk(root: str, prefix: str, most: int, links: list[str] | None) -> Iterator[File]:
    """Yield the files below a folder, their paths after ``prefix``; add links to folders to ``links``."""
    try:
        opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for visited, (folder, folders, names, inside) in enumerate(os.fwalk(".", dir_fd=opened), 1):
            kept = sorted(name for name in folders if not _SKIPPED.match(name))
            if links is not None:
                links += (os.path.normpath(f"{folder}/{name}") for name in kept if _is_link(name, inside))
            folders[:] = kept if folder.count("/") < DEEPEST and visited < most else []
            for name in names:
                with suppress(OSError, UnicodeEncodeError):
                    about = os.stat(name, dir_fd=inside, follow_symlinks=links is not None)
                    path = prefix + os.path.normpath(f"{folder}/{name}")
                    if stat.S_ISREG(about.st_mode) and len(path.encode()) <= LONGEST_PATH:
                        yield File(path, about.st_size, about.st_mtime)
    finally:
        os.close(opened)


def _is_link(name: str, within: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode)
    except OSError:
        return False


def newest(
    roots: Sequence[str],
    since: float,
    named: Sequence[str],
    *,
    any_data: bool = False,
    ended: bool,
    killed: bool = False,
) -> Checkpoint | None:
    """Return the newest whole checkpoint below the folders ``roots``, None if there is none.

    ``named`` and ``any_data`` are as in `recognised`.

    Paths below the first one, the working directory, are relative to it; the others are paths from the root.
    Unless the job has ended, those that may still be written to are left out; of a file that is replaced again and
    again, this takes up to `SETTLED` to find out. If a signal ``killed`` it, it may have cut short what it wrote
    last: a young one comes then after older ones, unless its format says that it is complete.
    """
    found = []
    for number, root in enumerate(roots):
        for checkpoint in recognised(listed(root), since, named if number == 0 else (), any_data=any_data):
            place = checkpoint.path if number == 0 else f"{root}/{checkpoint.path}"
            found.append((f"{root}/{checkpoint.path}", checkpoint._replace(path=place)))
    found.sort(key=lambda each: -each[1].written)
    now = time.time()
    for path, checkpoint in found[:MOST_OPENED]:
        whole, settled = completeness(path), now - checkpoint.written >= SETTLED
        complete = whole or (whole is None and (settled or not killed))
        if complete and (settled or ended):
            return checkpoint
    whole_ones = (each for each in found[: MOST_OPENED if ended else 1] if is_whole(each[0]))
    return next((checkpoint for path, checkpoint in whole_ones if ended or not written_to([path])), None)


def written_to(paths: Sequence[str]) -> set[str]:
    """Return the files and folders that are written to at this moment: it waits `SETTLED` to find out.

    A file that another one replaces is complete: programs that write a new file and rename it never write to one
    that has the name. What cannot be looked at counts as written to.
    """
    before = {path: _state(path) for path in paths}
    busy = {path for path, state in before.items() if state is None}
    watched = [path for path in paths if path not in busy]
    held = [_held(path) for path in watched]  # an open file keeps its inode number
    try:
        deadline = time.monotonic() + SETTLED
        while watched and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
            for path in list(watched):
                now, was = _state(path), before[path]
                if now != was:
                    watched.remove(path)
                    if now is None or was is None or now[0] == was[0]:
                        busy.add(path)
    finally:
        for file in held:
            if file is not None:
                os.close(file)
    return busy


def _held(path: str) -> int | None:
    try:
        return os.open(path, _FILE)
    except OSError:
        return None


def _state(path: str) -> tuple[int, int, int] | None:
    """Return the inode, the size and the time of the last write of a file or a folder; None if it has none."""
    try:
        about = os.stat(path)  # noqa: PTH116 - light to start
        if stat.S_ISREG(about.st_mode):
            return about.st_ino, about.st_size, about.st_mtime_ns
        if not stat.S_ISDIR(about.st_mode):
            return None
        inside = [
            os.stat(f"{folder}/{name}")  # noqa: PTH116 - as above
            for folder, _, names in islice(os.walk(path), MOST_LINKED_FOLDERS)
            for name in names
        ]
    except OSError:
        return None
    last = max((each.st_mtime_ns for each in inside), default=0)
    return about.st_ino, sum(each.st_size for each in inside), last


def is_whole(path: str) -> bool:
    """Return whether a file has the end that its format requires; folders and other formats count as whole."""
    return completeness(path) is not False


def completeness(path: str) -> bool | None:
    """Return whether a file is complete by its format; None for folders and formats that do not say it.

    One that cannot be read is not.
    """
    try:
        file = os.open(path, _FILE)
    except OSError:
        return False
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            return None if stat.S_ISDIR(about.st_mode) else False
        head = os.pread(file, 64, 0)
        if _HEADED.match(head):
            head = os.pread(file, min(LONGEST_HEAD, 8 + int.from_bytes(head[:8], "little")), 0)
        return ends_well(head, os.pread(file, LONGEST_END, max(0, about.st_size - LONGEST_END)), about.st_size)
    except OSError:
        return False
    finally:
        os.close(file)


def ends_well(head: bytes, end: bytes, size: int) -> bool | None:
    """Return whether a file with this head and end is complete; None if its format does not say where it ends.

    The head of a safetensors file is all that is before its data.
    """
    if head.startswith(b"PK\3\4"):  # PyTorch, Keras, NumPy
        return b"PK\5\6" in end
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        at = 28 if head[8] >= 2 else 40
        return int.from_bytes(head[at : at + 8], "little") <= size
    if _PICKLED.match(head):
        return None if head.startswith(OLD_PYTORCH) else end.endswith(b".")
    if _HEADED.match(head):
        try:
            tensors = json.loads(head[8:]).items()
            data = max((each["data_offsets"][1] for name, each in tensors if name != "__metadata__"), default=0)
            return len(head) + int(data) <= size
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return False
    return None
