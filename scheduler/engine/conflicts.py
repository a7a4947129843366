"""Refusals because of what others have changed meanwhile: they say who did that, when, and from what to what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.refusal import CHANGED, UNKNOWN_PROJECT, Refusal
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import ENDS, UNDO, AuditQuery, AuditRecord
from springtide.scheduler.store.tables import POOL
from springtide.scheduler.wire.audit_table import DATA, changes
from springtide.scheduler.wording import given, utc

MOST_READ = 200
"""Number of latest entries of the audit trail among which changes are looked for."""
MOST_NAMED = 3
"""Maximum number of changes that a refusal names, the latest ones."""
WHOLE: Final = frozenset({"create", "make", "set", "change", "cancel", "delete"})
"""Last words of the kinds of entries about a thing as a whole, whose first words name the thing."""
VERBS: Final = {
    "create": "created",
    "make": "made",
    "cancel": "cancelled",
    "delete": "deleted",
    "freeze": "froze",
    "unfreeze": "unfroze",
    "drain": "drained",
    "undrain": "undrained",
}
"""The verb of a change, by the last word of the kind of an entry; others were changed."""


async def with_later_changes(refusal: Refusal, store: StoreThreads, entry: AuditRecord) -> Refusal:
    """Return the refusal to take back a change, with the later changes of the same thing."""
    if refusal.code != CHANGED:
        return refusal
    return _with(refusal, [each for each in await _changes_like(store, entry) if each.id > entry.id])


async def with_changes_of_project(
    refusal: Refusal, store: StoreThreads, project: str, versions: int = 0
) -> Refusal:
    """Return the refusal to change a project, with the latest changes of it, by which it got as many ``versions``.

    For a project that is gone it says who has deleted it.
    """
    like = AuditRecord(0, 0.0, "", "project.change", project, {}, {}, project=project)
    if refusal.code == CHANGED:
        found = [each for each in await _changes_like(store, like) if _changes_fields(each)]
        return _with(refusal, found[-versions:] if versions > 0 else found[-1:])
    if refusal.code == UNKNOWN_PROJECT and refusal.field is None:
        latest = (await _changes_like(store, like))[-1:]
        return _with(refusal, [each for each in latest if each.effect == "project.delete"])
    return refusal


async def _changes_like(store: StoreThreads, entry: AuditRecord) -> list[AuditRecord]:
    """Return the latest changes of what an entry is about, the oldest first."""
    chosen = AuditQuery(what=_thing(entry).partition(".")[0], project=entry.project or None)
    found = await store.read(reading.audit, chosen, None, MOST_READ)
    return [each for each in reversed(found) if (_thing(each), _which(each)) == (_thing(entry), _which(entry))]


def _thing(entry: AuditRecord) -> str:
    """Return the kind of thing that an entry is about: ``project``, ``project.freeze``, ``node.drain``."""
    kind = entry.what.removeprefix(UNDO)
    thing, _, did = kind.partition(".")
    return thing if did in WHOLE else next((begin for begin, end in ENDS.items() if end == kind), kind)


def _which(entry: AuditRecord) -> str | int:
    """Return which thing of its kind an entry is about: a booking by its number, others by their name."""
    number = entry.after.get("number", entry.before.get("number"))
    if number is None and entry.what == "booking.make":
        return entry.id
    return entry.subject if number is None else int(number)


def _changes_fields(entry: AuditRecord) -> bool:
    return any(values.keys() - {"until", *DATA} for values in _differing(entry))


def _differing(entry: AuditRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values before and after an entry, without those that it left as they were."""
    before, after = entry.before, entry.after
    same = {name for name in before.keys() & after.keys() if before[name] == after[name]}
    was, now = ({name: of[name] for name in of if name not in same} for of in (before, after))
    return was, now


def _with(refusal: Refusal, entries: Sequence[AuditRecord]) -> Refusal:
    message = " ".join((refusal.message, *_sentences(entries[-MOST_NAMED:])))
    return Refusal(refusal.status, refusal.code, message, field=refusal.field, hint=refusal.hint)


def _sentences(entries: Iterable[AuditRecord]) -> Iterable[str]:
    for entry in entries:
        who = "The pool itself" if entry.who == POOL else given(entry.who)
        verb = VERBS.get(entry.effect.rpartition(".")[2], "changed")
        values = changes(*_differing(entry), utc) if entry.after else ""
        yield f"{who} {verb} it at {utc(entry.at)}{f': {values}' if values else ''}."
