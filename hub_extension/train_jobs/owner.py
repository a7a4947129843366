"""Owners of TrainJobs, named by their namespace, which only administrators of the cluster change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from springtide.scheduler import wording
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire.shapes import Name, ProjectName

PROJECT: Final = "springtide.io/project"
USER: Final = "springtide.io/user"
POOL: Final = "springtide.io/pool"


@dataclass(frozen=True, slots=True)
class Owner:
    """The project and the user of a namespace's TrainJobs."""

    namespace: str
    project: str
    user: str


def owner_of(namespace: Mapping[str, Any]) -> Owner:
    """Return the owner of a namespace's TrainJobs.

    The project is the namespace's label ``springtide.io/project``, or its annotation of that name (labels cannot
    hold every project's name); the user likewise ``springtide.io/user``, else ``kubernetes:<project>``. Raises
    `Refusal` (403) for a namespace that has no project, or two.
    """
    name = str(namespace["metadata"]["name"])
    project = _said(namespace, name, PROJECT)
    if project is None:
        raise Refusal(
            403,
            "no_project",
            f"The namespace {wording.given(name)} belongs to no project, so there is no quota for its TrainJobs.",
            hint=f"An administrator can change that: kubectl label namespace {name} {PROJECT}=<project>.",
        )
    user = _said(namespace, name, USER)
    return Owner(
        name,
        _checked(project, ProjectName, name, PROJECT),
        _checked(f"kubernetes:{project}" if user is None else user, Name, name, USER),
    )


def served(namespace: Mapping[str, Any], pool: str) -> bool:
    """Return whether a pool serves a namespace: every pool does, unless ``springtide.io/pool`` names one."""
    labels: Mapping[str, str] = namespace["metadata"].get("labels") or {}
    return labels.get(POOL, pool) == pool


def _said(namespace: Mapping[str, Any], name: str, key: str) -> str | None:
    """Return the value of annotation and label; None if neither is there, or both are empty."""
    metadata = namespace["metadata"]
    said = {str(value) for kind in ("annotations", "labels") if (value := (metadata.get(kind) or {}).get(key))}
    if len(said) > 1:
        raise Refusal(
            403,
            "two_owners",
            f"The namespace {wording.given(name)} says two things about {key}: "
            f"{' and '.join(map(wording.given, sorted(said)))}.",
            hint="An administrator of the cluster can take the label or the annotation away.",
        )
    return next(iter(said), None)


def _checked(value: str, kind: Any, name: str, key: str) -> str:
    try:
        return str(msgspec.convert(value, kind))
    except msgspec.ValidationError:
        raise Refusal(
            403,
            "no_project",
            f"{key} of the namespace {wording.given(name)} is {wording.given(value)}, which cannot be a name.",
        ) from None
