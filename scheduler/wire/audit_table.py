"""The audit trail as text that spreadsheets read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from springtide.scheduler.wire.csv_text import csv_text
from springtide.scheduler.wire.people import AuditEntry
from springtide.scheduler.wording import iso

TIMES: Final = frozenset({"until", "start", "end"})
"""Names of times among the values of entries: the end of a change, the start and the end of a booking."""
COLUMNS: Final = ("id", "at", "who", "what", "project", "subject", "before", "after")


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
