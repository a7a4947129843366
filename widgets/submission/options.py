"""The options of a job as a notebook gives them, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springtide.scheduler.capture import sources
from springtide.scheduler.wire import OPTIONS, BadOption, Submission
from springtide.scheduler.wording import size
from springtide.training.names import PAYLOAD
from springtide.widgets.errors import CaptureError, OptionError


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as requests carry them. Raises `OptionError` with the given and the expected value."""
    try:
        return {name: OPTIONS[name].check(value) for name, value in given.items()}
    except BadOption as error:
        raise OptionError(str(error)) from None


def check_size(request: Submission, length: int, most: int, variables: Mapping[str, int]) -> None:
    """Raise `CaptureError` with the sizes of the parts if the request is larger than ``most`` bytes.

    ``length`` is that of the request, which has 4 bytes for 3 of a file; the message has the sizes of files and of
    ``variables``, which are parts of the payload.
    """
    if length <= most:
        return
    sizes = {name: len(content) for name, content in request.files.items()}
    whole = sum(sizes.values())
    fits = max(0, whole - (length - most) * 3 // 4)
    if variables:
        sizes = {name: length for name, length in sizes.items() if name != PAYLOAD} | dict(variables)
    msg = (
        f"The job is too large to send: {size(whole)}, and the pool takes {size(fits)} of it. "
        f"Largest: {sources.listing(sizes)}. "
        "Leave large data in a file and pass its path; the job reads it where it lies."
    )
    raise CaptureError(msg)
