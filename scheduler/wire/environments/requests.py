"""What a submission tells of the Python that its code was captured with."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from springtide.scheduler.wire.shapes import MAX_NAME, Request, Word

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
