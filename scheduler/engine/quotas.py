"""The sums of quotas: what adds up, and what does not, with the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from springtide.scheduler.model import Node, Project
from springtide.scheduler.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Level:
    """The children of one project (or the top projects): their quotas together, and what they have to fit in."""

    parent: str | None
    total: int
    room: int


def total_gpus(nodes: Sequence[Node]) -> int:
    """GPUs of these nodes."""
    return sum(node.gpus for node in nodes)


def quota_sum(projects: Mapping[str, Project], train_gpus: int) -> int:
    """The quotas of the top projects together; an unlimited one counts as the whole pool."""
    return sum(
        train_gpus if project.quota is None else project.quota
        for project in projects.values()
        if project.parent is None
    )


def _levels(projects: Mapping[str, Project], train_gpus: int) -> dict[str | None, Level]:
    totals: dict[str | None, Level] = {}
    for project in projects.values():
        above = projects.get(project.parent) if project.parent is not None else None
        room = train_gpus if above is None or above.quota is None else above.quota
        level = totals.get(project.parent, Level(project.parent, 0, room))
        quota = room if project.quota is None else project.quota
        totals[project.parent] = Level(project.parent, level.total + quota, room)
    return totals


def check_quotas(
    before: Mapping[str, Project], after: Mapping[str, Project], train_gpus: int, changed: str
) -> None:
    """Raises `Refusal` if the quotas would not add up, unless the change makes nothing worse."""
    earlier = _levels(before, train_gpus)
    for parent, level in _levels(after, train_gpus).items():
        was = earlier.get(parent)
        better = was is not None and level.total <= was.total and level.room >= was.room
        if level.total <= level.room or better:
            continue
        over = level.total - level.room
        if parent is None:
            message = (
                f"The quotas of the top projects would add up to {level.total} GPUs; the pool has {level.room} "
                "train GPUs."
            )
        else:
            message = (
                f"The quotas of the projects in {parent!r} would add up to {level.total} GPUs; the quota of "
                f"{parent!r} is {level.room}."
            )
        hint = f"Lower the quota of {changed!r} or of another project by {over} first."
        raise Refusal(409, "sums", message, field="quota", hint=hint)


def build_quota(projects_of: Sequence[str], own: int | None, projects: Mapping[str, Project]) -> int:
    """A person's build quota: her own, or the most that one of her projects gives."""
    if own is not None:
        return own
    return max((projects[name].build_quota for name in projects_of if name in projects), default=0)


def people_of(members: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The projects of every person."""
    found: dict[str, list[str]] = {}
    for project, names in members.items():
        for name in names:
            found.setdefault(name, []).append(project)
    return {name: sorted(set(found[name])) for name in sorted(found)}


def build_sum(
    members: Mapping[str, Sequence[str]], own: Mapping[str, int], projects: Mapping[str, Project]
) -> int:
    """The build quotas of all members together."""
    return sum(build_quota(of, own.get(name), projects) for name, of in people_of(members).items())


def check_build(before: int, after: int, build_gpus: int, field: str) -> None:
    """Raises `Refusal` if all build quotas together would exceed the build GPUs, unless they become fewer."""
    if after <= build_gpus or after <= before:
        return
    raise Refusal(
        409,
        "sums",
        f"The build quotas of all members would add up to {after} GPUs; there are {build_gpus} build GPUs.",
        field=field,
        hint=f"Lower somebody's build quota by {after - build_gpus} first.",
    )
