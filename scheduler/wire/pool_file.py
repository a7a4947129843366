"""The pool as a file: projects, quotas, members and rules, and what applying a file changes."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from springtide.scheduler.wire.people import ProjectValues
from springtide.scheduler.wire.presets import MAX_PRESETS, PresetName, PresetPart
from springtide.scheduler.wire.shapes import Answer, ProjectName, Quantity, Request
from springtide.scheduler.wire.workspaces import IdleRule

MOST_PROJECTS = 10_000
MOST_PEOPLE = 100_000
PersonName = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f/]+(?!\n)$")]
"""The name of a user of the hub."""


PresetParts = Annotated[dict[PresetName, PresetPart], Meta(max_length=MAX_PRESETS)]
"""Presets by name."""


class ProjectPart(ProjectValues, frozen=True, kw_only=True, omit_defaults=True):
    """A project in a file: fields left out stay as they are, those of a new project get its defaults.

    A table by GPU type is the whole value: a type left out has quota 0, no limit and build quota 0. ``ranges`` are
    whole too. ``idle`` is the project's rule for idle workspaces, None for none of its own. ``members`` are all
    members, ``presets`` all presets of the project itself.
    """

    idle: IdleRule | UnsetType | None = UNSET
    members: Annotated[list[PersonName], Meta(max_length=10_000)] | UnsetType = UNSET
    presets: PresetParts | UnsetType = UNSET


class PersonPart(Request, frozen=True, kw_only=True, omit_defaults=True):
    """What a person has of her own in a file; None is nothing of her own, a field left out stays as it is."""

    build_quota: Quantity | UnsetType | None = UNSET
    idle: IdleRule | UnsetType | None = UNSET


class PoolFile(Request, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a file. ``idle`` is the rule of the whole pool, None for that of the settings.

    ``presets`` are all of the pool itself.
    """

    projects: Annotated[dict[ProjectName, ProjectPart], Meta(max_length=MOST_PROJECTS)] = {}
    people: Annotated[dict[PersonName, PersonPart], Meta(max_length=MOST_PEOPLE)] = {}
    idle: IdleRule | UnsetType | None = UNSET
    presets: PresetParts | UnsetType = UNSET


class PoolFileView(Answer, frozen=True, kw_only=True):
    """The pool as a file. ``version`` changes with it; ``locked`` says what a file cannot change."""

    file: PoolFile
    version: str
    locked: list[str]


class PoolFileEdit(Request, frozen=True, kw_only=True):
    """A file to apply. ``name`` is for the audit trail.

    ``file`` has the content of `PoolFile`. ``version`` is the pool's for which the difference was shown; another
    one is refused. ``dry_run`` changes nothing. With ``prune`` what the file leaves out is deleted: projects, and
    what people have of their own. A ``partial`` file leaves out projects on purpose: no answer names them.
    """

    file: dict[str, Any]
    name: Annotated[str, Meta(max_length=255)] = ""
    version: Annotated[str, Meta(max_length=64)] | UnsetType = UNSET
    dry_run: bool = False
    prune: bool = False
    partial: bool = False


class RulesCopy(Request, frozen=True, kw_only=True):
    """A project whose rules another one gets: limit, weight, priority, ranges, idle rule and presets.

    ``version`` and ``dry_run`` are as in `PoolFileEdit`.
    """

    source: ProjectName
    version: Annotated[str, Meta(max_length=64)] | UnsetType = UNSET
    dry_run: bool = False


class PoolFileChange(Answer, frozen=True, kw_only=True):
    """One change in words, and its values; ``kind`` is ``project``, ``person`` or ``pool``, ``name`` which one.

    ``field`` is empty for a project that is made or deleted.
    """

    text: str
    kind: str
    name: str = ""
    field: str = ""
    before: Any = None
    after: Any = None


class PoolFileProblem(Answer, frozen=True, kw_only=True):
    """A reason to refuse a file: its place, the mistake, and a hint."""

    field: str
    message: str
    hint: str = ""


class PoolFileDifference(Answer, frozen=True, kw_only=True):
    """What a file changes, or would. A file with ``problems`` is refused as a whole.

    ``kept`` are sentences about what stays although the file has it otherwise or leaves it out. ``version``
    is that of the pool before the changes.
    """

    changes: list[PoolFileChange]
    kept: list[str]
    problems: list[PoolFileProblem]
    version: str
    applied: bool
