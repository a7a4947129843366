"""Reasons without the names of jobs that a reader may not see; pure.

Who holds GPUs is known to all by person and project, as on the page *Pool*; the names of jobs are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from springtide.scheduler.model import Reason


def projects_named(params: Mapping[str, Any]) -> frozenset[str]:
    """Return the projects of the jobs that the parameters of a reason name."""
    found = set(params.get("projects") or ()) if any(params.get("names") or ()) else set()
    if params.get("for_name"):
        found.add(str(params.get("for_project") or ""))
    return frozenset(found)


def without_names(why: Reason, sees: Callable[[str], bool]) -> Reason:
    """Return a reason without the names and ids of jobs of projects that the reader does not see."""
    hidden: dict[str, Any] = {}
    if why.params.get("for_name") and not sees(str(why.params.get("for_project") or "")):
        hidden = {"for_job": "", "for_name": ""}
    others: Collection[str] = why.params.get("projects") or ()  # type: ignore[assignment]
    names: Collection[str] = why.params.get("names") or ()  # type: ignore[assignment]
    if any(names) and not all(map(sees, others)):
        hidden |= {"jobs": (), "names": ("",) * len(names)}
    return Reason(why.code, {**why.params, **hidden}) if hidden else why
