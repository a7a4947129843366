"""The project tree of a job: the folder it was submitted from, and what of it is copied."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from springtide.scheduler.wire.shapes import Answer, Request

MAX_LISTED: Final = 30
"""Maximum number of names in each list of a tree."""

MAX_SUBMODULES: Final = 100
"""Maximum number of repositories in a tree, beside its own."""

MAX_OUTSIDE: Final = 8
"""Maximum number of folders outside of the project in a tree."""

Digest: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
FilePath: TypeAlias = Annotated[str, Meta(max_length=4096)]
Names: TypeAlias = Annotated[tuple[FilePath, ...], Meta(max_length=MAX_LISTED)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 53)]
Commit: TypeAlias = Annotated[str, Meta(pattern=r"^([0-9a-f]{40,64})?$(?!\n)")]


class Submodule(Request, frozen=True, kw_only=True):
    """A repository in a project tree: its folder there, its Git directory and its commit."""

    path: FilePath
    git: FilePath
    commit: Commit


class ProjectTree(Request, frozen=True, kw_only=True):
    """The project folder of a submission, and which of its files the job has copies of.

    ``root`` is the folder, ``digest`` that of the packed copies, which were sent before; None runs the job in the
    folder itself. ``files`` are the first of ``file_count`` copied files with ``file_bytes`` together, ``linked``
    the first names that the job reads and writes in place, ``ignored`` those of them that an ignore file names;
    their numbers are ``linked_count`` and ``ignored_count``. ``git`` is the Git directory, ``commit`` its commit;
    both are empty without one. ``submodules`` are the repositories in copied folders. ``outside`` are the folders
    of scripts outside of the project, which the tree has as well, at `project_tree.outside_place`.
    """

    root: FilePath
    digest: Digest | None = None
    file_count: Number = 0
    file_bytes: Number = 0
    files: Names = ()
    linked: Names = ()
    linked_count: Number = 0
    ignored: Names = ()
    ignored_count: Number = 0
    git: FilePath = ""
    commit: Commit = ""
    submodules: Annotated[tuple[Submodule, ...], Meta(max_length=MAX_SUBMODULES)] = ()
    outside: Annotated[tuple[FilePath, ...], Meta(max_length=MAX_OUTSIDE)] = ()


class SentTree(Answer, frozen=True, kw_only=True):
    """A packed project tree that the pool has from its user; ``bytes`` is its size."""

    digest: str
    bytes: int
