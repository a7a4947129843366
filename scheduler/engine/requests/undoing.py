"""Undo of changes by their entries of the audit trail: which can be taken back, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from springtide.scheduler import wire
from springtide.scheduler.engine import idle
from springtide.scheduler.engine.requests import (
    bookings,
    budgets,
    control,
    drains,
    editing,
    freezes,
    presets,
    project_admin,
    quotas,
)
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.endings import ENDS, ends_again
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.refusal import CHANGED, Refusal, unknown_project
from springtide.scheduler.store.records import UNDO, AuditRecord, Hold, JobRecord
from springtide.scheduler.wording import given, utc

MEMBERSHIP: Final = frozenset({"member.add", "member.remove"})
"""Kinds of audit entries of members who joined and left projects in the hub."""
IN_GROUPS: Final = MEMBERSHIP | {"lead.add", "lead.remove"}
"""Kinds of audit entries of changes of the hub's groups, which the API records and undoes."""


class Around(NamedTuple):
    """What earlier values are checked against: members by project, spending of projects, and settings."""

    members: project_admin.Members
    spending: budgets.Spending
    settings: EngineSettings


Hindrance: TypeAlias = Callable[[Transaction, AuditRecord], Refusal | None]
Back: TypeAlias = Callable[[Transaction, AuditRecord, str, Around], None]


class Undoing(NamedTuple):
    """How changes of a kind are taken back.

    ``hindrance`` returns why one cannot be taken back any more, None if it can. ``back`` takes it back for a
    person; its last entry of the audit trail is that of the undo. It raises `Refusal` if the earlier values do not
    fit any more.
    """

    hindrance: Hindrance
    back: Back


def hindrance(transaction: Transaction, entry: AuditRecord) -> Refusal | None:
    """Return why the change of an entry cannot be taken back, None if it can."""
    if entry.undone:
        return Refusal(409, "undone", "This change was taken back already.")
    if entry.what in IN_GROUPS:
        return None
    kind = KINDS.get(entry.what)
    if kind is None:
        return _not_here(entry)
    return kind.hindrance(transaction, entry)


def undo(transaction: Transaction, entry: AuditRecord, by: str, around: Around) -> AuditRecord:
    """Undo a change and return the new entry of the audit trail.

    Raises `Refusal` if the change cannot be undone, or if its subject was changed since.
    """
    if entry.what in IN_GROUPS:
        raise _not_here(entry)
    if (refusal := hindrance(transaction, entry)) is not None:
        raise refusal
    entries = len(transaction.audit)
    KINDS[entry.what].back(transaction, entry, by, around)
    if len(transaction.audit) == entries:
        raise _changed_since(entry.subject)
    transaction.undone_entries.append(entry.id)
    transaction.audit[-1] = replace(transaction.audit[-1], what=f"{UNDO}{entry.what}")
    return transaction.audit[-1]


def _not_here(entry: AuditRecord) -> Refusal:
    return Refusal(409, "not_undoable", f"A change of the kind {entry.what} cannot be taken back here.")


def _changed_since(subject: str) -> Refusal:
    return Refusal(
        409,
        CHANGED,
        f"{given(subject)} was changed since, so this change cannot be taken back.",
        hint="Change it by hand.",
    )


def _of_values(
    recorded: Callable[[Transaction, AuditRecord], Mapping[str, Any] | None],
    restore: Callable[[Transaction, AuditRecord, str, Around], None],
) -> Undoing:
    """Return how to give something the values before a change, while it has those after it.

    ``recorded`` returns its values as the audit trail has them, nothing if it is not there.
    """

    def overtaken(transaction: Transaction, entry: AuditRecord) -> Refusal | None:
        if entry.project and entry.project not in transaction.projects:
            return unknown_project(entry.project)
        if recorded(transaction, entry) != entry.after:
            return _changed_since(entry.subject)
        return _over(entry, transaction.now)

    return Undoing(overtaken, restore)


