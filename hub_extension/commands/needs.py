"""``springtide needs``."""

from __future__ import annotations

import time

import click

from springtide.hub_extension.commands.text import json_option, one_line, print_json, say
from springtide.scheduler.client import Client
from springtide.scheduler.wire import Need
from springtide.scheduler.wording import ago, count, with_offset


@click.command()
@click.option("--all", "everything", is_flag=True, help="List entries that are left for now, too.")
@click.option("--leave", metavar="ID", help="Leave an entry as it is for some days, instead of listing.")
@click.option("--days", type=click.FloatRange(0, 366, min_open=True), help="How many days; 7 by default.")
@json_option
def needs(*, everything: bool, leave: str | None, days: float | None, as_json: bool) -> None:
    """List what needs an administrator, as the page Overview does, with what to do about it.

    For administrators of the pool. The exit code is 1 if an entry is a problem.
    """
    if days is not None and leave is None:
        raise click.UsageError("--days says for how long --leave leaves an entry; name one with --leave ID.")
    with Client() as client:
        found = client.needs() if leave is None else client.leave_need(leave, 7.0 if days is None else days)
    if as_json:
        print_json(found)
    else:
        _print(found.items, empty="Nothing needs you.")
        if everything and found.left:
            say("Left for now:")
            _print(found.left)
        elif found.left:
            say(f"{count(len(found.left), 'entry', 'entries')} left for now: --all lists them.")
    if leave is None and any(need.problem for need in found.items):
        raise click.exceptions.Exit(1)


def _print(found: list[Need], empty: str = "") -> None:
    now = time.time()
    for need in found:
        mark = "PROBLEM" if need.problem else "note   "
        click.echo(f"{mark}  {one_line(need.said)} ({_when(need, now)})")
        click.echo(f"         → {one_line(need.remedy)}")
        click.echo(f"         {need.id}")
    if not found and empty:
        click.echo(empty)


def _when(need: Need, now: float) -> str:
    """Return until when an entry lasts, of one that does not end by itself how long it has been there."""
    return ago(need.since, now) if need.until is None else f"until {with_offset(need.until)}"
