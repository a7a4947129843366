"""Sums of quotas, and checks that they fit into what holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from springtide.scheduler import wording
from springtide.scheduler.gpu_types import total
from springtide.scheduler.model import Node, Project
from springtide.scheduler.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Level:
    """The sum of the quotas of one project's children, and the GPUs that they have to fit in.

    ``parent`` is None for the top projects, which have to fit in the pool.
    """

    parent: str | None
    total: int
    capacity: int


def total_gpus(nodes: Sequence[Node]) -> int:
    """Return the number of GPUs of these nodes."""
    return sum(node.gpus for node in nodes)


def quota_sum(projects: Mapping[str, Project], train_gpus: int) -> int:
    """Return the sum of the quotas of the top projects; an unlimited one counts as ``train_gpus``."""
    return sum(
        train_gpus if (quota := total(project.quota)) is None else quota
        for project in projects.values()
        if project.parent is None
    )


def _levels(projects: Mapping[str, Project], train_gpus: int) -> dict[str | None, Level]:
    totals: dict[str | None, Level] = {}
    for project in projects.values():
        above = projects.get(project.parent) if project.parent is not None else None
        ceiling = None if above is None else total(above.quota)
        capacity = train_gpus if ceiling is None else ceiling
        level = totals.get(project.parent, Level(project.parent, 0, capacity))
        quota = capacity if (own := total(project.quota)) is None else own
        totals[project.parent] = Level(project.parent, level.total + quota, capacity)
    return totals


def check_quotas(
    before: Mapping[str, Project], after: Mapping[str, Project], train_gpus: int, changed: str
) -> None:
    """Raise `Refusal` if quotas would exceed what holds them, unless no sum gets worse.

    ``changed`` is the project whose change is checked.
    """
    earlier = _levels(before, train_gpus)
    for parent, level in _levels(after, train_gpus).items():
        was = earlier.get(parent)
        better = was is not None and level.total <= was.total and level.capacity >= was.capacity
        if level.total <= level.capacity or better:
            continue
        over = level.total - level.capacity
        if parent is None:
            message = (
                f"The quotas of the top projects would add up to {wording.gpus(level.total)}; the pool has "
                f"{wording.count(level.capacity, 'train GPU')}."
            )
        else:
            message = (
                f"The quotas of the projects in {parent!r} would add up to {wording.gpus(level.total)}; "
                f"the quota of {parent!r} is {level.capacity}."
            )
        hint = f"Lower the quota of {changed!r} or of another project by {over} first."
        raise Refusal(409, "sums", message, field="quota", hint=hint)


def build_quota(projects_of: Sequence[str], own: int | None, projects: Mapping[str, Project]) -> int:
    """Return a person's build quota: her own if she has one, or else the largest of her projects."""
    if own is not None:
        return own
    return max((total(projects[name].build_quota) or 0 for name in projects_of if name in projects), default=0)


def projects_by_person(members: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the projects of each person, from the members of each project."""
    found: dict[str, list[str]] = {}
    for project, names in members.items():
        for name in names:
            found.setdefault(name, []).append(project)
    return {name: sorted(set(found[name])) for name in sorted(found)}


def build_sum(
    members: Mapping[str, Sequence[str]], own: Mapping[str, int], projects: Mapping[str, Project]
) -> int:
    """Return the sum of the build quotas of all members; ``own`` are personal build quotas."""
    return sum(build_quota(of, own.get(name), projects) for name, of in projects_by_person(members).items())


def check_build(before: int, after: int, build_gpus: int, field: str) -> None:
    """Raise `Refusal` if the sum of all build quotas would exceed the build GPUs, unless it does not grow.

    ``field`` is the one that the refusal names.
    """
    if after <= build_gpus or after <= before:
        return
    there = f"there {wording.plural(build_gpus, 'is', 'are')} {wording.count(build_gpus, 'build GPU')}"
    raise Refusal(
        409,
        "sums",
        f"The build quotas of all members would add up to {wording.gpus(after)}; {there}.",
        field=field,
        hint=f"Lower a person's build quota by {after - build_gpus} first.",
    )
