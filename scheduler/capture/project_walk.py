"""The walk through a project's folder: which of its files are copied, and which are read in place."""

from __future__ import annotations

import os
import posixpath
import stat
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from springtide.scheduler.capture import sources
from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.capture.file_kinds import (
    BARE,
    CODE,
    GIT_SETTINGS,
    KNOWN,
    PLACEHOLDERS,
    SECRETS,
    TEXTS,
    may_be_script,
    suffix_of,
)
from springtide.scheduler.capture.ignore import IGNORE_FILE, Ignores
from springtide.scheduler.capture.project import Project, place_in
from springtide.scheduler.capture.project_root import (
    LINKED_FOLDERS,
    has_file,
    is_environment,
    is_installed,
    is_shallow,
    is_there,
    marked_or,
)
from springtide.scheduler.capture.repository import Commit, CopiedPaths, Tracked, commit_of, current_commit
from springtide.scheduler.project_tree import (
    CACHES,
    MOST_BYTES,
    MOST_FILES,
    TreeFile,
    is_plain_path,
    outside_place,
    parents,
)
from springtide.scheduler.wire.trees import MAX_SUBMODULES
from springtide.scheduler.wording import amount, count, given, listed, size

MOST_EMPTY = 1_000
"""Number of empty folders from which on they are linked."""
DEEPEST_BARE = 4
"""Number of levels of empty folders in each other."""
SHORT = 256
"""Length of a path in ASCII up to which any file system takes it, in characters."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Maximum sizes of copies: of all files together, and of single ones.

    A folder without code and with more than ``texts`` settings and texts is data. ``entries`` bounds the look
    around, ``outside`` that in a linked folder outside of the project.
    """

    files: int = MOST_FILES
    bytes: int = MOST_BYTES
    file_bytes: int = 32 << 20
    text_bytes: int = 256 << 10
    texts: int = 200
    entries: int = 300_000
    outside: int = 2_000


def capture_project(place: Path, home: Path, scripts: Collection[Path] = (), caps: Caps = Caps()) -> Project:
    """Capture the project that the folder ``place`` is in, or that folder if nothing marks a project.

    The ``scripts`` are copied, whatever they are: one outside of the project with the project of its own, unless
    it `is_installed`. Of a folder that `is_wide` and that nothing marks, only the files themselves and packages
    of Python are. Raises `CaptureError` if more would be copied than ``caps`` allow.
    """
    place, home = place.resolve(), home.resolve()
    root = marked_or(place, home)
    for script in scripts:
        around = marked_or(_written(script).parent, home)
        if root.is_relative_to(around) and not is_shallow(around, home):
            root = around
    walk = _Walk(root, caps, shallow=is_shallow(root, home))
    walk.look_around()
    for script in scripts:
        walk.include(script, home)
    return walk.project(current_commit(root, home))


def _written(path: Path) -> Path:
    """Return a path as it is written, in the real folder: a link at its end stays one."""
    return path.parent.resolve() / path.name


@dataclass(slots=True)
class _Found:
    """A file to copy: where it lies, its size in bytes, whether it is code."""

    path: str
    size: int
    code: bool
    executable: bool


