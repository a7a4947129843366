"""``springtide audit``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import click

from springtide.hub_extension.commands.pool import value_words
from springtide.hub_extension.commands.text import format_option, print_json, print_table, say
from springtide.hub_extension.commands.times import LastMoment, Moment
from springtide.scheduler.client import Client
from springtide.scheduler.wire import AuditEntry
from springtide.scheduler.wire.audit_table import csv_of, time_of
from springtide.scheduler.wording import amount, listed, with_offset

SHOWN = 50
"""Number of entries in a table, unless another is asked for."""
ABOUT = frozenset({"user", "name"})
"""Values before a change that say what it is about, and that nothing follows."""
UNNAMED = {"quota": 0, "build_quota": 0, "limit": None}
"""Numbers of the GPU types that a table does not name, by the field that it is of."""
NOTHING = object()


@click.command()
@click.option("--who", help="Only what this person did; springtide is the pool itself.")
@click.option(
    "--what", help="Only entries of this kind, such as job.hold, or of kinds with such a part: job, or hold."
)
@click.option("--project", help="Only what concerns this project.")
@click.option("--from", "start", type=Moment(), metavar="TIME", help="Only from then on, such as 2026-01-31.")
@click.option("--to", "end", type=LastMoment(), metavar="TIME", help="Only until then; a day is part of it.")
@click.option(
    "--limit", type=click.IntRange(1), help="Maximum number of entries.  [default: 50; all of CSV and JSON]"
)
@format_option
def audit(*, limit: int | None, shape: str, as_json: bool, **chosen: Any) -> None:
    """Show who did what, newest first: admins see all, leads what concerns their projects."""
    shape = "json" if as_json else shape
    most = SHOWN if limit is None and shape == "table" else limit
    with Client() as client:
        found = client.all_audit(**chosen)
        entries = list(islice(found, most))
        more = most is not None and next(found, None) is not None
    if shape == "json":
        print_json(entries)
    elif shape == "csv":
        click.echo(csv_of(entries), nl=False)
    else:
        print_table(
            ("WHEN", "WHO", "WHAT", "PROJECT", "SUBJECT", "CHANGE"), map(_row, entries), empty="No entries."
        )
    if more:
        say(f"There are more than these {amount(len(entries))}: narrow it, or raise --limit.")


def _row(entry: AuditEntry) -> tuple[str, ...]:
    return (with_offset(entry.at), entry.who, entry.what, entry.project, entry.subject, changes(entry))


def changes(entry: AuditEntry) -> str:
    """Return the values that an entry changed: ``quota 2 → 4, until 18:00 → none, reason a deadline``.

    What an entry without later values had before follows ``before:``.
    """
    before, after = entry.before, entry.after
    said = []
    for name in dict.fromkeys((*before, *after)):
        was, now = (_text(name, _whole(name, values, entry)) for values in (before, after))
        if name not in before or before[name] == after.get(name, NOTHING):
            said.append(f"{name} {now}")
        elif name in after:
            said.append(f"{name} {was} → {now}")
        else:
            said.append(f"{name} {was}{'' if name in ABOUT or not after else ' → none'}")
    return f"{'' if after or not said else 'before: '}{', '.join(said)}"


def _whole(name: str, values: Mapping[str, Any], entry: AuditEntry) -> Any:
    """Return a value of an entry; a table of GPU types has all types that it has before or after."""
    value, was, now = values.get(name), entry.before.get(name), entry.after.get(name)
    if name not in UNNAMED or not isinstance(was, dict) or not isinstance(now, dict) or value is None:
        return value
    return {gpu_type: value.get(gpu_type, UNNAMED[name]) for gpu_type in was | now}


def _text(name: str, value: Any) -> str:
    at = time_of(name, value)
    if at is not None:
        return with_offset(at)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return listed(value) or "none"
    return value if isinstance(value, str) else value_words(value)
