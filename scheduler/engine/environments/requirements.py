"""Packages that a job requires: names with versions, as PEP 508 has them, and nothing else that pip would take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from springtide.scheduler import wording
from springtide.scheduler.refusal import Refusal

MAX_LENGTH: Final = 200
"""Maximum length of one requirement, in characters."""
COMPARISONS: Final = ("<", ">", "=", "!", "~")
EXPECTED: Final = "Name packages with versions, such as numpy, 'torch>=2.4' or 'transformers[torch]==4.46.*'."


def checked_requirements(given: Sequence[str], *, images: bool) -> tuple[str, ...]:
    """Return requirements in one spelling, sorted, each once. ``images`` says that jobs run in images.

    Raise `Refusal` for options of pip, paths and addresses, and for any requirement of a job in an image.
    """
    if given and images:
        raise _refusal(
            "Jobs of this pool run in images, into which nothing is installed.",
            "Choose an image that has the packages: image=…, or --image in a terminal.",
        )
    return tuple(sorted({_spelled(text.strip()) for text in _whole(given)}))


def _whole(given: Sequence[str]) -> Sequence[str]:
    """Return requirements as they were before text was divided at commas: ``torch>=2,<3``, ``a[b,c]``."""
    found: list[str] = []
    for text in given:
        if found and (text.lstrip().startswith(COMPARISONS) or found[-1].count("[") > found[-1].count("]")):
            found[-1] = f"{found[-1]},{text}"
        else:
            found.append(text)
    return found


def _spelled(text: str) -> str:
    shown = wording.given(text)
    if text.startswith("-"):
        raise _refusal(f"{shown} is an option of pip, not a package.", f"An administrator sets those. {EXPECTED}")
    try:
        found = Requirement(text) if len(text) <= MAX_LENGTH else None
    except InvalidRequirement:
        found = None
    if found is None:
        raise _refusal(f"{shown} is no package that can be required.", EXPECTED)
    if found.url is not None:
        raise _refusal(
            f"{shown} names an address.",
            "Packages come from the index that an administrator chose. Name the package alone, or put its modules "
            "beside the code: they are sent along.",
        )
    found.name = canonicalize_name(found.name)
    return str(found)


def _refusal(message: str, hint: str) -> Refusal:
    return Refusal(422, "invalid", message, field="requirements", hint=hint)
