"""``springtide book``, ``bookings`` and ``unbook``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from springtide.hub_extension.commands.interventions import Amount
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, printable
from springtide.hub_extension.commands.times import LastMoment, Moment, end_words, with_weekday
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import BookingView, Weekly, durations
from springtide.scheduler.wire.moments import EXAMPLES
from springtide.scheduler.wording import given, listed, with_offset

NONE = "No bookings. Make one: springtide book NODE --from 'friday 18:00' --for 2h"

OPTIONS = {"every.days": "--every", "every.opens": "--from", "every.closes": "--until", "every.zone": "--zone"}
"""The options of the parts of a time that comes again, by the field of the request."""


class Lent(click.ParamType[tuple[str, Any]]):
    """A project and the GPUs that it lends, such as ``vision=2`` or ``vision=a100=2,t4=4``."""

    name = "lent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Return the project and the amount, or fail with the given text and an example."""
        if not isinstance(value, str):
            return (str(value[0]), value[1])
        project, _, amount = value.partition("=")
        if not project or not amount:
            self.fail(f"{given(value)} is no project with a number of GPUs, such as vision=2.", param, ctx)
        return project, Amount().convert(amount, param, ctx)


@click.command()
@click.argument("nodes", metavar="[NODE...]", nargs=-1)
@click.option("--project", help="Instead of nodes: the project that GPUs are booked for.")
@click.option("--gpus", type=Amount(), metavar="GPUS", help="GPUs beyond its quota: 4, or a100=2,t4=4.")
@click.option(
    "--lend", "lends", type=Lent(), multiple=True, metavar="PROJECT=GPUS", help="Whose quota lends them."
)
@click.option("--from", "start", metavar="TIME", help=f"Start: {EXAMPLES}.  [default: now]")
@click.option("--until", "end", metavar="TIME", help="End, as --from.")
@click.option("--for", "length", metavar="DURATION", help="Instead of --until: how long, such as 2h or 3d.")
@click.option(
    "--every",
    metavar="DAYS",
    help="Again and again on these days, such as sat,sun, mon-fri or daily, from one time of day to another.",
)
@click.option("--zone", help="Time zone of --every, such as Europe/Berlin.  [default: that of this machine]")
@click.option("--reason", default="", help="Reason, shown to everyone whose job waits or is paused for it.")
@json_option
def book(
    *,
    nodes: tuple[str, ...],
    project: str | None,
    gpus: Any,
    lends: Sequence[tuple[str, Any]],
    start: str | None,
    end: str | None,
    length: str | None,
    every: str | None,
    zone: str | None,
    reason: str,
    as_json: bool,
) -> None:
    """Book nodes for a maintenance, or GPUs for a project, from a start to an end."""
    if bool(nodes) == bool(project):
        raise click.UsageError("Name either nodes, for a maintenance, or --project.")
    if bool(project) != (gpus is not None) or (lends and not project):
        raise click.UsageError("--gpus and --lend go with --project.")
    when = _once(start, end, length) if every is None else _again(every, start, end, length, zone)
    with Client() as client:
        try:
            if project:
                made = client.book_gpus(project, gpus, **when, why=reason, lends=dict(lends))
            else:
                made = client.book_nodes(*nodes, **when, why=reason)
        except PoolError as error:
            option = OPTIONS.get(error.problem.field or "")
            if option is None:
                raise
            raise click.BadParameter(printable(str(error)), param_hint=option) from None
    if as_json:
        print_json(made)
        return
    what = described(made.booking)
    click.echo(one_line(f"Booking {made.booking.number}: {what}, {times(made.booking)}."))
    for note in made.notes:
        click.echo(one_line(note))


def _once(start: str | None, end: str | None, length: str | None) -> dict[str, Any]:
    """Return the start and the end of a booking. Raises `click.UsageError` for both ends, or none."""
    if (end is None) == (length is None):
        raise click.UsageError("Give either --until or --for.")
    begins = None if start is None else _moment(start, "--from")
    if end is not None:
        return {"start": begins, "end": _moment(end, "--until", LastMoment())}
    try:
        seconds = durations.seconds(str(length))
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--for") from None
    return {"start": begins, "end": (time.time() if begins is None else begins) + seconds}


def _moment(text: str, option: str, kind: Moment = Moment()) -> float:  # noqa: B008 - has no state
    """Return a time in seconds since the epoch. Raises `click.BadParameter`, which names the option."""
    try:
        return kind.convert(text, None, None)
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint=option) from None


def _again(every: str, start: str | None, end: str | None, length: str | None, zone: str | None) -> dict[str, Any]:
    """Return the times of a booking that comes again. Raises `click.UsageError` without times of day."""
    if start is None or end is None or length is not None:
        raise click.UsageError("--every goes with times of day: --every sat,sun --from 20:00 --until 08:00.")
    return {"every": Weekly(days=every, opens=start, closes=end, zone=zone or own_zone())}


def own_zone() -> str:
    """Return the name of this machine's time zone, UTC if it has none."""
    named = os.environ.get("TZ", "").lstrip(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    return named or "UTC"


@click.command()
@json_option
def bookings(*, as_json: bool) -> None:
    """Show the bookings that hold or are to come."""
    with Client() as client:
        found = client.bookings()
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each.number,
            with_offset(each.start),
            with_offset(each.end),
            described(each),
            each.repeats,
            "yes" if each.begun else "",
            each.by,
            each.why,
        )
        for each in found.items
    ]
    print_table(("BOOKING", "FROM", "UNTIL", "WHAT", "AGAIN", "NOW", "BY", "REASON"), rows, empty=NONE)


@click.command()
@click.argument("numbers", metavar="BOOKING...", nargs=-1, required=True, type=click.IntRange(1))
def unbook(*, numbers: tuple[int, ...]) -> None:
    """Cancel bookings by number, before they begin or while they hold."""
    with Client() as client:
        for number in numbers:
            client.cancel_booking(number)
            click.echo(f"Booking {number} is cancelled.")


def described(booking: BookingView) -> str:
    """Return ``maintenance of n1 and n2``, or ``4 GPUs for vision, lent by nlp (2)``."""
    if not booking.project:
        return f"maintenance of {listed(booking.nodes)}"
    lenders = listed([f"{name} ({_number(amount)})" for name, amount in booking.lends.items()])
    lent = f", lent by {lenders}" if lenders else ""
    return f"{_number(booking.gpus)} {'GPU' if booking.gpus == 1 else 'GPUs'} for {booking.project}{lent}"


def _number(amount: Any) -> str:
    if isinstance(amount, Mapping):
        return ", ".join(f"{number} {gpu_type}" for gpu_type, number in amount.items())
    return str(amount)


def times(booking: BookingView) -> str:
    """Return the start and the end of a booking, as this machine's clock has them, and whether it comes again."""
    first = f"from {with_weekday(booking.start)} to {end_words(booking.end)}"
    return f"{booking.repeats}: next {first}" if booking.repeats else first
