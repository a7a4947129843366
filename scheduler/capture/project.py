"""A captured project: the copied files, those read in place, and the sentences about them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from springtide.scheduler.capture.ignore import IGNORE_FILE
from springtide.scheduler.capture.repository import Commit
from springtide.scheduler.project_tree import TreeFile, digest_of, pack, parents
from springtide.scheduler.wire.trees import MAX_LISTED, ProjectTree, Submodule
from springtide.scheduler.wording import count, given, plural, size

MOST_HOPS = 8
"""Number of links after each other that are followed."""
MOST_SHOWN = 200
"""Length up to which the path of a file is shown, in characters."""


@dataclass(frozen=True)
class Project:
    """A captured project folder: the copied files and links by relative path, and the rest, left in place.

    ``empty`` are folders without files, which a job has as its own.
    ``large`` are files of code that are too large to be copied, with their sizes in bytes; ``unseen`` are folders
    that were not looked at because the project is so large. ``submodules`` are the commits of the repositories in
    it by their folders, ``indexes`` the indexes of Git for the copies of all repositories by their paths.
    ``outside`` are the folders of scripts outside of the project, by their places in the copy.
    """

    root: Path
    files: Mapping[str, TreeFile]
    links: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    large: Mapping[str, int] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    commit: Commit | None = None
    submodules: Mapping[str, Commit] = field(default_factory=dict)
    indexes: Mapping[str, TreeFile] = field(default_factory=dict)
    outside: Mapping[str, Path] = field(default_factory=dict)

    @cached_property
    def packed(self) -> bytes:
        """The packed tree."""
        return pack({**self.files, **self.indexes}, self.links, self.empty)

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders of the job's copy."""
        paths = (*self.files, *self.links, *(f"{folder}/" for folder in self.empty))
        return frozenset({"", *(folder for path in paths for folder in parents(path))})

    def place_of(self, path: Path) -> str | None:
        """Return the place of a path in the copy, ``.`` for the root of the project; None if it has none."""
        return place_in((Path(os.path.normpath(path)), path.resolve()), self.root, self.outside)

    def is_inside(self, path: Path) -> bool:
        """Return whether a path, as it is written, leads into the project."""
        return Path(os.path.normpath(path)).is_relative_to(self.root)

    def named(self, place: str) -> str:
        """Return the name of a place for people: its path in the project, the whole path outside of it."""
        for outside, root in self.outside.items():
            if place.startswith(f"{outside}/"):
                return f"{root}{place[len(outside) :]}"
        return place

    def read_at(self, place: str) -> str:
        """Return the place of the file that is read at a place, at the end of its links."""
        for _ in range(MOST_HOPS):
            if (target := self.links.get(place)) is None:
                break
            place = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        return place

    def copies(self, place: str) -> bool:
        """Return whether the job has a copy of the file or folder at this place."""
        return place in self.files or place in self.links or place in self.folders or place == "."

    def modules(self, places: Iterable[str]) -> dict[str, bytes]:
        """Return the copied Python files by the paths under which imports find them from these folders."""
        found: dict[str, bytes] = {}
        for place in places:
            start = "" if place == "." else f"{place}/"
            for path, file in self.files.items():
                if path.startswith(start) and path.endswith(".py"):
                    found.setdefault(path[len(start) :], file.content)
        return found

    def described(self) -> ProjectTree:
        """Return the description of the tree that goes with a submission."""
        return ProjectTree(
            root=str(self.root),
            digest=digest_of(self.packed),
            file_count=len(self.files),
            file_bytes=sum(len(file.content) for file in self.files.values()),
            files=_listed(map(self.named, self.files)),
            linked=_listed(map(self.named, self.linked)),
            linked_count=len(self.linked),
            ignored=_listed(map(self.named, self.ignored)),
            ignored_count=len(self.ignored),
            git="" if self.commit is None else self.commit.directory,
            commit="" if self.commit is None else self.commit.digest,
            submodules=tuple(
                Submodule(path=path, git=commit.directory, commit=commit.digest)
                for path, commit in sorted(self.submodules.items())
            ),
            outside=tuple(sorted(map(str, self.outside.values()))),
        )

    def copy_notes(self) -> tuple[str, ...]:
        """Return the sentences on the files copied and those used in place, which `ProjectTree` shows as well."""
        if not (self.files or self.linked):
            return ()
        copied = f"The job runs in its own copy of {self.root}: {self._copied('', self.outside)}."
        in_place = [path for path in self.linked if path.rpartition("/")[2] != IGNORE_FILE]
        if not in_place:
            return (copied,)
        return copied, f"Read and written in place: {_some(list(map(self.named, in_place)))}."

    def in_place(self, path: str) -> str | None:
        """Return the linked folder that a path leads through, with a slash at its end; None without one."""
        above = (f"{folder}/" for folder in parents(f"{path}/"))
        return next((folder for folder in above if folder in self.linked), None)

    def notes(self) -> tuple[str, ...]:
        """Return the sentences for the submitter of the project."""
        if not (self.files or self.linked):
            return ()
        copied, *in_place = self.copy_notes()
        notes = [copied]
        notes += [
            f"It has a copy of {root} as well, for the script: {self._copied(f'{place}/')}."
            for place, root in self.outside.items()
        ]
        notes += in_place
        if self.large:
            verb, names = plural(len(self.large), "is", "are"), list(map(self.named, self.large))
            notes.append(f"Too large to be copied, and read in place: {_some(names)} {verb} code.")
        if self.unseen:
            verb, names = plural(len(self.unseen), "was", "were"), list(map(self.named, self.unseen))
            notes.append(
                f"{self.root} is so large that {_some(names)} {verb} not looked at: code there is read in place. "
                f"Name data in {IGNORE_FILE}."
            )
        return tuple(notes)

    def _copied(self, start: str, without: Iterable[str] = ()) -> str:
        """Return the number and size of the copied files whose paths begin so, without those of some folders."""
        left_out = tuple(f"{place}/" for place in without)
        sizes = [
            len(file.content)
            for path, file in self.files.items()
            if path.startswith(start) and not path.startswith(left_out)
        ]
        return f"{count(len(sizes), 'file')} ({size(sum(sizes))})"


def place_in(paths: Iterable[Path], root: Path, outside: Mapping[str, Path]) -> str | None:
    """Return the place of the first of these paths that a copy of ``root`` and of folders ``outside`` has."""
    for path in paths:
        for start, folder in (("", root), *outside.items()):
            if path.is_relative_to(folder):
                return posixpath.normpath(posixpath.join(start, path.relative_to(folder).as_posix()))
    return None


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    shown = (name if name.isprintable() else name.encode("unicode_escape").decode() for name in names)
    return tuple(islice((name for name in shown if len(name) <= MOST_SHOWN), MAX_LISTED))


def _some(names: Collection[str], most: int = 5) -> str:
    shown = [name if name.isprintable() else given(name) for name in list(names)[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")