def _over(entry: AuditRecord, now: float) -> Refusal | None:
    """Return that the values before a change would have ended by themselves, None if they would not."""
    until = entry.before.get("until")
    if until is None or until > now:
        return None
    message = f"The earlier values would have ended at {utc(until)}: nothing of it is left to bring back."
    return Refusal(409, "over", message)


# ---------- projects and people


def _overtaken(transaction: Transaction, entry: AuditRecord) -> Refusal | None:
    record = transaction.projects.get(entry.subject)
    if record is None:
        return unknown_project(entry.subject)
    now = project_admin.editable_fields(record)
    differs = any(now[field] != value for field, value in entry.after.items() if field in now)
    return _changed_since(entry.subject) if differs else _over(entry, transaction.now)


def _back_from_change(transaction: Transaction, entry: AuditRecord, by: str, around: Around) -> None:
    project_admin.restore_fields(transaction, entry.subject, entry.before, by, around.members)


def _back_from_create(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    project_admin.delete_project(transaction, entry.subject, by)


def _made_again(transaction: Transaction, entry: AuditRecord) -> Refusal | None:
    return _changed_since(entry.subject) if entry.subject in transaction.projects else None


def _back_from_delete(transaction: Transaction, entry: AuditRecord, by: str, around: Around) -> None:
    before, name = dict(entry.before), entry.subject
    age = before.pop("age")
    lost = {part: before.pop(part, {}) for part in project_admin.PARTS}
    ends = ends_again(before, name, by)
    before.pop(ENDS, None)
    edit = msgspec.convert(before, wire.ProjectEdit)
    gone = name not in around.members
    created = project_admin.create_project(transaction, name, edit, by, around.members, made_group=gone)
    transaction.projects.put(replace(created, project=replace(created.project, age=age), colour=age))
    project_admin.restore_parts(transaction, name, lost, by, around.spending)
    for ending in ends:
        transaction.endings.put(ending)


def _person(transaction: Transaction, entry: AuditRecord) -> dict[str, Any]:
    return project_admin.recorded_of_person(transaction, entry.subject)


def _restore_person(transaction: Transaction, entry: AuditRecord, by: str, around: Around) -> None:
    before = entry.before
    quota = quotas.completed(before.get("build_quota"), "build_quota", transaction.types.build)
    until = before.get("until")
    project_admin.edit_person(transaction, entry.subject, quota, by, around.members, until=until)
    for ending in ends_again(before, entry.subject, by):
        transaction.endings.put(ending)


# ---------- records that exist or not: presets, freezes, budgets, rules and drains


def _preset(transaction: Transaction, entry: AuditRecord) -> dict[str, Any]:
    return presets.shown(transaction.presets.get((entry.project, entry.subject)))


def _restore_preset(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    presets.restore_preset(transaction, entry.project, entry.subject, entry.before, by)


def _freeze(transaction: Transaction, entry: AuditRecord) -> dict[str, Any]:
    return freezes.recorded(transaction, entry.subject)


def _restore_freeze(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    freezes.restore(transaction, entry.subject, entry.before, by)


def _budget(transaction: Transaction, entry: AuditRecord) -> dict[str, Any]:
    return budgets.recorded(transaction, entry.subject)


def _restore_budget(transaction: Transaction, entry: AuditRecord, by: str, around: Around) -> None:
    budgets.restore(transaction, entry.subject, entry.before, by, around.spending)


def _rule(transaction: Transaction, entry: AuditRecord) -> dict[str, Any]:
    return idle.recorded(transaction, idle.key_of(entry.subject))


def _restore_rule(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    idle.restore(transaction, idle.key_of(entry.subject), entry.before, by)


def _drain(transaction: Transaction, entry: AuditRecord) -> dict[str, Any]:
    return drains.recorded(transaction, entry.subject)


def _restore_drain(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    drains.restore(transaction, entry.subject, entry.before, by)


def _gpu_drain(transaction: Transaction, entry: AuditRecord) -> dict[str, Any] | None:
    return drains.recorded_of_gpu(transaction, entry.subject)


def _restore_gpu_drain(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    drains.restore_gpu(transaction, entry.subject, entry.before, by)


def _of_nodes(kind: Undoing) -> Undoing:
    """Return how drains of nodes are taken back: those for a booking end with it."""

    def booked(transaction: Transaction, entry: AuditRecord) -> Refusal | None:
        number = (entry.after or entry.before).get("booking")
        if number is None:
            return kind.hindrance(transaction, entry)
        message = f"Booking {number} drains {given(entry.subject)} while it holds."
        return Refusal(409, "booked", message, hint="Change or cancel the booking.")

    return Undoing(booked, kind.back)


# ---------- bookings


def _back_from_booking(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    bookings.undo(transaction, entry, by)


# ---------- jobs


def _job(transaction: Transaction, entry: AuditRecord) -> JobRecord:
    """Return the job of an entry. Raises `Refusal` if it has ended."""
    job = transaction.job(entry.subject)
    if job is None or job.state.final:
        raise Refusal(409, "ended", f"The job {given(entry.subject)} has ended, so this cannot be taken back.")
    return job


def _of_job(overtaken: Callable[[JobRecord, AuditRecord], bool], back: Back) -> Undoing:
    def hindered(transaction: Transaction, entry: AuditRecord) -> Refusal | None:
        try:
            return _changed_since(entry.subject) if overtaken(_job(transaction, entry), entry) else None
        except Refusal as refusal:
            return refusal

    return Undoing(hindered, back)


def _held_otherwise(job: JobRecord, entry: AuditRecord) -> bool:
    hold = job.standing.hold
    return hold is None or bool(hold.project) or (hold.by, hold.reason) != (entry.who, entry.after["reason"])


def _back_from_hold(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    control.release_job(transaction, _job(transaction, entry), by)


def _held_again(job: JobRecord, entry: AuditRecord) -> bool:
    hold = job.standing.hold
    return "user" in entry.after or (hold is not None and not hold.project)


def _back_from_release(transaction: Transaction, entry: AuditRecord, by: str, _around: Around) -> None:
    hold = Hold(by, entry.before["reason"], transaction.now)
    control.hold_job(transaction, _job(transaction, entry), hold)


def _edited_otherwise(job: JobRecord, entry: AuditRecord) -> bool:
    now = editing.shown(job.spec)
    return any(now[name] != value for name, value in entry.after.items() if name in now)


def _back_from_edit(transaction: Transaction, entry: AuditRecord, by: str, around: Around) -> None:
    job = _job(transaction, entry)
    before = {name: value for name, value in entry.before.items() if name in editing.shown(job.spec)}
    edit = msgspec.convert(before, wire.JobEdit)
    editing.edit_job(transaction, job, edit, by, around.settings, beyond_ranges=True)


_presets = _of_values(_preset, _restore_preset)
_freezes = _of_values(_freeze, _restore_freeze)
_drains = _of_nodes(_of_values(_drain, _restore_drain))
_gpu_drains = _of_values(_gpu_drain, _restore_gpu_drain)
_bookings = Undoing(bookings.hindrance, _back_from_booking)
KINDS: Final[Mapping[str, Undoing]] = {
    "project.create": Undoing(_overtaken, _back_from_create),
    "project.change": Undoing(_overtaken, _back_from_change),
    "project.delete": Undoing(_made_again, _back_from_delete),
    "person.change": _of_values(_person, _restore_person),
    "preset.set": _presets,
    "preset.delete": _presets,
    "booking.make": _bookings,
    "booking.change": _bookings,
    "booking.cancel": _bookings,
    "project.freeze": _freezes,
    "project.unfreeze": _freezes,
    "project.budget": _of_values(_budget, _restore_budget),
    "idle_rule.change": _of_values(_rule, _restore_rule),
    "node.drain": _drains,
    "node.undrain": _drains,
    "gpu.drain": _gpu_drains,
    "gpu.undrain": _gpu_drains,
    "job.hold": _of_job(_held_otherwise, _back_from_hold),
    "job.release": _of_job(_held_again, _back_from_release),
    "job.edit": _of_job(_edited_otherwise, _back_from_edit),
}
"""How changes are taken back, by the kind of their entries."""
