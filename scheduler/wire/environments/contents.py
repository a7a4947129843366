"""What is known to be missing where a job runs; pure."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.scheduler.wire.environments.requests import MAX_PACKAGES, PythonEnvironment
from springtide.scheduler.wire.shapes import Answer


class ImageContents(Answer, frozen=True, kw_only=True):
    """What an administrator declares of an image: its Python, and the modules that can be imported there.

    ``packages`` are versions by the name of the distribution. ``modules`` are top-level names.
    """

    python: str
    modules: list[str]
    packages: dict[str, str] = {}


class DeclaredContents(Answer, frozen=True, kw_only=True):
    """What is declared of one image; None if nothing is."""

    contents: ImageContents | None = None


def missing_modules(
    told: PythonEnvironment | None,
    image: str | None,
    requirements: Sequence[str],
    contents: ImageContents | None,
) -> list[str]:
    """Return the modules that a job's code imports and that are missing where it runs, as far as that is known.

    ``image`` is that of the job, None on one machine, ``contents`` what is declared of it. Nothing is known of a
    job in an image without a declaration, and of one that packages are installed for.
    """
    if told is None or requirements:
        return []
    if image is None:
        return told.missing
    if contents is None:
        return []
    there = set(contents.modules)
    return [module for module in told.imports if module not in there][:MAX_PACKAGES]
