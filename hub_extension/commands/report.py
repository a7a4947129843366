"""``springtide report``."""

from __future__ import annotations

import click

from springtide.hub_extension.commands.text import format_option, one_line, print_json, print_table, say
from springtide.scheduler.client import Client
from springtide.scheduler.wire import REPORT_COLUMNS, Report, ReportBy, ReportRow
from springtide.scheduler.wire.report_table import report_csv
from springtide.scheduler.wording import duration

NOT_NAMED = {ReportBy.PROJECT: "(no project)", ReportBy.PERSON: "(not known)", ReportBy.TYPE: "(not known)"}
TITLES = {
    "gpu_hours_held": "HELD h",
    "gpu_hours_measured": "MEASURED h",
    "gpu_hours_used": "USED h",
    "gpu_hours_quota": "QUOTA h",
    "gpu_hours_borrowed": "BORROWED h",
    "gpu_hours_lent": "LENT h",
    "idle_held_hours": "IDLE h",
    "jobs": "JOBS",
    "people": "PEOPLE",
    "wait_p50_s": "WAIT 50 %",
    "wait_p95_s": "WAIT 95 %",
    "pauses": "PAUSES",
    "lost_gpu_hours": "LOST h",
    "cost": "COST",
}


@click.command()
@click.option(
    "--from", "start", metavar="DAY", help="The first day, such as 2026-01-01; by default that of the month."
)
@click.option("--to", "end", metavar="DAY", help="The last day, which is part of the report; today by default.")
@click.option(
    "--by",
    default="project",
    show_default=True,
    metavar="COLUMNS",
    help=f"What rows are by, with commas between: any of {', '.join(ReportBy)}.",
)
@format_option
def report(*, start: str | None, end: str | None, by: str, shape: str, as_json: bool) -> None:
    """Report GPU-hours held, used and borrowed, waits, pauses and costs.

    Days are in UTC. Admins see all, admins of projects their projects, others what they held themselves.
    """
    with Client() as client:
        found = client.report(start, end, by.split(","))
    if as_json or shape == "json":
        print_json(found)
    elif shape == "csv":
        click.echo(report_csv(found), nl=False)
    else:
        _print_table(found)


def _print_table(found: Report) -> None:
    columns = [name for name in REPORT_COLUMNS if any(getattr(row, name) is not None for row in found.rows)]
    rows = [[*_names(found, row), *(_cell(name, getattr(row, name)) for name in columns)] for row in found.rows]
    if len(rows) > 1:
        total = ["TOTAL", *("" for _ in found.by[1:])] if found.by else []
        rows.append([*total, *(_cell(name, getattr(found.total, name)) for name in columns)])
    header = [*(each.upper() for each in found.by), *(_title(found, name) for name in columns)]
    span = f"on {found.start}" if found.start == found.end else f"from {found.start} to {found.end}"
    print_table(header, rows, empty=f"No GPU-hours that you may see {span}.")
    _say_notes(found)


def _say_notes(found: Report) -> None:
    for note in found.notes:
        say(note)
    if found.simulated:
        say("GPUs are simulated: what they used is processor time.")


def _title(found: Report, name: str) -> str:
    return one_line(f"{TITLES[name]} {found.currency}").rstrip() if name == "cost" else TITLES[name]


def _names(found: Report, row: ReportRow) -> list[str]:
    return [row.by[each] or NOT_NAMED.get(each, "") for each in found.by]


def _cell(name: str, value: float | None) -> str:
    """Return a number as people read it: hours and costs with one or two digits, waits as durations."""
    if value is None:
        return "-"
    if name.startswith("wait"):
        return duration(value)
    if isinstance(value, int):
        return str(value)
    return f"{value:.2f}" if name == "cost" else f"{value:.1f}"
