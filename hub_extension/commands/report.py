"""``springtide report``."""

from __future__ import annotations

import sys

import click

from springtide.hub_extension.commands.missing_extras import remedy
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, say
from springtide.scheduler.client import Client
from springtide.scheduler.wire import Report, ReportBy, ReportRow, report_words
from springtide.scheduler.wire.report_parquet import report_parquet
from springtide.scheduler.wire.reports import report_csv


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
@click.option(
    "--format",
    "shape",
    type=click.Choice(("table", "csv", "json", "parquet")),
    default="table",
    show_default=True,
    help="A table for people, or all values for programs: CSV, JSON, or a Parquet file, which needs pyarrow.",
)
@json_option
@click.option(
    "--mail",
    "by_mail",
    is_flag=True,
    help="Send it to yourself by e-mail, as the monthly report is sent; by default that of the last month.",
)
def report(*, start: str | None, end: str | None, by: str, shape: str, as_json: bool, by_mail: bool) -> None:
    """Report GPU-hours held, used and borrowed, waits, pauses and costs.

    Days are in UTC. Admins see all, admins of projects their projects, others what they held themselves.
    """
    shape = "json" if as_json else shape
    if by_mail:
        _mail(start, end, by, shape)
        return
    if shape == "parquet" and sys.stdout.isatty():
        raise click.UsageError(
            "A Parquet file is not for a terminal. Write it to a file: "
            "springtide report --format parquet > report.parquet"
        )
    with Client() as client:
        found = client.report(start, end, by.split(","))
    if shape == "json":
        print_json(found)
    elif shape == "csv":
        click.echo(report_csv(found), nl=False)
    elif shape == "parquet":
        _print_parquet(found)
    else:
        _print_table(found)


def _mail(start: str | None, end: str | None, by: str, shape: str) -> None:
    if shape != "table":
        raise click.UsageError(
            "--mail has no --format and no --json: the message is a page, with a file of CSV. Leave one out."
        )
    with Client() as client:
        sent = client.mail_report(start, end, by.split(","))
    if not sent.delivered:
        raise click.ClickException(one_line(sent.problem))
    say("The report was sent to you by e-mail.")


def _print_parquet(found: Report) -> None:
    try:
        file = report_parquet(found)
    except ImportError:
        raise click.ClickException(
            "A Parquet file needs the package pyarrow, which is not installed here: "
            f"{remedy('report --format parquet', 'parquet')}"
        ) from None
    click.echo(file, nl=False)


def _print_table(found: Report) -> None:
    rows = [[*report_words.names(found.by, row), *_cells(found, row)] for row in found.rows]
    if len(rows) > 1:
        total = ["TOTAL", *("" for _ in found.by[1:])] if found.by else []
        rows.append([*total, *_cells(found, found.total)])
    header = [*(each.upper() for each in found.by), *(_title(each.title) for each in found.columns)]
    span = f"on {found.start}" if found.start == found.end else f"from {found.start} to {found.end}"
    print_table(header, rows, empty=f"No GPU-hours that you may see {span}.")
    for line in (*filter(None, [found.scope]), *found.notable, *found.notes):
        say(line)
    if found.simulated:
        say("GPUs are simulated: what they used is processor time.")


def _title(title: str) -> str:
    """Return the title of a column in capitals, but for the unit of hours and the currency."""
    name, comma, rest = title.partition(",")
    hours = name.removesuffix(" h")
    return one_line(f"{hours.upper()}{name[len(hours) :]}{comma}{rest}")


def _cells(found: Report, row: ReportRow) -> list[str]:
    return [report_words.cell(each.name, getattr(row, each.name)) for each in found.columns]
