"""Datasets of projects and people: what a job may name, what it gets, and what workspaces see; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from springtide.scheduler import wording
from springtide.scheduler.datasets.dataset import Dataset
from springtide.scheduler.refusal import Refusal

MAX_SHOWN = 20
"""Maximum number of datasets that a refusal names."""

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


def checked_datasets(
    asked: Sequence[str], project_and_above: Sequence[str], declared: Mapping[str, Dataset]
) -> tuple[str, ...]:
    """Return the names of the datasets of a job, each once, in its order.

    ``project_and_above`` is its project and those that this is in. Raises `Refusal` for one that does not exist or
    that the project may not use; it names those that it may.
    """
    names = tuple(dict.fromkeys(name.strip() for name in asked))
    for name in names:
        found, shown = declared.get(name), wording.given(name)
        if found is None:
            why = f"There is no dataset {shown}."
            raise _refused(why, project_and_above, declared, "An admin of the pool declares them.")
        if not found.is_for(project_and_above):
            why = f"Project {wording.given(project_and_above[0])} may not use the dataset {shown}."
            raise _refused(why, project_and_above, declared, "An admin of the pool can change that.")
    return names


def granted(
    names: Sequence[str], project_and_above: Sequence[str], declared: Mapping[str, Dataset]
) -> tuple[Dataset, ...]:
    """Return the datasets of an accepted job; one that was withdrawn since then has no place."""
    found = {name: declared.get(name) for name in names}
    return tuple(
        each if each is not None and each.is_for(project_and_above) else Dataset(name)
        for name, each in found.items()
    )


def datasets_of(
    projects: Iterable[str], parents: Parents, declared: Mapping[str, Dataset]
) -> dict[str, tuple[Dataset, list[str]]]:
    """Return the datasets that a person in these projects may use, by name, with the projects that may."""
    above = {project: lineage(project, parents) for project in projects}
    usable = {
        name: (each, sorted(project for project in above if each.is_for(above[project])))
        for name, each in sorted(declared.items())
    }
    return {name: (each, may) for name, (each, may) in usable.items() if may or each.projects is None}


def _refused(
    message: str, project_and_above: Sequence[str], declared: Mapping[str, Dataset], way_out: str
) -> Refusal:
    usable = sorted(name for name, each in declared.items() if each.is_for(project_and_above))
    more = f" and {len(usable) - MAX_SHOWN} more" if len(usable) > MAX_SHOWN else ""
    here = f"{', '.join(usable[:MAX_SHOWN])}{more}" if usable else "none"
    hint = f"Datasets of project {wording.given(project_and_above[0])}: {here}. {way_out}"
    return Refusal(422, "dataset", message, field="datasets", hint=hint)
