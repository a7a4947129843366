"""Datasets and secrets of projects and people: what a job may name, and what it gets; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from springtide.scheduler import wording
from springtide.scheduler.declared import Declared
from springtide.scheduler.engine.state.lineage import Parents, lineage
from springtide.scheduler.refusal import Refusal

D = TypeVar("D", bound=Declared)

MAX_SHOWN = 20
"""Maximum number of names that a refusal shows."""


def checked_names(
    asked: Sequence[str], project_and_above: Sequence[str], declared: Mapping[str, D], kind: str
) -> tuple[str, ...]:
    """Return the names that a job gives of a ``kind`` (``dataset`` or ``secret``), each once, in its order.

    ``project_and_above`` is its project and those that this is in. Raises `Refusal` for one that does not exist or
    that the project may not use; it names those that it may.
    """
    names = tuple(dict.fromkeys(name.strip() for name in asked))
    for name in names:
        found, shown = declared.get(name), wording.given(name)
        if found is None:
            why = f"There is no {kind} {shown}."
            raise _refused(why, project_and_above, declared, kind, f"An admin of the pool declares {kind}s.")
        if not found.is_for(project_and_above):
            why = f"Project {wording.given(project_and_above[0])} may not use the {kind} {shown}."
            raise _refused(why, project_and_above, declared, kind, "An admin of the pool can change that.")
    return names


def granted(
    names: Sequence[str],
    project_and_above: Sequence[str],
    declared: Mapping[str, D],
    withdrawn: Callable[[str], D],
) -> tuple[D, ...]:
    """Return the grants that an accepted job named; one withdrawn since then is the result of ``withdrawn``."""
    found = {name: declared.get(name) for name in names}
    return tuple(
        each if each is not None and each.is_for(project_and_above) else withdrawn(name)
        for name, each in found.items()
    )


def usable_by(
    projects: Iterable[str], parents: Parents, declared: Mapping[str, D]
) -> dict[str, tuple[D, list[str]]]:
    """Return what a person in these projects may use, by name, with the projects that may."""
    above = {project: lineage(project, parents) for project in projects}
    usable = {
        name: (each, sorted(project for project in above if each.is_for(above[project])))
        for name, each in sorted(declared.items())
    }
    return {name: (each, may) for name, (each, may) in usable.items() if may or each.projects is None}


def _refused(
    message: str, project_and_above: Sequence[str], declared: Mapping[str, D], kind: str, way_out: str
) -> Refusal:
    usable = sorted(name for name, each in declared.items() if each.is_for(project_and_above))
    more = f" and {len(usable) - MAX_SHOWN} more" if len(usable) > MAX_SHOWN else ""
    here = f"{', '.join(usable[:MAX_SHOWN])}{more}" if usable else "none"
    hint = f"{kind.capitalize()}s of project {wording.given(project_and_above[0])}: {here}. {way_out}"
    return Refusal(422, kind, message, field=f"{kind}s", hint=hint)
