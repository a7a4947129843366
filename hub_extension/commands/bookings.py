"""``springtide book``, ``bookings`` and ``unbook``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
from msgspec.structs import replace

from springtide.hub_extension.commands.interventions import Amount
from springtide.hub_extension.commands.text import json_option, one_line, print_json, print_table, printable
from springtide.hub_extension.commands.times import LastMoment, Moment, end_words, with_weekday
from springtide.scheduler import model
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.gpu_types import amount_words, gpus_words
from springtide.scheduler.wire import BookingPreview, BookingRequest, BookingView, Problem, Weekly, durations
from springtide.scheduler.wire.moments import EXAMPLES
from springtide.scheduler.wording import given, is_short, listed, with_offset

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
@click.option("--reason", help="Reason, shown to everyone whose job waits or is paused for it.")
@click.option(
    "--change",
    type=click.IntRange(1),
    metavar="BOOKING",
    help="Change this booking, by its number; what no option names stays.",
)
@click.option("--preview", is_flag=True, help="Say what the booking would do, and book nothing.")
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
    reason: str | None,
    change: int | None,
    preview: bool,
    as_json: bool,
) -> None:
    """Book nodes for a maintenance, or GPUs for a project, from a start to an end; or change a booking."""
    if change is None and bool(nodes) == bool(project):
        raise click.UsageError("Name either nodes, for a maintenance, or --project.")
    if change is None and (bool(project) != (gpus is not None) or (lends and not project)):
        raise click.UsageError("--gpus and --lend go with --project.")
    named = {"nodes": nodes, "project": project, "gpus": gpus, "lends": dict(lends), "why": reason}
    given_ones = {name: value for name, value in named.items() if value not in (None, (), {})}
    if change is None:
        when = _once(start, end, length) if every is None else _again(every, start, end, length, zone)
        with Client() as client:
            _send(client, BookingRequest(**given_ones, **when), preview=preview, as_json=as_json)
        return
    with Client() as client:
        present = _present(client, change)
        when = (
            _other_times(present, start, end, length) if every is None else _again(every, start, end, length, zone)
        )
        _send(client, replace(present, **given_ones, **when), preview=preview, as_json=as_json)


def _present(client: Client, number: int) -> BookingRequest:
    """Return the request that leaves a booking as it is. Raises `click.BadParameter` for an unknown one."""
    known = {each.number: each for each in client.bookings().items}
    if number not in known:
        numbers = listed([str(each) for each in known]) or "none"
        message = f"There is no booking {number}: it has ended, or was never made. Bookings: {numbers}."
        raise click.BadParameter(message, param_hint="--change")
    booking = known[number]
    return BookingRequest(
        nodes=booking.nodes,
        project=booking.project or None,
        gpus=_quantity(booking.gpus) or 0,
        lends={name: _quantity(amount) for name, amount in booking.lends.items()},
        why=booking.why,
        every=booking.every,
        start=None if booking.every or booking.begun else booking.start,
        end=None if booking.every else booking.end,
        replaces=number,
    )


def _quantity(amount: model.Amount) -> Any:
    """Return an amount in the form of requests."""
    return dict(amount) if isinstance(amount, Mapping) else amount


def _other_times(
    present: BookingRequest, start: str | None, end: str | None, length: str | None
) -> dict[str, Any]:
    """Return the times that options give to a booking. Raises `click.UsageError` for one that comes again."""
    if start is None and end is None and length is None:
        return {}
    if present.every is not None:
        raise click.UsageError("This booking comes again: give --every with its days, --from and --until.")
    if end is not None and length is not None:
        raise click.UsageError("Give either --until or --for.")
    begins = present.start if start is None else _moment(start, "--from")
    if length is None:
        return {"start": begins, "end": present.end if end is None else _moment(end, "--until", LastMoment())}
    return {"start": begins, "end": _end_after(begins, length)}


def _send(client: Client, request: BookingRequest, *, preview: bool, as_json: bool) -> None:
    """Book, or say what the booking would do. Raises `click.BadParameter` that names an option to correct."""
    try:
        found = client.preview_booking(request) if preview else client.book(request)
    except PoolError as error:
        raise _named(error.problem) or error from None
    if as_json:
        print_json(found)
    elif isinstance(found, BookingPreview):
        if found.refused is not None:
            raise _named(found.refused) or PoolError(found.refused)
        for sentence in found.said:
            click.echo(one_line(sentence))
    else:
        click.echo(
            one_line(f"Booking {found.booking.number}: {described(found.booking)}, {times(found.booking)}.")
        )
        for note in found.notes:
            click.echo(one_line(note))


def _named(problem: Problem) -> click.BadParameter | None:
    """Return a refusal with the option that it is about; None if it is about none of a time that comes again."""
    option = OPTIONS.get(problem.field or "")
    return None if option is None else click.BadParameter(printable(str(PoolError(problem))), param_hint=option)


def _once(start: str | None, end: str | None, length: str | None) -> dict[str, Any]:
    """Return the start and the end of a booking. Raises `click.UsageError` for both ends, or none."""
    if (end is None) == (length is None):
        raise click.UsageError("Give either --until or --for.")
    begins = None if start is None else _moment(start, "--from")
    if end is not None:
        return {"start": begins, "end": _moment(end, "--until", LastMoment())}
    return {"start": begins, "end": _end_after(begins, str(length))}


def _end_after(start: float | None, length: str) -> float:
    """Return the end of a time of this length from a start or now on. Raises `click.BadParameter`."""
    try:
        return (time.time() if start is None else start) + durations.seconds(length)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--for") from None


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
    every_week = Weekly(days=every, opens=start, closes=end, zone=zone or own_zone())
    return {"every": every_week, "start": None, "end": None}


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
            with_offset(each.start, precise=is_short(each.start, each.end)),
            with_offset(each.end, precise=is_short(each.start, each.end)),
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
    lenders = listed([f"{name} ({amount_words(amount)})" for name, amount in booking.lends.items()])
    lent = f", lent by {lenders}" if lenders else ""
    return f"{gpus_words(booking.gpus)} for {booking.project}{lent}"


def times(booking: BookingView) -> str:
    """Return the start and the end of a booking, as this machine's clock has them, and whether it comes again."""
    precise = is_short(booking.start, booking.end)
    first = f"from {with_weekday(booking.start, precise=precise)} to {end_words(booking.end, precise=precise)}"
    return f"{booking.repeats}: next {first}" if booking.repeats else first
