"""Names and steps as trackers such as MLflow and TensorBoard take them; pure."""

from __future__ import annotations

import posixpath
import re
from typing import Final

MAX_NAME: Final = 50
"""Maximum number of characters of a project's or a job's name in a path."""
LAST_STEP: Final = (1 << 63) - 1
_OUTSIDE = re.compile(r"[^\w.\- /]")


def folder_name(text: str) -> str:
    """Return the name of a project or a job as the name of a folder."""
    return re.sub(r"[^\w-]+", "_", text)[:MAX_NAME]


def metric_name(name: str) -> str:
    """Return the name of a value as trackers take it: letters, digits and ``_-. /``, and no path outside."""
    cleaned = _OUTSIDE.sub("_", name)
    if posixpath.normpath(cleaned) == cleaned and not cleaned.startswith((".", "/")):
        return cleaned
    return cleaned.replace("/", "_").replace(".", "_")


def whole_step(step: float | None) -> int:
    """Return the step as a signed integer of 64 bits; 0 for a report without one."""
    return 0 if step is None else max(-LAST_STEP, min(LAST_STEP, int(step)))
