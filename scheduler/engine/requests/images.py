"""Container images that jobs may run in: those on the admin's list, and none on one machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire import ImageContents
from springtide.scheduler.wording import LONG_GIVEN, given

MAX_SHOWN = 12
"""Maximum number of patterns that a refusal names."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._/:@+*-]*", re.ASCII)


def choose_image(asked: str | None, images: Sequence[str] | None) -> str | None:
    """Return the image a job runs in: ``asked``, or the first of the list if that is None.

    ``images`` are patterns; None on one machine, where the result is None too. Raises `Refusal` (400) for an image
    that is not on the list.
    """
    if images is None:
        if asked is None:
            return None
        raise _refused(
            f"The image {given(asked, LONG_GIVEN)} has no meaning here: this pool runs jobs on one machine, "
            "without containers.",
            "Leave the image out; the job runs with the programs of this machine.",
        )
    if asked is None:
        return images[0]
    if _NAME.fullmatch(asked) is None:
        raise _refused(f"{given(asked, LONG_GIVEN)} is no name of an image.", f"Write it like {images[0]}.")
    if not any(matches(asked, pattern) for pattern in images):
        more = "" if len(images) <= MAX_SHOWN else f" and {len(images) - MAX_SHOWN} more"
        raise _refused(
            f"The image {given(asked, LONG_GIVEN)} is not on this pool's list: "
            f"{', '.join(images[:MAX_SHOWN])}{more}.",
            "Name one of the list, or ask an admin of this hub to add it.",
        )
    return asked


def matches(image: str, pattern: str) -> bool:
    """Return whether an image matches a pattern, in which ``*`` stands for any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), image) is not None


def declared_contents(image: str | None, declared: Mapping[str, ImageContents]) -> ImageContents | None:
    """Return what an admin has declared of an image, by patterns of which the first that matches counts."""
    if image is None:
        return None
    return next((contents for pattern, contents in declared.items() if matches(image, pattern)), None)


def pattern_list_error(images: Sequence[str]) -> str | None:
    """Return what is wrong with a list of patterns, None if it is valid."""
    if not images:
        return "the list is empty; name at least the image that jobs run in by default"
    if "*" in images[0]:
        default = given(images[0], LONG_GIVEN)
        return f"{default} comes first and is the default, so it cannot be a pattern; name one image"
    wrong = wrong_pattern(images)
    return None if wrong is None else f"{given(wrong, LONG_GIVEN)} is no name or pattern of images"


def wrong_pattern(images: Sequence[str]) -> str | None:
    """Return the first text that is no name or pattern of images, None if all are."""
    return next((pattern for pattern in images if _PATTERN.fullmatch(pattern) is None), None)


def _refused(message: str, hint: str) -> Refusal:
    return Refusal(400, "image", message, field="image", hint=hint)
