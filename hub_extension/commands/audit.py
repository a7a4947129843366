"""``springtide audit``."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from springtide.hub_extension.commands.text import format_option, print_json, print_table, say
from springtide.hub_extension.commands.times import LastMoment, Moment
from springtide.scheduler.client import Client
from springtide.scheduler.wire import AuditEntry
from springtide.scheduler.wire.audit_table import changes, csv_of
from springtide.scheduler.wording import amount, with_offset

SHOWN = 50
"""Number of entries in a table, unless another is asked for."""


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
    return (
        with_offset(entry.at),
        entry.who,
        entry.what,
        entry.project,
        entry.subject,
        changes(entry.before, entry.after, with_offset),
    )
