"""The audit trail as text: for spreadsheets, and its changes in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from springtide.scheduler.gpu_types import amount_words
from springtide.scheduler.wire.csv_text import csv_text
from springtide.scheduler.wire.people import AuditEntry
from springtide.scheduler.wording import amount, exactly, is_short, iso, listed

TIMES: Final = frozenset({"until", "start", "end"})
"""Names of times among the values of entries: the end of a change, the start and the end of a booking."""
COLUMNS: Final = ("id", "at", "who", "what", "project", "subject", "before", "after")
DURATIONS: Final = frozenset({"tell_after", "notice", "unused", "time_limit"})
"""Names of durations among the values of entries, in seconds."""
ABOUT: Final = frozenset({"user", "name", "wanted"})
"""Values before a change that say what it is about, and that nothing follows."""
DATA: Final = frozenset({"age", "every", "endings"})
"""Values that an undo needs, and that other values of the entry say in words, or that say nothing to people."""
UNNAMED: Final[Mapping[str, int | None]] = {"quota": 0, "build_quota": 0, "limit": None}
"""Numbers of the GPU types that a table does not name, by the field that it is of."""
NOTHING: Final = object()


def csv_of(entries: Iterable[AuditEntry]) -> str:
    """Return entries as CSV: a row each, all times in UTC, with the values before and after as JSON."""
    return csv_text(COLUMNS, map(_row, entries))


def _row(entry: AuditEntry) -> Iterator[object]:
    yield from (entry.id, iso(entry.at), entry.who, entry.what, entry.project, entry.subject)
    for values in (entry.before, entry.after):
        shown = {name: iso(at) if (at := time_of(name, value)) else value for name, value in values.items()}
        yield msgspec.json.encode(shown).decode()


def time_of(name: str, value: object) -> float | None:
    """Return a value of an entry as a time, in seconds since the epoch; None if it is something else."""
    return value if name in TIMES and isinstance(value, int | float) else None


def changes(before: Mapping[str, Any], after: Mapping[str, Any], dated: Callable[..., str]) -> str:
    """Return the values that an entry changed: ``quota 2 → 4, until 18:00 → none, reason a deadline``.

    The values before an entry without later ones follow ``before:``. ``dated`` returns a time in words, to
    the second if ``precise``.
    """
    spans = [(values["start"], values["end"]) for values in (before, after) if {"start", "end"} <= values.keys()]
    precise = any(is_short(*span) for span in spans)
    is_before = not after and not ABOUT.issuperset(before)
    said = []
    for name in dict.fromkeys((*before, *after)):
        if name in DATA or all(_is_unsaid(values.get(name, "")) for values in (before, after)):
            continue
        was, now = (
            _text(name, _whole(name, values, before, after), partial(dated, precise=precise))
            for values in (before, after)
        )
        title = name.replace("_", " ")
        if name not in before or before[name] == after.get(name, NOTHING):
            said.append(f"{title} {now}")
        elif name in after:
            said.append(f"{title} {was} → {now}")
        else:
            said.append(f"{title} {was}{'' if name in ABOUT or not after else ' → none'}")
    return f"{'before: ' if is_before and said else ''}{', '.join(said)}"


def _is_unsaid(value: object) -> bool:
    """Return whether a value says as little as none: an option that was not chosen, or no text."""
    return value is False or value == ""


def _whole(name: str, values: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> Any:
    """Return a value of an entry; a table of GPU types has all types that it has before or after."""
    value, was, now = values.get(name), before.get(name), after.get(name)
    if name not in UNNAMED or not isinstance(was, dict) or not isinstance(now, dict) or value is None:
        return value
    return {gpu_type: value.get(gpu_type, UNNAMED[name]) for gpu_type in was | now}


def _text(name: str, value: Any, dated: Callable[[float], str]) -> str:
    at = time_of(name, value)
    if at is not None:
        return dated(at)
    if name in DURATIONS and isinstance(value, int | float):
        return exactly(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return listed(value) or "none"
    return value or "none" if isinstance(value, str) else value_words(value)


def value_words(value: Any) -> str:
    """Return a value of a project as people write it: ``4 a100, 2 t4``, ``none``, ``yes``; others as JSON."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return amount(value) if value.is_integer() else f"{value:,}"
    numbers = value.values() if isinstance(value, dict) else (value,)
    plain = all(number is None or (isinstance(number, int) and not isinstance(number, bool)) for number in numbers)
    return amount_words(value) if plain else json.dumps(value, ensure_ascii=False)
