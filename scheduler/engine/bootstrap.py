"""Creation of the configured projects in a new pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine.requests import project_admin
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.wording import given

BY = "configuration"
"""Author of the projects in the audit trail."""


class ConfigurationError(Exception):
    """The configured projects are invalid; the message names project, field and what was expected."""


def create_configured_projects(transaction: Transaction, projects: Mapping[str, Mapping[str, Any]]) -> None:
    """Create the configured projects, parents first. Raises `ConfigurationError`.

    ``projects`` maps names to fields of `wire.ProjectEdit`. The store is no longer fresh afterwards, even without
    projects.
    """
    transaction.next_project_age = transaction.state.next_project_age
    transaction.must_commit = True
    remaining = dict(projects)
    while remaining:
        ready = [name for name, fields in remaining.items() if fields.get("parent") not in remaining]
        if not ready:
            raise ConfigurationError(f"The projects {', '.join(sorted(remaining))} are in each other in a circle.")
        for name in ready:
            _create(transaction, name, remaining.pop(name))


def _create(transaction: Transaction, name: str, fields: Mapping[str, Any]) -> None:
    try:
        edit = msgspec.convert(dict(fields), wire.ProjectEdit)
        project_admin.create_project(transaction, name, edit, BY, {})
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"The configured project {given(name)}: {error}.") from error
    except Refusal as refusal:
        raise ConfigurationError(
            f"The configured project {given(name)}: {refusal.message} {refusal.hint}".strip()
        ) from None
