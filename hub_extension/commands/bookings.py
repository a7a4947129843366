"""``springtide book``, ``bookings`` and ``unbook``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from springtide.hub_extension.commands.interventions import Amount
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table
from springtide.hub_extension.commands.times import Moment, local
from springtide.scheduler.client import Client
from springtide.scheduler.wire import BookingView, durations
from springtide.scheduler.wire.moments import EXAMPLES
from springtide.scheduler.wording import given, listed

NONE = "No bookings. Make one: springtide book NODE --from 'friday 18:00' --for 2h"


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
@click.option("--from", "start", type=Moment(), metavar="TIME", help=f"Start: {EXAMPLES}.  [default: now]")
@click.option("--until", "end", type=Moment(), metavar="TIME", help="End, as --from.")
@click.option("--for", "length", metavar="DURATION", help="Instead of --until: how long, such as 2h or 3d.")
@click.option("--reason", default="", help="Reason, shown to everyone whose job waits or is paused for it.")
@json_option
def book(
    *,
    nodes: tuple[str, ...],
    project: str | None,
    gpus: Any,
    lends: Sequence[tuple[str, Any]],
    start: float | None,
    end: float | None,
    length: str | None,
    reason: str,
    as_json: bool,
) -> None:
    """Book nodes for a maintenance, or GPUs for a project, from a start to an end."""
    if bool(nodes) == bool(project):
        raise click.UsageError("Name either nodes, for a maintenance, or --project.")
    if bool(project) != (gpus is not None) or (lends and not project):
        raise click.UsageError("--gpus and --lend go with --project.")
    end = _end(start, end, length)
    with Client() as client:
        if project:
            made = client.book_gpus(project, gpus, start=start, end=end, why=reason, lends=dict(lends))
        else:
            made = client.book_nodes(*nodes, start=start, end=end, why=reason)
    if as_json:
        print_json(made)
        return
    what = described(made.booking)
    click.echo(one_line(f"Booking {made.booking.number}: {what}, {times(made.booking)}."))
    for note in made.notes:
        click.echo(one_line(note))


def _end(start: float | None, end: float | None, length: str | None) -> float:
    if (end is None) == (length is None):
        raise click.UsageError("Give either --until or --for.")
    if end is not None:
        return end
    try:
        return (time.time() if start is None else start) + durations.seconds(str(length))
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--for") from None


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
            local(each.start),
            local(each.end),
            described(each),
            "yes" if each.begun else "",
            each.by,
            each.why,
        )
        for each in found.items
    ]
    print_table(("BOOKING", "FROM", "UNTIL", "WHAT", "NOW", "BY", "REASON"), rows, empty=NONE)


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
    return f"{_number(booking.gpus)} GPUs for {booking.project}{lent}"


def _number(amount: Any) -> str:
    if isinstance(amount, Mapping):
        return ", ".join(f"{number} {gpu_type}" for gpu_type, number in amount.items())
    return str(amount)


def times(booking: BookingView) -> str:
    """Return the start and the end of a booking, as this machine's clock has them."""
    return f"from {local(booking.start)} to {local(booking.end)}"
