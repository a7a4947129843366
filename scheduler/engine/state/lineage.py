"""A project and those that it is in, and what projects spend with those inside them; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from springtide.scheduler.budgets import Spent

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


def with_those_inside(spent: Mapping[str, Spent], wanted: Collection[str], parents: Parents) -> dict[str, Spent]:
    """Return what the ``wanted`` projects have spent with those inside them; ``parents`` are those of projects."""
    found = dict.fromkeys(wanted, Spent())
    for project, own in spent.items():
        for above in found.keys() & lineage(project, parents):
            found[above] = found[above].plus(own)
    return found
