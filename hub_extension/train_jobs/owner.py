"""Owners of train jobs, named by their namespace, which only administrators of the cluster change. Pure.

A train job itself names its person where an admission policy of the cluster compares the name with who asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from springtide.scheduler import wording
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wire.shapes import Name, ProjectName

PROJECT: Final = "springtide.io/project"
USER: Final = "springtide.io/user"
POOL: Final = "springtide.io/pool"
EFFECT_S: Final = 60.0
"""Time after which all API servers apply a new admission policy, in seconds."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The project and the user of a namespace's train jobs."""

    namespace: str
    project: str
    user: str


def owner_of(namespace: Mapping[str, Any]) -> Owner:
    """Return the owner of a namespace's train jobs.

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
            f"The namespace {wording.given(name)} belongs to no project, so there is no quota for its train jobs.",
            hint=f"An administrator can change that: kubectl label namespace {name} {PROJECT}=<project>.",
        )
    user = _said(namespace, name, USER)
    return Owner(
        name,
        _checked(project, ProjectName, name, PROJECT),
        _checked(f"kubernetes:{project}" if user is None else user, Name, name, USER),
    )


def person_of(manifest: Mapping[str, Any]) -> str | None:
    """Return the user whom a train job names as its own; empty or None if it names no user."""
    named = (manifest["metadata"].get("annotations") or {}).get(USER)
    return None if named is None else str(named)


def with_person(owner: Owner, manifest: Mapping[str, Any], policy: Sequence[Mapping[str, Any] | None]) -> Owner:
    """Return the owner of a train job that names its person.

    ``policy`` are the admission policy that compares the name with who asks, and its binding; None for one that
    the cluster does not have. Raises `Refusal` (403) for a train job that they did not see.
    """
    person, created = person_of(manifest) or "", _created(manifest)
    if any(part is None or created < _created(part) + EFFECT_S for part in policy):
        raise Refusal(
            403,
            "unvouched",
            f"The train job names the user {wording.given(person)}, and the cluster did not check the name: its "
            "admission policy for that is missing, or younger than the train job.",
            field=f"metadata.annotations[{USER}]",
            hint="Create the train job again. If that does not help, ask an administrator of the cluster.",
        )
    return replace(owner, user=_checked_person(person))


def _created(found: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(found["metadata"]["creationTimestamp"]).timestamp()


def _checked_person(person: str) -> str:
    try:
        return str(msgspec.convert(person, Name))
    except msgspec.ValidationError:
        field = f"metadata.annotations[{USER}]"
        message = f"The user is {wording.given(person)}, which cannot be a name."
        raise Refusal(422, "invalid", message, field=field) from None


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
