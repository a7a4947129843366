"""The job's own copy of its project: the files of its submission, and links to what lies beside them.

It runs as the job's account, on names that the job's user chose.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

HEAD = b"springtide tree 1\n"
"""First line of packed files, as `springtide.scheduler.project_tree` writes them."""
NEW = ".springtide.new"
"""Name of an unfinished copy."""
COPIED_AT = 946_684_800
"""Time of the last change of copied files, in seconds since the epoch (1 January 2000): others are the job's."""
SEEDS = "forked"
"""Folder among the checkpoints of a fork with those that come into its working directory."""
MOST_LINKS = 100_000
MOST_GONE = 5
"""Number of missing files and folders that the log names."""
CACHES = frozenset(
    {"__pycache__", ".git", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".springtide.new"}
)
"""Names of files that are neither copied nor linked."""
MOST_TEXT = 4 << 20
"""Length of the settings of Git that are copied, in characters."""
GIT_CONFIG = """
[core]
\tbare = false
\tworktree = ..
\tfsmonitor = false
[sparse]
\texpectFilesOutsideOfPatterns = true
"""
"""Settings of Git in a copy: the working tree is beside it, with links in place of files that the index skips."""


def make_tree(spec: dict[str, Any]) -> None:
    """Make the copy ``spec["tree"]`` of the project, atomically; do nothing if it exists.

    ``packed`` is the file of the submission's files, ``root`` the project's folder, ``cwd`` the working directory
    in it, ``linked`` what of it was left in place at the submission, ``outside`` the folders of scripts outside of
    the project by their places in the copy, ``repositories`` folder in the copy, Git directory and commit of each
    repository at the submission. The files below ``seeds``, if that exists, come into the working directory in
    place of its own.
    Raises OSError or ValueError.
    """
    tree, root = spec["tree"], spec["root"]
    if os.path.lexists(tree):
        return
    new = os.path.join(os.path.dirname(tree), NEW)  # noqa: PTH118, PTH120 - light to start
    if os.path.lexists(new):
        shutil.rmtree(new)
    os.mkdir(new, 0o755)  # noqa: PTH102
    folders, taken = _unpack(spec["packed"], new)
    working = os.path.relpath(spec["cwd"], tree)
    for path in () if working.split("/")[0] in {".", ".."} else _with_parents(working):
        folders.add(path)
        os.makedirs(f"{new}/{path}", 0o755, exist_ok=True)  # noqa: PTH103
    seeds = spec.get("seeds", "")
    if os.path.isdir(seeds) and not os.path.islink(seeds):  # noqa: PTH112, PTH114
        _place_seeds(seeds, new, "" if working == "." else working, folders, taken)
    outside = spec.get("outside", {})
    links = _link({"": root, **outside}, new, folders, taken)
    linked = spec.get("linked", ())
    _say_what_is_gone(root, [name for name in linked if not name.startswith("/")])
    for folder in outside.values():
        _say_what_is_gone(folder, [name[len(folder) + 1 :] for name in linked if name.startswith(f"{folder}/")])
    links += {place.partition("/")[0] for place in outside}
    links += [folder for folder in folders if folder and os.path.islink(f"{root}/{folder}")]  # noqa: PTH114
    for place, git, commit in spec["repositories"]:
        start = f"{place}/" if place else ""
        inside = [path[len(start) :] for path in links if path.startswith(start)]
        if (not place or place in folders) and not _attach_git(f"{new}/{start}.git", git, commit, inside):
            shutil.rmtree(f"{new}/{start}.git", ignore_errors=True)
    handle = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
    with suppress(AttributeError):
        ctypes.CDLL(None).syncfs(handle)
    os.close(handle)
    os.rename(new, tree)  # noqa: PTH104
    with suppress(OSError):
        os.unlink(spec["packed"])  # noqa: PTH108
    shutil.rmtree(seeds, ignore_errors=True)


