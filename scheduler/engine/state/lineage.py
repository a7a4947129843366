"""A project and those that it is in; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Parents: TypeAlias = Mapping[str, str | None]
"""The project that each project is in, None for those in no other."""


def lineage(project: str, parents: Parents) -> tuple[str, ...]:
    """Return a project and those that it is in, nearest first."""
    found: dict[str, None] = {}
    current: str | None = project
    while current is not None and current not in found:
        found[current] = None
        current = parents.get(current)
    return tuple(found)
