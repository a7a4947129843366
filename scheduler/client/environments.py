"""The environment of a job, as people read it. ``widgets/visuals/base/environment.js`` has the same for pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from springtide.scheduler.wire import JobEnvironment
from springtide.scheduler.wording import count, listed, plural, size

SHOWN: Final = 5
"""Maximum number of files that are named."""
IMAGE_VARIABLE: Final = "SPRINGTIDE_IMAGE"
"""Variable of a notebook on a cluster that names the image it runs in."""


def facts(environment: JobEnvironment, image: str | None) -> list[tuple[str, str]]:
    """Return what a job runs with, as heads and values; ``image`` is its container image, None on one machine."""
    shown = [
        ("Python", python_words(environment, image)),
        ("Packages", ", ".join(f"{name} {version}" for name, version in sorted(environment.packages.items()))),
        ("Installed for it", ", ".join(environment.requirements)),
        ("Missing", missing_words(environment, image)),
        ("Files", files_words(environment)),
        ("Image", image or ""),
        ("Variables", ", ".join(environment.variables)),
    ]
    return [(head, words) for head, words in shown if words]


def python_words(environment: JobEnvironment, image: str | None) -> str:
    """Return which Python runs the job; of a job in an image, which one captured its code."""
    if not environment.python:
        return "the one that the command chooses"
    words = f"{environment.python}, {environment.path}"
    return f"{words} in the notebook; the image has its own" if image else words


def missing_words(environment: JobEnvironment, image: str | None) -> str:
    """Return what is missing and what to do about it, as a sentence; empty if nothing is known to be missing."""
    if not environment.missing:
        return ""
    names = listed(environment.missing)
    verb = plural(len(environment.missing), "is", "are")
    return f"{names} {verb} imported by the code and not installed in {image or environment.path}."


def files_words(environment: JobEnvironment) -> str:
    """Return the first files that are sent, and how many there are."""
    if not environment.file_count:
        return "none"
    named = environment.files[:SHOWN]
    rest = environment.file_count - len(named)
    more = f" and {count(rest, 'more', 'more')}" if rest else ""
    return f"{', '.join(named)}{more} ({size(environment.file_bytes)})"


def image_of(asked: str | None, images: Sequence[str]) -> str | None:
    """Return the container image of a job that is not submitted yet, None on one machine, which has no images.

    ``asked`` is the image of its options, ``images`` are those that the pool offers its user.
    """
    if not images:
        return None
    return asked or os.environ.get(IMAGE_VARIABLE) or images[0]
