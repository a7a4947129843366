"""Tables as CSV that spreadsheets read; texts of others compute nothing there."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from springtide.scheduler.arguments import is_number

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of texts that a spreadsheet would compute."""


def csv_text(heads: Sequence[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as CSV. Texts that begin like a formula get an apostrophe before them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, heads))
    for row in rows:
        writer.writerow(map(_cell, row))
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return "" if value is None else value
    text = "".join(letter for letter in value if letter.isprintable() or letter == "\n")
    return f"'{text}" if text.startswith(FORMULA) and not is_number(text) else text
