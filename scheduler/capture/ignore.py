"""The ignore files of a project: `.gitignore`, and `.springtideignore`, whose patterns prevail."""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from springtide.scheduler.capture.errors import CaptureError
from springtide.scheduler.wording import given, size

IGNORE_FILE = ".springtideignore"
GIT_IGNORE_FILE = ".gitignore"
EVERYTHING = frozenset({"*", "/*", "**", "/**"})
"""Patterns that leave out all of a folder."""
INVALID = (ValueError, re.error)
"""Errors of pathspec for lines that are no patterns."""
MOST_BYTES = 1 << 20
"""Size of an ignore file above which the project is refused, in bytes."""


@dataclass(frozen=True, slots=True)
class Ignores:
    """The patterns of a folder and of those above it: pairs of a folder and its patterns, the deepest first."""

    own: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    git: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    included: tuple[str, ...] = ()
    """Literal beginnings of the paths that ``!`` of a `.springtideignore` names."""

    def below(self, folder: str, place: Path) -> Ignores:
        """Return the patterns with those of one more folder, which lies at ``place``.

        Raises `CaptureError` if an ignore file there cannot be read as patterns.
        """
        own, git = _lines(place / IGNORE_FILE), _lines(place / GIT_IGNORE_FILE)
        if not (own or git):
            return self
        return Ignores(
            ((folder, _patterns(own)), *self.own) if own else self.own,
            ((folder, _patterns(git)), *self.git) if git else self.git,
            (*self.included, *(_joined(folder, _literal(line)) for line in own if line.startswith("!"))),
        )

    def has(self, path: str) -> bool:
        """Return whether a file, or a folder whose path ends with a slash, is ignored."""
        for folder, spec in (*self.own, *self.git):
            verdict = spec.check_file(path[len(folder) + 1 :] if folder else path).include
            if verdict is not None:
                return verdict
        return False

    def leads_to_included(self, folder: str) -> bool:
        """Return whether something in an ignored folder is included again."""
        return any(f"{path}/".startswith(f"{folder}/") for path in self.included)


def leaves_out_all(place: Path) -> bool:
    """Return whether the `.springtideignore` of a folder leaves out everything in it, as that of exports.

    One that cannot be read does not.
    """
    try:
        lines = [line.strip() for line in _lines(place / IGNORE_FILE)]
    except CaptureError:
        return False
    return any(line in EVERYTHING for line in lines) and not any(line.startswith("!") for line in lines)


def _patterns(lines: Sequence[str]) -> GitIgnoreSpec:
    """Return the patterns of an ignore file. Lines that are none match nothing, as in Git."""
    try:
        return GitIgnoreSpec.from_lines(lines)
    except INVALID:
        return GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)])


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except INVALID:
        return False
    return True


def _lines(path: Path) -> list[str]:
    """Return the lines of an ignore file, none if there is no such file. A mark of byte order is no part of them.

    As in Git, comments may have any encoding. Raises `CaptureError` for a file whose patterns cannot be known.
    """
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise _unreadable(path, "it is no file", "Make it a text file with one pattern a line")
        if about.st_size > MOST_BYTES:
            fault = f"it has {size(about.st_size)}, more than {size(MOST_BYTES)}"
            raise _unreadable(path, fault, "Name folders or patterns such as *.csv, not single files")
        content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(path, f"{error.strerror}", "Make it readable for you") from error
    if b"\0" in content:
        raise _unreadable(path, "it is no text in UTF-8", "Save it with the encoding UTF-8")
    return [_decoded(path, number, line) for number, line in enumerate(content.split(b"\n"), 1)]


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        if line.startswith(b"#"):
            return ""
        raise _unreadable(path, f"line {number} is not in UTF-8", "Save it with the encoding UTF-8") from error


def _unreadable(path: Path, fault: str, advice: str) -> CaptureError:
    name = str(path) if str(path).isprintable() else given(str(path))
    return CaptureError(
        f"The ignore file {name} cannot be read: {fault}. What it leaves out would be sent, so nothing "
        f"was submitted. {advice}, or delete it."
    )


def _literal(line: str) -> str:
    """Return the part of an including pattern before its first wildcard, empty if it has no slash."""
    parts = line[1:].strip().strip("/").split("/")
    literal = [part for part in parts if not set(part) & set("*?[")]
    return "/".join(literal) if parts[: len(literal)] == literal and "/" in line[1:].strip("/ ") else ""


def _joined(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder and path else path