class _Walk:
    """The look around in a project, by breadth: what lies near the root is seen first."""

    def __init__(self, root: Path, caps: Caps, *, shallow: bool = False, outside: bool = False) -> None:
        self.root = root
        self.caps = caps
        self.shallow = shallow
        self.outside = outside
        self.found: dict[str, _Found] = {}
        self.settings: dict[str, _Found] = {}
        self.repositories: dict[str, Path] = {}
        self.links: dict[str, str] = {}
        self.ignored: list[str] = []
        self.large: dict[str, int] = {}
        self.unseen: list[str] = []
        self.places: list[str] = []
        self.empty: list[str] = []
        self.kept: set[str] = set()
        self.beside: dict[str, Path] = {}
        self.commits: dict[str, Commit] = {}
        self.entries = caps.entries

    def look_around(self) -> None:
        """Find the files to copy."""
        folders = deque([("", str(self.root), Ignores())])
        while folders:
            folder, place, above = folders.popleft()
            if self.entries <= 0:
                self.unseen.append(f"{folder}/")
                continue
            folders.extend(self._look_into(folder, place, above))
        self._leave_out_data()
        self._add_settings_of_git()

    def include(self, script: Path, home: Path) -> None:
        """Copy a script, whatever it is; one outside, as the target of a link may be, with its own project."""
        lexical, real = Path(os.path.normpath(script)), script.resolve()
        written = _written(script)
        if is_installed(written):
            return
        if lexical.is_relative_to(self.root) and not written.is_relative_to(self.root):
            self._add(lexical.relative_to(self.root).as_posix(), real)
            return
        target = self._placed(real, home)
        if target is None:
            if (place := self._place_of(written)) is not None:
                self._add(place, real)
            return
        self._add(target, real)
        if written == real:
            return
        known = self._place_of(written)
        place = known if known is not None or real.is_relative_to(self.root) else self._placed(written, home)
        if place is not None:
            self.found.pop(place, None)
            self.links[place] = posixpath.relpath(target, posixpath.dirname(place) or ".")

    def _place_of(self, path: Path) -> str | None:
        return place_in((path,), self.root, self.beside)

    def _placed(self, script: Path, home: Path) -> str | None:
        """Return the place of a script, whose project is taken if need be; None if it is installed."""
        place = self._place_of(script)
        if place is not None and not (self.shallow and "/" in place and place not in self.found):
            return place
        around = marked_or(script.parent, home)
        inside = around.is_relative_to(self.root)
        start = around.relative_to(self.root).as_posix() if inside else outside_place(str(around))
        if is_installed(script) or not is_plain_path(start):
            return place
        walk = _Walk(around, self.caps, shallow=is_shallow(around, home))
        walk.look_around()
        self._join(start, walk)
        if not inside:
            self.beside[start] = around
        if is_there(around / ".git"):
            self.repositories[start] = around
        elif commit := current_commit(around, home):
            self.commits[start] = commit
        return self._place_of(script)

    def _join(self, start: str, walk: _Walk) -> None:
        """Take what another look around found to a folder of the copy."""

        def fits(path: str) -> bool:
            return is_plain_path(f"{start}/{path.rstrip('/')}")

        self.found |= {f"{start}/{path}": found for path, found in walk.found.items() if fits(path)}
        self.links |= {f"{start}/{path}": to for path, to in walk.links.items() if fits(path)}
        self.repositories |= {f"{start}/{path}".rstrip("/"): place for path, place in walk.repositories.items()}
        self.large |= {f"{start}/{path}": length for path, length in walk.large.items()}
        for own, others in (
            (self.ignored, walk.ignored),
            (self.unseen, walk.unseen),
            (self.places, walk.places),
            (self.empty, filter(fits, walk.empty)),
        ):
            own += [f"{start}/{path}" for path in others]

    def _add(self, path: str, place: Path) -> None:
        with suppress(OSError):
            about = place.stat()
            self.found[path] = _Found(str(place), about.st_size, code=True, executable=bool(about.st_mode & 0o100))
            self.kept.add(path)
            self.large.pop(path, None)

    def project(self, commit: Commit | None) -> Project:
        """Read and return the found files. Raises `CaptureError` if they are too much."""
        tracked = self._tracked(commit)
        self._check_caps(len(tracked), sum(len(index.content) for _, index in tracked.values()))
        files = {}
        for path, found in sorted(self.found.items()):
            if path in self.kept:
                content = sources.read(Path(found.path))
            else:
                try:
                    content = sources.settled(found.path)
                except OSError:
                    continue
            files[path] = TreeFile(content, found.executable)
        links = {path: target for path, target in self.links.items() if path not in files}
        folders = {"", *(folder for path in (*files, *links) for folder in parents(path))}
        copied = {*folders, *files, *links}
        linked = [
            path
            for path in dict.fromkeys((*self.places, *self.ignored))
            if path.rstrip("/") not in copied and path.rstrip("/").rpartition("/")[0] in folders
        ]
        return Project(
            root=self.root,
            files=files,
            links=links,
            empty=tuple(path for path in self.empty if path not in links),
            linked=tuple(sorted(linked, key=lambda path: (path.startswith("."), not path.endswith("/"), path))),
            ignored=tuple(self.ignored),
            large=self.large,
            unseen=tuple(self.unseen),
            commit=commit,
            submodules={**self.commits, **{place: found for place, (found, _) in tracked.items() if place}},
            outside=self.beside,
            indexes=_indexes(tracked, CopiedPaths(files, links, folders)),
        )

    def _tracked(self, commit: Commit | None) -> dict[str, tuple[Commit, Tracked]]:
        """Return the commits and indexes of the repositories whose working trees begin in copied folders."""
        begin = {"": (self.root, commit)} if is_there(self.root / ".git") else {}
        folders = {folder for path in (*self.found, *self.links) for folder in parents(path)}
        inside = ((path, place) for path, place in sorted(self.repositories.items()) if path in folders)
        begin |= {path: (place, commit_of(place)) for path, place in islice(inside, MAX_SUBMODULES)}
        return {path: (found, Tracked(place, found)) for path, (place, found) in begin.items() if found}

    def _look_into(self, folder: str, place: str, above: Ignores) -> Iterator[tuple[str, str, Ignores]]:
        """Find the files to copy of one folder; yield the folders in it to look into."""
        try:
            with os.scandir(place) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError:
            return
        self.entries -= len(entries)
        ignores = above.below(folder, Path(place))
        files: list[os.DirEntry[str]] = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name == ".git" and (folder or self.outside):
                self.repositories[folder] = Path(place)
            if entry.name in CACHES or not ((path.isascii() and len(path) < SHORT) or is_plain_path(path)):
                continue
            if len(self.empty) < MOST_EMPTY and (bare := _bare_folders(entry, path)):
                self.empty += bare
                for each in bare:
                    self._find_settings(each, Path(entry.path, os.path.relpath(each, path)))
                continue
            if not folder or _is_folder(entry):
                self.places.append(f"{path}/" if _is_folder(entry) else path)
            if entry.is_symlink():
                self._follow(path, entry, ignores)
            elif _is_folder(entry):
                if self._is_entered(path, entry, ignores, folder):
                    yield path, entry.path, ignores
            else:
                files.append(entry)
        self._choose(folder, files, ignores)
        self._find_settings(folder, Path(place))

    def _find_settings(self, folder: str, place: Path) -> None:
        for name in GIT_SETTINGS:
            with suppress(OSError):
                about = (place / name).lstat()
                if stat.S_ISREG(about.st_mode) and about.st_size <= self.caps.text_bytes:
                    path = f"{folder}/{name}" if folder else name
                    self.settings[path] = _Found(str(place / name), about.st_size, code=False, executable=False)

    def _is_entered(self, path: str, entry: os.DirEntry[str], ignores: Ignores, folder: str) -> bool:
        if entry.name.startswith(".") or entry.name in LINKED_FOLDERS or is_environment(Path(entry.path)):
            return False
        if self.shallow and not folder and not has_file(Path(entry.path), "__init__.py"):
            return False
        if ignores.has(f"{path}/") and not ignores.leads_to_included(path):
            self.ignored.append(f"{path}/")
            return False
        return True

    def _follow(self, path: str, entry: os.DirEntry[str], ignores: Ignores) -> None:
        """Keep a link inside the project; copy a file, or a folder with code, that lies outside."""
        try:
            target = Path(os.path.realpath(entry.path))
        except OSError:  # a link that may not be read, such as those of other processes in /proc
            return
        if not is_there(target):
            return
        if target.is_relative_to(self.root):
            inside = target.relative_to(self.root).as_posix()
            if not any(part in CACHES for part in inside.split("/")):
                self.links[path] = os.path.relpath(inside, path.rpartition("/")[0] or ".")
        elif _is_folder(entry):
            if not (self.shallow or self.outside or ignores.has(f"{path}/")):
                self._copy_outside(path, target, ignores)
        else:
            self._choose(path.rpartition("/")[0], [entry], ignores)

    def _copy_outside(self, path: str, target: Path, ignores: Ignores) -> None:
        """Copy a folder outside of the project if it has code and is small enough to be looked at."""
        if is_environment(target):
            return
        caps = Caps(entries=self.caps.outside)
        walk = _Walk(target, caps, outside=True)
        walk.look_around()
        if walk.unseen or walk.entries <= 0 or not any(found.code for found in walk.found.values()):
            return
        for below, found in walk.found.items():
            if not ignores.has(f"{path}/{below}"):
                self.found[f"{path}/{below}"] = found
        for below, to in walk.links.items():
            self.links[f"{path}/{below}"] = to
        self.repositories |= {f"{path}/{below}".rstrip("/"): place for below, place in walk.repositories.items()}

    def _choose(self, folder: str, entries: list[os.DirEntry[str]], ignores: Ignores) -> None:
        unknown = [entry for entry in entries if suffix_of(entry.name) not in KNOWN]
        peek = len(unknown) <= self.caps.texts
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            suffix = suffix_of(entry.name)
            if (
                entry.name.startswith(".")
                or sources.OF_JUPYTER.fullmatch(entry.name)
                or SECRETS.fullmatch(entry.name)
            ):
                continue
            if not (suffix in CODE or suffix in TEXTS or entry.name in BARE or (peek and may_be_script(entry))):
                continue
            try:
                about = entry.stat()
            except OSError:
                continue
            if not stat.S_ISREG(about.st_mode):
                continue
            if ignores.has(path):
                self.ignored.append(path)
                continue
            text = suffix in TEXTS or entry.name in BARE
            if about.st_size > (self.caps.text_bytes if text else self.caps.file_bytes):
                if not text:
                    self.large[path] = about.st_size
                continue
            executable = bool(about.st_mode & 0o100)
            self.found[path] = _Found(entry.path, about.st_size, code=not text, executable=executable)

    def _leave_out_data(self) -> None:
        """Leave settings and texts in place that are data: very many in one folder, or below one without code."""
        code, texts, own = Counter[str](), Counter[str](), Counter[str]()
        for path, found in self.found.items():
            folders = ["", *parents(path)]
            (code if found.code else texts).update(folders)
            if not found.code:
                own[folders[-1]] += 1
        data = {folder for folder, number in texts.items() if number > self.caps.texts and not code[folder]}
        many = {folder for folder, number in own.items() if number > self.caps.texts}
        for path in [path for path, found in self.found.items() if not found.code]:
            folders = ["", *parents(path)]
            if folders[-1] in many or any(folder in data for folder in folders):
                del self.found[path]

    def _add_settings_of_git(self) -> None:
        """Copy what Git reads in the folders of the copy; alone it makes no folder one of the copy."""
        folders = {"", *self.empty, *(folder for path in (*self.found, *self.links) for folder in parents(path))}
        for path, found in self.settings.items():
            if path.rpartition("/")[0] in folders:
                self.found[path] = found

    def _check_caps(self, indexes: int, index_bytes: int) -> None:
        total = sum(found.size for found in self.found.values())
        number = len(self.found) + len(self.links) + len(self.empty) + indexes
        if number <= self.caps.files and total + index_bytes <= self.caps.bytes:
            return
        sizes, numbers = Counter[Path](), Counter[Path]()
        for path, found in self.found.items():
            sizes[self._top(path)] += found.size
            numbers[self._top(path)] += 1
        for path in (*self.links, *self.empty):
            numbers[self._top(path)] += 1
        by = sizes if total > self.caps.bytes else numbers
        largest = [folder for folder, _ in by.most_common(3)]
        roots = [self.root, *self.beside.values()]
        named = [
            f"{self._shown(folder)} ({count(numbers[folder], 'file')}, {size(sizes[folder])})"
            for folder in largest
        ]
        root, line = next(
            (
                (root, f"/{folder.relative_to(root).as_posix()}/")
                for folder in largest
                if folder not in roots
                for root in roots
                if folder.is_relative_to(root)
            ),
            (self.root, "*.json"),
        )
        whole = f"The project {self.root}"
        if self.beside:
            whole += f" with {listed(list(map(str, self.beside.values())))}, where the script is,"
        msg = (
            f"{whole} has {count(number, 'file')} ({size(total)}) of code, settings and small "
            f"texts; a job takes {amount(self.caps.files)} files, links and empty folders among them, and "
            f"{size(self.caps.bytes)}. Most are in {listed(named)}. Data stay in place, and the job "
            f"reads them there, once {root / IGNORE_FILE} names them: add a line such as {given(line)}."
        )
        raise CaptureError(msg)

    def _top(self, path: str) -> Path:
        """Return the folder of at most two levels in which a path of the copy lies, outside of it."""
        start = next((start for start in self.beside if path.startswith(f"{start}/")), "")
        below = path[len(start) :].lstrip("/").split("/")[:-1][:2]
        return self.beside.get(start, self.root).joinpath(*below)

    def _shown(self, folder: Path) -> str:
        if folder == self.root:
            return "the folder itself"
        return str(folder.relative_to(self.root)) if folder.is_relative_to(self.root) else str(folder)


def _indexes(tracked: Mapping[str, tuple[Commit, Tracked]], copied: CopiedPaths) -> dict[str, TreeFile]:
    made = {place: index.in_copy(copied, place) for place, (_, index) in tracked.items()}
    return {f"{place}/.git/index".lstrip("/"): TreeFile(content) for place, content in made.items() if content}


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _bare_folders(entry: os.DirEntry[str], path: str, levels: int = DEEPEST_BARE) -> list[str]:
    """Return a folder without files other than placeholders, and those in it; none for anything else."""
    if not levels or entry.is_symlink() or not _is_folder(entry):
        return []
    found = [path]
    try:
        with os.scandir(entry.path) as entries:
            for each in entries:
                below = _bare_folders(each, f"{path}/{each.name}", levels - 1)
                if not below and each.name not in PLACEHOLDERS:
                    return []
                found += below
    except OSError:
        return []
    return found
