"""The options of a job as a notebook gives them, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from springtide.scheduler.capture import sources
from springtide.scheduler.wire import OPTIONS, BadOption, Submission
from springtide.scheduler.wording import size
from springtide.widgets.errors import CaptureError, OptionError


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as requests carry them. Raises `OptionError` with the given and the expected value."""
    try:
        return {name: OPTIONS[name].check(value) for name, value in given.items()}
    except BadOption as error:
        raise OptionError(str(error)) from None


def check_size(request: Submission, most: int, variables: Mapping[str, int]) -> None:
    """Raise `CaptureError` with the sizes of the parts if the request is larger than ``most`` bytes."""
    length = len(msgspec.json.encode(request))
    if length <= most:
        return
    sizes = {name: len(content) for name, content in request.files.items()} | dict(variables)
    msg = (
        f"The job is too large to send: {size(length)}, and the pool takes {size(most)}. "
        f"Largest: {sources.listing(sizes)}. "
        "Leave large data in a file and pass its path; the job reads it where it lies."
    )
    raise CaptureError(msg)
