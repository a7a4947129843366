"""Presets of jobs: defined and deleted by administrators and leads, and chosen by the names that jobs give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine.requests import ranges
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import Refusal, invalid_field, unknown_project
from springtide.scheduler.store.tables import PresetKey, PresetRecord, ProjectRecord
from springtide.scheduler.wire.presets import MAX_PRESETS, checked_preset
from springtide.scheduler.wording import given, is_printable, listed

Presets = Mapping[PresetKey, PresetRecord]
POOL = ""
"""The project of the presets of the pool."""
"""The names under which the audit trail and files have the content of a preset."""


def places(project: str, projects: Mapping[str, ProjectRecord]) -> list[str]:
    """Return where presets of a project's jobs are: the project, those above it, the pool, nearest first."""
    return [*(name for name, _ in ranges.lineage(project, projects)), POOL]


def within_reach(presets: Presets, project: str, projects: Mapping[str, ProjectRecord]) -> dict[str, PresetRecord]:
    """Return the presets that jobs of a project can name: of equal names the nearest."""
    found: dict[str, PresetRecord] = {}
    for place in reversed(places(project, projects)):
        found |= {preset.name: preset for preset in presets.values() if preset.project == place}
    return dict(sorted(found.items()))


def preset_named(presets: Presets, name: str, project: str, projects: Mapping[str, ProjectRecord]) -> PresetRecord:
    """Return the preset that a job of a project names. Raises `Refusal` if there is none, with those there are."""
    known = within_reach(presets, project, projects)
    if name in known:
        return known[name]
    close = get_close_matches(name, known, 1)
    hint = f"Did you mean {given(close[0])}?" if close else f"Presets: {listed(list(known)) or 'none yet'}."
    message = f"Jobs of project {given(project)} have no preset {given(name)}."
    raise Refusal(422, "unknown_preset", message, field="preset", hint=hint)


def set_preset(transaction: Transaction, project: str, name: str, part: wire.PresetPart, by: str) -> None:
    """Define a preset of a project, or of the pool, or replace it as a whole; sent jobs stay as they are.

    Raises `Refusal` for an unknown project, a wrong option, and one preset too many.
    """
    _check_project(transaction, project)
    options = checked_options(part)
    about = part.about.strip()
    if not is_printable(about):
        raise invalid_field(
            "about", "The sentence about the preset has control characters.", "Write it on one line."
        )
    before = transaction.presets.get((project, name))
    if before is None and sum(each.project == project for each in transaction.presets.values()) >= MAX_PRESETS:
        message = f"{_owner(project)} has {MAX_PRESETS} presets already, the most that it can have."
        raise Refusal(409, "too_many", message, hint="Delete one first.")
    after = PresetRecord(project, name, about, options, by, transaction.now)
    if before is not None and shown(before) == shown(after):
        return
    transaction.presets.put(after)
    transaction.add_audit_entry(by, "preset.set", name, shown(before), shown(after), project=project)


def checked_options(part: wire.PresetPart) -> dict[str, Any]:
    """Return the options of a preset as records have them. Raises `Refusal` for one that it cannot have."""
    try:
        return checked_preset(part.options)
    except wire.BadOption as error:
        raise wrong_option(error) from None


def wrong_option(error: wire.BadOption) -> Refusal:
    """Return the refusal of an option of a preset."""
    return invalid_field(f"options.{error.name}", error.message, error.hint)


def remove_preset(transaction: Transaction, project: str, name: str, by: str) -> None:
    """Delete a preset; sent jobs stay as they are. Raises `Refusal` 404 for an unknown one."""
    _check_project(transaction, project)
    before = transaction.presets.get((project, name))
    if before is None:
        raise Refusal(404, "not_found", f"{_owner(project)} has no preset {given(name)}.")
    transaction.presets.remove((project, name))
    transaction.add_audit_entry(by, "preset.delete", name, shown(before), {}, project=project)


def restore_preset(transaction: Transaction, project: str, name: str, content: Mapping[str, Any], by: str) -> None:
    """Give a preset the ``content`` that the audit trail has of it; without content there is none.

    Raises `Refusal` as `set_preset` does.
    """
    if content:
        set_preset(transaction, project, name, part_of(content), by)
    else:
        remove_preset(transaction, project, name, by)


def part_of(content: Mapping[str, Any]) -> wire.PresetPart:
    """Return the content of a preset as the audit trail and files have it."""
    return wire.PresetPart(options=dict(content["options"]), about=str(content["about"]))


def shown(record: PresetRecord | None) -> dict[str, Any]:
    """Return the content of a preset as the audit trail and files have it; nothing for none."""
    return {} if record is None else {"about": record.about, "options": dict(record.options)}


def of_project(presets: Presets, project: str) -> dict[str, PresetRecord]:
    """Return the presets of a project itself, or of the pool, by name."""
    return dict(sorted((each.name, each) for each in presets.values() if each.project == project))


def remove_all(transaction: Transaction, project: str) -> None:
    """Remove the presets of a project that is deleted."""
    for name in of_project(transaction.presets, project):
        transaction.presets.remove((project, name))


def restore(transaction: Transaction, project: str, contents: Mapping[str, Mapping[str, Any]], by: str) -> None:
    """Give a project whose deletion is taken back its presets again."""
    for name, content in contents.items():
        part = part_of(content)
        transaction.presets.put(PresetRecord(project, name, part.about, part.options, by, transaction.now))


def users_of(
    presets: Presets, own: Iterable[str], projects: Mapping[str, ProjectRecord]
) -> dict[PresetKey, list[str]]:
    """Return for each preset those of the projects whose jobs get it by its name."""
    found: dict[PresetKey, list[str]] = {}
    for project in own:
        for preset in within_reach(presets, project, projects).values():
            found.setdefault((preset.project, preset.name), []).append(project)
    return found


def _owner(project: str) -> str:
    return f"The project {given(project)}" if project else "The pool"


def _check_project(transaction: Transaction, project: str) -> None:
    if project and project not in transaction.projects:
        raise unknown_project(project, "project")
