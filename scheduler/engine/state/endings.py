"""Changes that end by themselves: when, and what returns then. Ends are times of the system clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_types import amount_words
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import (
    POOL,
    DrainRecord,
    Ending,
    EndingKey,
    EndingKind,
    FreezeRecord,
    GpuDrainRecord,
)
from springtide.scheduler.wording import amount, quoted, utc

TRY_AGAIN = 60.0
"""Time until a value that could not return is tried again, in seconds."""
ENDS = "endings"
"""Name of the ends of changed values in entries of the audit trail, by the kind of the value."""
LONGEST = 10 * 365 * 86_400
"""Longest time until an end, in seconds."""

Closed: TypeAlias = DrainRecord | GpuDrainRecord | FreezeRecord
"""A node, GPU or project that is closed to jobs, perhaps until a time."""


def check_until(until: float | None, now: float, field: str = "until") -> None:
    """Raise `Refusal` of a ``field`` for an end that has passed, or that is years away."""
    if until is None or now < until <= now + LONGEST:
        return
    message = "The end is more than ten years away." if until > now else "The end has passed already."
    raise Refusal(422, "invalid", message, field=field, hint="Give a time that is to come.")


def check_kept(before: Closed | None, until: float | None, by: str, subject: str, undone: str) -> None:
    """Raise `Refusal` for a change that would end another person's longer decision.

    ``before`` is that decision, if any, about the ``subject``; ``undone`` says what ends it, as an imperative.
    """
    if before is None or before.by == by or until is None or (before.until is not None and before.until <= until):
        return
    who = "The pool itself" if before.by == POOL else quoted(before.by)
    end = "with no end" if before.until is None else f"until {utc(before.until)}"
    raise Refusal(
        409,
        "ends_earlier",
        f"{who} has {subject} {end}: one until {utc(until)} would end that too early.",
        field="until",
        hint=f"Give no end or a later one, or {undone} first.",
    )


def end_at(transaction: Transaction, key: EndingKey, until: float | None, by: str, before: Any) -> None:
    """Have a change end at ``until``, when the value ``before`` returns; None for a change that stays.

    A change that replaces one with an end leads back to the value before both.
    """
    if until is None:
        transaction.endings.remove(key)
        return
    transaction.endings.put(ended_at(transaction.endings.get(key), key, until, by, before))


def ended_at(known: Ending | None, key: EndingKey, until: float, by: str, before: Any) -> Ending:
    """Return the end of a change that may replace one with an end: the value before both returns."""
    return Ending(*key, until, by, before if known is None else known.before)


def until_of(endings: Mapping[EndingKey, Ending], key: EndingKey) -> float | None:
    """Return when a change ends by itself, None if it does not."""
    ending = endings.get(key)
    return None if ending is None else ending.until


def recorded_ends(transaction: Transaction, keys: Iterable[EndingKey]) -> dict[str, Any]:
    """Return when values end and what returns then, as the audit trail has it; nothing if none ends later."""
    known = (transaction.endings.get(key) for key in keys)
    ends = {
        ending.kind.value: {"until": ending.until, "before": ending.before}
        for ending in known
        if ending is not None and ending.until > transaction.now
    }
    return {ENDS: ends} if ends else {}


def ends_again(values: Mapping[str, Any], subject: str, by: str) -> list[Ending]:
    """Return the ends that ``values`` of the audit trail had, for ``by``, who gives these values back."""
    return [
        Ending(EndingKind(kind), subject, each["until"], by, each["before"])
        for kind, each in values.get(ENDS, {}).items()
    ]


def value_before(ending: Ending) -> str:
    """Return the value that returns at the end, in words: ``2``, ``2 a100``, ``none``.

    After several changes with ends it is the one before all of them.
    """
    value = ending.before
    if ending.kind is EndingKind.PARENT:
        return quoted(value) if value else "none"
    if ending.kind in {EndingKind.RANGES, EndingKind.IDLE_RULE}:
        return "what it was before"
    return amount(value) if isinstance(value, float) else amount_words(value)


def is_due(ending: Ending, now: float) -> bool:
    """Return whether the value before a change is to return now."""
    return _due_at(ending) <= now


def next_end(state: State) -> float | None:
    """Return when the next drain, freeze, request or change ends or is tried again, or a booking begins or ends.

    None if nothing does.
    """
    return min(_ends(state), default=None)


def _ends(state: State) -> Iterator[float]:
    drains = (each.until for each in state.drains.values())
    single = (each.until for each in state.gpu_drains.values())
    bookings = (each.end if each.begun else each.start for each in state.bookings.values())
    freezes = (each.until for each in state.freezes.values())
    yield from (until for until in (*drains, *single, *freezes) if until is not None)
    yield from bookings
    yield from (each.due for each in state.change_requests.values())
    yield from map(_due_at, state.endings.values())


def _due_at(ending: Ending) -> float:
    return max(ending.until, ending.tried + TRY_AGAIN) if ending.refused else ending.until
