"""The environment of a job: captured Python, environment of the run, and missing parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from springtide.scheduler.wire.shapes import MAX_NAME, Answer, Request, Word
from springtide.scheduler.wire.trees import ProjectTree


class ImageContents(Answer, frozen=True, kw_only=True):
    """An administrator's declaration of an image: its Python, and the modules that can be imported there.

    ``packages`` are versions by the name of the distribution. ``modules`` are top-level names.
    """

    python: str
    modules: list[str]
    packages: dict[str, str] = {}


class DeclaredContents(Answer, frozen=True, kw_only=True):
    """The declaration of one image; None if there is none."""

    contents: ImageContents | None = None


def missing_modules(
    environment: PythonEnvironment | None,
    image: str | None,
    requirements: Sequence[str],
    contents: ImageContents | None,
) -> list[str]:
    """Return the modules imported by a job's code but missing where it runs, as far as that is known.

    ``image`` is that of the job, None on one machine, ``contents`` its declared contents. Nothing is known of a
    job in an image without a declaration, or with packages to install.
    """
    if environment is None or requirements:
        return []
    if image is None:
        return environment.missing
    if contents is None:
        return []
    there = set(contents.modules)
    return [module for module in environment.imports if module not in there][:MAX_PACKAGES]


MAX_PACKAGES = 300
"""Maximum number of packages that a job's record names."""


class PythonEnvironment(Request, frozen=True, kw_only=True):
    """The Python that was found where a job was submitted, and the packages of what the job's code imports.

    ``python`` is its version and ``path`` that of the interpreter. ``packages`` are versions by the name of the
    distribution, ``imports`` the modules that the code cannot do without, beside its own and those of Python, by
    their top-level names; ``missing`` are those that this Python does not have.
    """

    python: Annotated[str, Meta(max_length=MAX_NAME)]
    path: Annotated[str, Meta(max_length=4096)]
    packages: Annotated[dict[Word, Word], Meta(max_length=MAX_PACKAGES)] = {}
    missing: Annotated[list[Word], Meta(max_length=MAX_PACKAGES)] = []
    imports: Annotated[list[Word], Meta(max_length=MAX_PACKAGES)] = []


class JobEnvironment(Answer, frozen=True, kw_only=True):
    """The environment of a job at its submission. The container image is that of the job.

    ``python`` is the version, ``path`` that of the interpreter: on one machine the one that runs the job, on a
    cluster the one of the notebook. Both are empty if neither is known. ``packages`` are versions of what
    the code imports, by the name of the distribution; ``missing`` are modules that the code imports and the
    Python that runs the job does not have. ``files`` are the paths of the first files that were sent,
    ``file_count`` the number and ``file_bytes`` the size of all. ``variables`` are names alone: values may be
    secrets.
    """

    python: str = ""
    path: str = ""
    packages: dict[str, str] = {}
    missing: list[str] = []
    files: list[str] = []
    file_count: int = 0
    file_bytes: int = 0
    variables: list[str] = []
    requirements: tuple[str, ...] = ()
    """Packages that are installed for the job."""
    tree: ProjectTree | None = None
    """The project of which the job has a copy; None if it runs without one."""
