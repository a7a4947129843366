"""The message with a report: text, a page for mail programs with what the print view shows, and a file of CSV."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from springtide.hub_extension.notifications.message import Attachment, Message, plain
from springtide.scheduler.wire import Report, ReportBy, ReportRow, report_words
from springtide.scheduler.wire.reports import report_csv
from springtide.scheduler.wording import at_a_glance, count

MOST_ROWS: Final = 200
"""Maximum number of rows in a message; its file has all."""
MOST_BARS: Final = 12
HEIGHT: Final = 80
"""Height of the chart of GPUs over time, in pixels."""
EMPTY: Final = "No GPU-hours that you may see in this time."
SIMULATED: Final = "GPUs are simulated: what they used is processor time."


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: a name and words, and the own and the borrowed part, in percent or pixels."""

    name: str
    words: str
    own: int
    borrowed: int


def report_message(title: str, about: str, found: Report, by_day: Report, page: str = "") -> Message:
    """Return the message with a report, which ``by_day`` is by day; ``page`` is the address of its page."""
    span = f"On {found.start}" if found.start == found.end else f"From {found.start} to {found.end}"
    notable = list(map(plain, found.notable))
    notes = [*([] if found.rows else [EMPTY]), *map(plain, found.notes), *([SIMULATED] if found.simulated else [])]
    more = len(found.rows) - MOST_ROWS
    left = f"{count(more, 'row')} more {'is' if more == 1 else 'are'} in the file." if more > 0 else ""
    rows = found.rows[:MOST_ROWS]
    html = (
        _template()
        .get_template("report.html")
        .render(
            title=title,
            about=about,
            span=f"{span}, in UTC.",
            numbers=found.numbers,
            notable=notable,
            notes=notes,
            bars=_bars(found),
            days=_days(by_day),
            height=HEIGHT,
            heads=[each.value for each in found.by],
            columns=found.columns,
            rows=[(_names(found, row), _cells(found, row)) for row in rows],
            total=_cells(found, found.total) if len(found.rows) > 1 else None,
            left=left,
            page=page,
        )
    )
    table = [f"{', '.join(_names(found, row))}: {_in_words(found, row)}" for row in rows]
    lines = (
        *([about] if about else []),
        f"{span}, in UTC.",
        "\n".join(f"{number.title}: {number.text}" for number in found.numbers),
        *(["\n".join([*notable, *notes])] if notable or notes else []),
        *(["\n".join(table)] if table else []),
        *([left] if left else []),
        *([page] if page else []),
    )
    file = Attachment(f"report-{found.start}-{found.end}.csv", "csv", report_csv(found))
    return Message(title, tuple(plain_lines(line) for line in lines), html, (file,))


def plain_lines(text: str) -> str:
    """Return a text whose lines are `plain`."""
    return "\n".join(map(plain, text.split("\n")))


@cache
def _template() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _names(found: Report, row: ReportRow) -> list[str]:
    return [plain(name) for name in report_words.names(found.by, row)]


def _cells(found: Report, row: ReportRow) -> list[str]:
    return [report_words.cell(each.name, getattr(row, each.name)) for each in found.columns]


def _in_words(found: Report, row: ReportRow) -> str:
    return " · ".join(f"{each.title} {text}" for each, text in zip(found.columns, _cells(found, row), strict=True))


def _bars(found: Report) -> list[Bar]:
    """Return the bars of the rows that held most."""
    held = sorted((row for row in found.rows if row.gpu_hours_held > 0), key=lambda row: -row.gpu_hours_held)
    most = held[0].gpu_hours_held if held else 1.0
    return [
        Bar(
            ", ".join(_names(found, row)),
            f"{at_a_glance(row.gpu_hours_held)} held"
            + (f" · {at_a_glance(row.gpu_hours_borrowed)} borrowed" if row.gpu_hours_borrowed else "")
            + (f" · {at_a_glance(row.gpu_hours_lent)} lent" if row.gpu_hours_lent else "")
            + (f" · quota {at_a_glance(row.gpu_hours_quota)}" if row.gpu_hours_quota else ""),
            *_parts(row, most, 100),
        )
        for row in held[:MOST_BARS]
    ]


def _days(by_day: Report) -> list[Bar]:
    """Return a bar for each day with the mean number of GPUs held, and the borrowed ones; none if nothing was."""
    rows = {row.by[ReportBy.DAY]: row for row in by_day.rows}
    most = max((row.gpu_hours_held for row in rows.values()), default=0.0)
    if not most:
        return []
    first, last = date.fromisoformat(by_day.start), date.fromisoformat(by_day.end)
    names = [(first + timedelta(days=passed)).isoformat() for passed in range((last - first).days + 1)]
    found = []
    for name in names:
        row = rows.get(name, ReportRow(by={}))
        mean = at_a_glance(row.gpu_hours_held / 24)
        held = f"{mean} {'GPU' if mean == '1' else 'GPUs'}"
        found.append(Bar(name, held, *_parts(row, most, HEIGHT)))
    return found


def _parts(row: ReportRow, most: float, scale: int) -> tuple[int, int]:
    """Return the sizes of the shares held within the quota, and beyond it."""
    whole = max(1, round(row.gpu_hours_held / most * scale)) if row.gpu_hours_held else 0
    borrowed = min(whole, round(row.gpu_hours_borrowed / most * scale))
    return whole - borrowed, borrowed
