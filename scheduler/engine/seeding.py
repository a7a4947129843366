"""The projects that a new pool begins with, as its configuration names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine import admin
from springtide.scheduler.engine.world import Draft
from springtide.scheduler.refusal import Refusal

BY = "configuration"


class ConfigurationError(Exception):
    """The configured projects cannot be; the message names project, field and what was expected."""


def seed(draft: Draft, projects: Mapping[str, Mapping[str, Any]]) -> None:
    """Create the configured projects, parents first. Raises `ConfigurationError`."""
    draft.seed_age = draft.world.next_age
    draft.hard = True
    waiting = dict(projects)
    while waiting:
        ready = [name for name, fields in waiting.items() if fields.get("parent") not in waiting]
        if not ready:
            raise ConfigurationError(f"The projects {', '.join(sorted(waiting))} are in each other in a circle.")
        for name in ready:
            _create(draft, name, waiting.pop(name))


def _create(draft: Draft, name: str, fields: Mapping[str, Any]) -> None:
    try:
        edit = msgspec.convert(dict(fields), wire.ProjectEdit)
        admin.create_project(draft, name, edit, BY, {})
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"The configured project {name!r}: {error}.") from error
    except Refusal as refusal:
        raise ConfigurationError(
            f"The configured project {name!r}: {refusal.message} {refusal.hint}".strip()
        ) from None