def _unpack(packed: str, new: str) -> tuple[set[str], set[str]]:
    """Write the files of the submission; return the folders and the paths that are there now."""
    folders, taken = {""}, set()
    with open(packed, "rb") as file:  # noqa: PTH123
        if file.readline() != HEAD:
            raise ValueError("the packed files of the project cannot be read")
        manifest = json.loads(file.read(int(file.readline())))
        for path, size, executable in manifest["files"]:
            _make_parents(new, path, folders)
            mode = 0o755 if executable else 0o644
            target = os.open(f"{new}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with open(target, "wb", buffering=0) as copy:  # noqa: PTH123
                _write(copy, file.read(size))
            os.utime(f"{new}/{path}", (COPIED_AT, COPIED_AT))
            taken.add(path)
    for path, target in manifest["links"]:
        _make_parents(new, path, folders)
        os.symlink(target, f"{new}/{path}")  # noqa: PTH211
        taken.add(path)
    for path in manifest.get("folders", ()):
        _make_parents(new, f"{path}/", folders)
    return folders, taken


def _place_seeds(seeds: str, new: str, working: str, folders: set[str], taken: set[str]) -> None:
    """Put the files below ``seeds`` into the working directory of the copy; they stay there until it is whole."""
    if working.split("/", maxsplit=1)[0] == "..":
        return
    for folder, _, names in os.walk(seeds):
        below = os.path.relpath(folder, seeds)
        for name in names:
            path = os.path.normpath(f"{working}/{below}/{name}").lstrip("/")
            _make_parents(new, path, folders)
            with suppress(FileNotFoundError):
                os.unlink(f"{new}/{path}")  # noqa: PTH108
            try:
                os.link(f"{folder}/{name}", f"{new}/{path}")
            except OSError:
                shutil.copy2(f"{folder}/{name}", f"{new}/{path}")
            taken.add(path)


def _write(file: Any, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]


def _make_parents(new: str, path: str, folders: set[str]) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError("a path of the packed files leads out of the project")
    folder = path.rpartition("/")[0]
    if folder in folders:
        return
    for each in _with_parents(folder):
        if each not in folders:
            os.mkdir(f"{new}/{each}", 0o755)  # noqa: PTH102
            folders.add(each)


def _with_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _link(roots: dict[str, str], new: str, folders: set[str], taken: set[str]) -> list[str]:
    """Link everything not copied, a folder without copied files as one link; return the linked folders.

    ``roots`` are the folders that were copied, by their places in the copy.
    """
    root = roots[""]
    left = MOST_LINKS
    linked: list[str] = []
    for folder in sorted(folders):
        if folder.rpartition("/")[2] == ".git":
            continue
        try:
            source = _source(roots, folder)
            names = os.listdir(source)  # noqa: PTH208
        except OSError as error:
            if folder in roots:
                _say(f"{source} cannot be read here ({error.strerror}): the job has the sent files alone.")
            continue
        for name in sorted(names):
            path = f"{folder}/{name}" if folder else name
            if name in CACHES or path in taken or path in folders:
                continue
            if not left:
                _say(f"{root} has more than {MOST_LINKS} files that were not sent; no more are linked.")
                return linked
            left -= 1
            os.symlink(os.path.join(source, name), f"{new}/{path}")  # noqa: PTH118, PTH211
            if os.path.isdir(f"{source}/{name}"):  # noqa: PTH112
                linked.append(path)
    return linked


def _source(roots: dict[str, str], folder: str) -> str:
    """Return the folder that a folder of the copy is of."""
    place = max((place for place in roots if f"{folder}/".startswith(f"{place}/")), key=len, default="")
    return os.path.join(roots[place], folder[len(place) :].lstrip("/")).rstrip("/") or "/"  # noqa: PTH118


def _say_what_is_gone(root: str, linked: Sequence[str]) -> None:
    """Write to the job's log which files were left in place at the submission and are missing; names with a dot
    are left out. Each was removed since, or is in a folder that the pool hides from the job's account.
    """
    if not os.path.isdir(root):  # noqa: PTH112
        return
    gone = [path for path in linked if _is_gone(root, path)]
    if gone:
        more = f" and {len(gone) - MOST_GONE} more" if len(gone) > MOST_GONE else ""
        were, them = ("was", "it") if len(gone) == 1 else ("were", "them")
        named = ", ".join(gone[:MOST_GONE])
        _say(f"{named}{more} {were} in {root} at the submission; the job does not find {them} there now.")


def _is_gone(root: str, path: str) -> bool:
    """Return whether a path of the project is gone; of names that were escaped that is not known."""
    if "\\" in path or any(part.startswith(".") for part in path.split("/")):
        return False
    try:
        os.lstat(f"{root}/{path}".rstrip("/"))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _say(text: str) -> None:
    """Write a line to the job's log."""
    os.write(1, f"{text}\n".encode(errors="replace"))


def _attach_git(own: str, git: str, commit: str, linked: list[str]) -> bool:
    """Make the Git directory of a copy, at a commit; return whether the repository's objects are there to read.

    It borrows the objects, and has copies of branches, tags and settings: nothing that Git does in the job changes
    the repository. The index is in the sent files. Linked folders count as ignored.
    """
    common = git
    with suppress(OSError), open(f"{git}/commondir", encoding="utf-8") as file:  # noqa: PTH123
        common = os.path.normpath(os.path.join(git, file.read().strip()))  # noqa: PTH118
    if not os.path.isdir(f"{common}/objects"):  # noqa: PTH112
        return False
    for folder in ("objects/info", "info"):
        os.makedirs(f"{own}/{folder}", 0o755, exist_ok=True)  # noqa: PTH103
    with suppress(OSError):
        shutil.copytree(f"{common}/refs", f"{own}/refs", ignore=shutil.ignore_patterns("*.lock"))
    os.makedirs(f"{own}/refs", 0o755, exist_ok=True)  # noqa: PTH103
    for place, name in (
        (common, "packed-refs"),
        (common, "shallow"),
        (common, "info/attributes"),
        (git, "info/sparse-checkout"),
    ):
        with suppress(OSError):
            shutil.copyfile(f"{place}/{name}", f"{own}/{name}")
    config = _text(f"{common}/config") + "\n" + _text(f"{git}/config.worktree") + GIT_CONFIG
    ignored = _text(f"{common}/info/exclude") + "\n" + "".join(f"/{_pattern(path)}\n" for path in sorted(linked))
    for name, text in (
        ("HEAD", f"{commit}\n"),
        ("config", config),
        ("info/exclude", ignored),
        ("objects/info/alternates", f"{common}/objects\n"),
    ):
        target = os.open(f"{own}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(target, "w", encoding="utf-8", errors="surrogateescape") as copy:  # noqa: PTH123
            copy.write(text)
    return True


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            return file.read(MOST_TEXT)
    except OSError:
        return ""


def _pattern(path: str) -> str:
    """Return the pattern of an ignore file for exactly this path."""
    return "".join(f"\\{letter}" if letter in "\\*?[ " else letter for letter in path).replace("\n", "?")
