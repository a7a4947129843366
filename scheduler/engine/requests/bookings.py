"""Bookings: nodes set apart for a maintenance, GPUs for a project, from a start to an end (docs/bookings.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.requests import drains, quotas
from springtide.scheduler.engine.state import booked
from springtide.scheduler.engine.state.endings import check_until
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_types import limit_of, quota_of, total
from springtide.scheduler.model import Amount, Environment, Node, Project, Span
from springtide.scheduler.refusal import CHANGED, Refusal, checked_reason, invalid_field, unknown_project
from springtide.scheduler.repeats import DAYS, NoRepeatError, Repeat, in_words, next_span, repeat
from springtide.scheduler.store.records import AuditRecord, JobRecord
from springtide.scheduler.store.tables import POOL, BookingRecord, DrainRecord, Ending, EndingKey
from springtide.scheduler.wording import count, given, is_short, plural, quoted, utc

MOST = 1000
"""Maximum number of bookings at a time."""

LATE = 120.0
"""Time by which a start may have passed when the request arrives, in seconds; it begins at once then."""

TRIED = 50
"""Maximum number of other starts that are tried for a booking that does not fit."""


def book(transaction: Transaction, request: wire.BookingRequest, by: str) -> wire.NewBooking:
    """Reserve nodes for a maintenance, or GPUs for a project, from a start to an end; or change a booking to that.

    Raises `Refusal`: 404 for an unknown booking, node or project, 409 if quotas would not fit, 422 for a senseless
    booking.
    """
    booking, entry = _book(transaction, request, by)
    found = tuple(notes(transaction, booking))
    follow(transaction)
    return wire.NewBooking(booking=view(transaction.bookings[booking.number]), notes=found, entry=entry)


def _book(transaction: Transaction, request: wire.BookingRequest, by: str) -> tuple[BookingRecord, int]:
    """Make or change a booking; return it and its entry of the audit trail, the last one. Raises `Refusal`."""
    booking, before = proposed(transaction, request, by), replaced(transaction, request)
    if before is not None:
        return _put_in_place(transaction, before, booking, by)
    what, project = "booking.make", booking.project
    number = transaction.add_audit_entry(by, what, subject(booking), {}, shown(booking), project=project)
    booking = replace(booking, number=number)
    transaction.bookings.put(booking)
    return booking, number


def _put_in_place(
    transaction: Transaction, before: BookingRecord, booking: BookingRecord, by: str
) -> tuple[BookingRecord, int]:
    """Put a booking in the place of an earlier one; it goes on if both hold now. Return it and its entry."""
    goes_on = before.begun and booking.start <= transaction.now
    if before.begun:
        _end_drains(transaction, before, by, kept=booking.nodes if goes_on else ())
    booking = replace(booking, begun=goes_on)
    transaction.bookings.put(booking)
    what, project = "booking.change", booking.project or before.project
    values = shown(before), shown(booking)
    return booking, transaction.add_audit_entry(by, what, subject(booking), *values, project=project)


def proposed(transaction: Transaction, request: wire.BookingRequest, by: str) -> BookingRecord:
    """Return the booking that a request would make, without making it. Raises `Refusal` as `book` does."""
    before = replaced(transaction, request)
    booking = _checked(transaction, request, by, before)
    refusal = _exceeding(transaction, booking, before)
    if refusal is not None:
        at = _nearest_start(transaction, booking, before)
        fits = "" if at is None else f" It fits from {utc(at)} on."
        raise replace_message(refusal, refusal.message, f"{refusal.hint}{fits}")
    return booking


def fits_from(transaction: Transaction, request: wire.BookingRequest, by: str) -> float | None:
    """Return the start nearest to that of a request at which its quotas fit for as long.

    None if there is none, or if the request would be refused at any time.
    """
    try:
        before = replaced(transaction, request)
        return _nearest_start(transaction, _checked(transaction, request, by, before), before)
    except Refusal:
        return None


def replaced(transaction: Transaction, request: wire.BookingRequest) -> BookingRecord | None:
    """Return the booking that a request changes, None for a new one. Raises `Refusal` (404) for an unknown one."""
    return None if request.replaces is None else _numbered(transaction, request.replaces, "replaces")


def _numbered(transaction: Transaction, number: int, field: str) -> BookingRecord:
    booking = transaction.bookings.get(number)
    if booking is None:
        numbers = ", ".join(map(str, sorted(transaction.bookings))) or "none"
        message = f"There is no booking {number}: it has ended, or was never made."
        raise Refusal(404, "unknown_booking", message, field=field, hint=f"Bookings: {numbers}.")
    return booking


def cancel(transaction: Transaction, number: int, by: str) -> wire.CancelledBooking:
    """Take a booking back, before its start or in it. Raises `Refusal` (404) if there is none of this number."""
    booking = _numbered(transaction, number, "number")
    _end(transaction, booking, by)
    what, project = "booking.cancel", booking.project
    entry = transaction.add_audit_entry(by, what, subject(booking), shown(booking), {}, project=project)
    return wire.CancelledBooking(entry=entry)


def hindrance(transaction: Transaction, entry: AuditRecord) -> Refusal | None:
    """Return why what an entry of the audit trail did to a booking cannot be taken back, None if it can."""
    if "repeats" in entry.before and "every" not in entry.before:
        message = "The entry is of an earlier version, which kept the repeated times of a booking in words alone."
        return Refusal(409, "not_undoable", message, hint="Book it by hand.")
    if entry.what == "booking.cancel":
        if "every" in entry.before or entry.before["end"] > transaction.now:
            return None
        message = f"Booking {entry.before['number']} would have ended: nothing of it is left to bring back."
        return Refusal(409, "over", message)
    number = _number_of(entry)
    known = transaction.bookings.get(number)
    if known is None:
        message = f"Booking {number} has ended or was cancelled: nothing of it is left to take back."
        return Refusal(409, CHANGED, message)
    if entry.what == "booking.change" and shown(known) != entry.after:
        message = f"Booking {number} was changed since, so this change cannot be taken back."
        return Refusal(409, CHANGED, message, hint="Change it by hand.")
    return None


def _number_of(entry: AuditRecord) -> int:
    """Return the number of a booking by an entry of it; that of its making has the number as its own."""
    return int(entry.after.get("number", entry.id))


def undo(transaction: Transaction, entry: AuditRecord, by: str) -> None:
    """Take back the making, a change or the cancelling of a booking; the entry of that is the last one.

    A booking that was cancelled comes back under a new number. Raises `Refusal` as `book` does if the earlier one
    does not fit any more.
    """
    if entry.what == "booking.make":
        cancel(transaction, _number_of(entry), by)
        return
    request = _request_for(entry.before, transaction.now)
    if entry.what == "booking.change":
        request = structs.replace(request, replaces=_number_of(entry))
    _book(transaction, request, by)


def _request_for(values: Mapping[str, Any], now: float) -> wire.BookingRequest:
    """Return the request for a booking with the values that the audit trail has of it."""
    names = ("why", "nodes", "project", "gpus", "lends", "every")
    found = {name: values[name] for name in names if name in values}
    if "every" not in values:
        found |= {"start": values["start"] if values["start"] > now else None, "end": values["end"]}
    return msgspec.convert(found, wire.BookingRequest)


def follow(transaction: Transaction) -> None:
    """Let bookings begin and end, by the system clock; doing it again changes nothing.

    A clock that is set back before the start of one takes it back until then.
    """
    now = transaction.now
    for booking in list(transaction.bookings.values()):
        span = Span(booking.start, booking.end) if booking.repeats is None else next_span(booking.repeats, now)
        if span != (booking.start, booking.end):
            _come_again(transaction, booking, span)
        elif booking.end <= now:
            _end(transaction, booking, POOL)
            what, project = "booking.end" if booking.begun else "booking.miss", booking.project
            transaction.add_audit_entry(POOL, what, subject(booking), shown(booking), {}, project=project)
        elif booking.begun and booking.start > now:
            transaction.bookings.put(_taken_back(transaction, booking, POOL))
    for booking in list(transaction.bookings.values()):
        if booking.start <= now and not booking.begun:
            _begin(transaction, booking)
        if booking.start <= now and booking.nodes:
            _drain(transaction, booking)


def _come_again(transaction: Transaction, booking: BookingRecord, span: Span) -> None:
    """Let a booking that repeats have its present or next time, which is another one than before."""
    if booking.begun:
        booking = _taken_back(transaction, booking, POOL)
        before, project = shown(booking), booking.project
        transaction.add_audit_entry(POOL, "booking.end", subject(booking), before, {}, project=project)
    transaction.bookings.put(replace(booking, start=span.start, end=span.end))


def _begin(transaction: Transaction, booking: BookingRecord) -> None:
    transaction.bookings.put(replace(booking, begun=True))
    after, project = shown(booking), booking.project
    transaction.add_audit_entry(POOL, "booking.begin", subject(booking), {}, after, project=project)


def _end(transaction: Transaction, booking: BookingRecord, by: str) -> None:
    if booking.begun:
        _taken_back(transaction, booking, by)
    transaction.bookings.remove(booking.number)


def _taken_back(transaction: Transaction, booking: BookingRecord, by: str) -> BookingRecord:
    """Undo what the begin of a booking did, and return the booking as one that has not begun."""
    _end_drains(transaction, booking, by)
    return replace(booking, begun=False)


def _end_drains(
    transaction: Transaction, booking: BookingRecord, by: str, kept: Collection[str] = frozenset()
) -> None:
    """Undrain the nodes that are drained for a booking, except the ``kept`` ones."""
    for drain in list(transaction.drains.values()):
        if drain.booking == booking.number and drain.node not in kept:
            drains.end_drain(transaction, drain, by)


def _drain(transaction: Transaction, booking: BookingRecord) -> None:
    """Drain the nodes of a booking that has begun, as far as they are there."""
    there = {node.name: node for node in transaction.nodes.all}
    for name in booking.nodes:
        if name in there:
            why = booking.why or "maintenance"
            record = DrainRecord(name, booking.by, transaction.now, why, until=booking.end, booking=booking.number)
            drains.drain_for_booking(transaction, there[name], record)


class Ahead(NamedTuple):
    """The time from which on a change holds, and the changes that end after it, by what ends."""

    since: float
    endings: Mapping[EndingKey, Ending]

    def later(self) -> dict[EndingKey, Ending]:
        """Return the changes that have not ended when this one begins to hold."""
        return {key: ending for key, ending in self.endings.items() if ending.until > self.since}


def exceeding_later(
    transaction: Transaction,
    before: Mapping[str, Project],
    after: Mapping[str, Project],
    changed: Sequence[str],
    ahead: Ahead | None = None,
) -> Iterator[Refusal]:
    """Yield a refusal for each booking that a change of quotas would leave without its GPUs.

    The quotas at its start, and when earlier values return during it, are checked as `quotas.exceeding_quotas`
    checks those of now. Without ``ahead`` the change holds from now on, with the ends of changes that there are.
    """
    bookings, types = list(transaction.bookings.values()), transaction.types.train
    known, ahead = transaction.endings, ahead or Ahead(transaction.now, transaction.endings)
    since = ahead.since
    ends, ends_before = ahead.later(), Ahead(since, known).later()
    returns = booked.returns(ends)
    times = [
        (each, at)
        for each in bookings
        for span in (booked.times(each) if each.project else ())
        for at in sorted({max(span.start, since), *returns})
        if span.start <= at < span.end
    ]
    for booking, at in times:
        was = booked.projects_at(before, bookings, ends_before, at, types)
        becomes = booked.projects_at(after, bookings, ends, at, types)
        for refusal in _exceeding_at(transaction, at, was, becomes, changed):
            message = f"With booking {booking.number}: {refusal.message}"
            yield replace_message(refusal, message, refusal.hint)
        lent_before = _lent_beyond(transaction, before, bookings, ends_before, at)
        for name, beyond in _lent_beyond(transaction, after, bookings, ends, at).items():
            if name in changed and beyond.missing > (lent_before[name].missing if name in lent_before else 0):
                message = f"From {utc(at)} on {beyond.said(name)}."
                numbers = [str(each.number) for each in beyond.bookings]
                which = f"{plural(len(numbers), 'booking', 'one of the bookings')} {wording.listed(numbers)}"
                hint = f"Let it keep what it lends, or change or cancel {which} first."
                yield Refusal(409, "sums", message, field="quota", hint=hint)


def beyond_limits(transaction: Transaction) -> Iterator[str]:
    """Yield a sentence about each booking that gives a project a quota beyond its limit at some time to come."""
    projects, types, endings = transaction.policy_projects(), transaction.types.train, transaction.endings
    known = list(transaction.bookings.values())
    for booking in known:
        spans = booked.times(booking) if booking.project in projects else ()
        starts = {span.start for span in spans} | booked.returns(endings)
        for at in sorted(at for at in starts if booked.holds_at(booking, at)):
            then = booked.projects_at(projects, known, endings, at, types)[booking.project]
            if said := _beyond_limit(then, types):
                yield f"With booking {booking.number}, from {utc(at)} on: {said} It holds no more than its limit."
                break


def others(transaction: Transaction, before: BookingRecord | None) -> list[BookingRecord]:
    """Return the bookings except one of them; with None all."""
    return [each for each in transaction.bookings.values() if each != before]


def _exceeding(transaction: Transaction, booking: BookingRecord, before: BookingRecord | None) -> Refusal | None:
    """Return the refusal of quotas that would exceed the GPUs at some time of a booking; None if they fit."""
    if not booking.project:
        return None
    projects, rest, types = transaction.policy_projects(), others(transaction, before), transaction.types.train
    changes = {at for each in (booking, *rest) for span in booked.times(each) for at in span}
    changes |= booked.returns(transaction.endings)
    for at in sorted(at for at in changes if booked.holds_at(booking, at)):
        was, becomes = (
            booked.projects_at(projects, bookings, transaction.endings, at, types)
            for bookings in (rest, [*rest, booking])
        )
        beyond_limit = _beyond_limit(becomes[booking.project], types)
        if beyond_limit:
            message = beyond_limit if at == booking.start else f"From {utc(at)} on: {beyond_limit}"
            hint = "Raise the limit first, or book fewer GPUs."
            return Refusal(409, "sums", message, field="gpus", hint=hint)
        for refusal in _exceeding_at(transaction, at, was, becomes, (booking.project,)):
            hint = _hint_of_sums(transaction, booking)
            return replace_message(refusal, f"From {utc(at)} on: {refusal.message}", hint, "gpus")
        for name, beyond in _lent_beyond(transaction, projects, [*rest, booking], transaction.endings, at).items():
            if name in booking.lends:
                message = f"From {utc(at)} on {beyond.said(name, booking)}."
                hint = "Let it lend fewer, or at another time."
                return Refusal(409, "sums", message, field="lends", hint=hint)
    return None


class LentBeyond(NamedTuple):
    """GPUs of a type that ``bookings`` take from the quota of a project, and the quota, which is smaller."""

    gpu_type: str
    lent: int
    quota: int
    bookings: Sequence[BookingRecord]

    @property
    def missing(self) -> int:
        """How many GPUs more than the quota are lent."""
        return self.lent - self.quota

    def said(self, project: str, asked: BookingRecord | None = None) -> str:
        """Return this as a part of a sentence that names the bookings; ``asked`` is the one of the request."""
        lent = count(self.lent, f"{self.gpu_type} GPU".strip())
        by = [
            "this booking" if each is asked else f"booking {each.number} (for {given(each.project)})"
            for each in self.bookings
        ]
        return f"{given(project)} would lend {lent} of a quota of {self.quota} by {wording.listed(by)}"


def _lent_beyond(
    transaction: Transaction,
    projects: Mapping[str, Project],
    bookings: Collection[BookingRecord],
    endings: Mapping[EndingKey, Ending],
    at: float,
) -> dict[str, LentBeyond]:
    """Return the projects from which bookings take more than their quota at a time, by name."""
    types = transaction.types.train
    own = booked.projects_at(projects, (), endings, at, types)
    holding = [booking for booking in bookings if booked.holds_at(booking, at)]
    found = {}
    for name in {name for booking in holding for name in booking.lends}.intersection(own):
        for gpu_type, gpus in booked.difference(name, holding, types).items():
            quota = quota_of(own[name], gpu_type, types)
            if quota is not None and quota + gpus < 0:
                lending = [each for each in holding if booked.difference(name, [each], types).get(gpu_type, 0) < 0]
                found[name] = LentBeyond(gpu_type, -gpus, quota, lending)
    return found


def _nearest_start(transaction: Transaction, booking: BookingRecord, before: BookingRecord | None) -> float | None:
    """Return the nearest start at which the quotas fit for as long as a booking lasts.

    None if it comes again, or fits at none of the `TRIED` times next to other bookings and ends of changes.
    """
    if booking.repeats is not None:
        return None
    rest = others(transaction, before)
    length, now = booking.end - booking.start, transaction.now
    spans = [span for each in rest for span in booked.times(each)]
    returns = booked.returns(transaction.endings)
    starts = {span.end for span in spans} | returns
    starts |= {at - length for at in {*(span.start for span in spans), *returns}}
    for at in sorted((at for at in starts if at >= now), key=lambda at: abs(at - booking.start))[:TRIED]:
        if _exceeding(transaction, replace(booking, start=at, end=at + length), before) is None:
            return at
    return None


def _hint_of_sums(transaction: Transaction, booking: BookingRecord) -> str:
    """Return what helps if quotas would exceed the GPUs of the pool, or the quota of the project above."""
    parent = transaction.projects[booking.project].project.parent
    if parent is not None and transaction.projects[parent].project.quota is not None:
        lend = "name a project inside it whose quota lends enough"
        return f"Book the GPUs for {quoted(parent)} first, {lend}, or book fewer."
    if booking.lends:
        return "Let them lend more, name others too, book fewer, or at another time."
    return "Name whose quota lends GPUs meanwhile, book fewer, or at another time."


def replace_message(refusal: Refusal, message: str, hint: str, field: str | None = None) -> Refusal:
    """Return a refusal with other words, and of another field if one is given."""
    return Refusal(refusal.status, refusal.code, message, field=field or refusal.field, hint=hint)


def _exceeding_at(
    transaction: Transaction,
    at: float,
    was: Mapping[str, Project],
    becomes: Mapping[str, Project],
    changed: Sequence[str],
) -> Iterator[Refusal]:
    types = transaction.types.train
    nodes = booked.nodes_open_at(transaction.nodes.possible(), transaction.bookings.values(), at)
    return quotas.exceeding_quotas(was, becomes, nodes, types, changed, grows=bool(transaction.nodes.groups))


def _checked(
    transaction: Transaction, request: wire.BookingRequest, by: str, before: BookingRecord | None
) -> BookingRecord:
    """Return the booking of a request, with the number of the one ``before`` that it changes. Raises `Refusal`."""
    now, number = transaction.now, 0 if before is None else before.number
    held_since = None if before is None or not before.begun or before.repeats is not None else before.start
    goes_on = held_since is not None and request.start in {None, held_since}
    start = now if request.start is None else request.start
    why = checked_reason(request.why)
    if bool(request.nodes) == bool(request.project):
        what = "either nodes or a project, not both" if request.nodes else "nodes or a project"
        message = f"A booking names {what}."
        hint = "Name nodes for a maintenance, or a project and a number of GPUs."
        raise Refusal(422, "invalid", message, field="nodes", hint=hint)
    if (request.end is None) == (request.every is None):
        message = f"A booking has {'an end' if request.end is None else 'either an end or times that come again'}."
        hint = "Give a time for the end, or days and times of day."
        raise Refusal(422, "invalid", message, field="end", hint=hint)
    repeats = None if request.every is None else _repeat(request.every)
    if repeats is not None:
        if request.start is not None:
            raise invalid_field("start", "A booking that comes again has days and times of day, and no start.")
        start, end = next_span(repeats, now)
    else:
        end = request.end or now
    if start < now - LATE and repeats is None and not goes_on:
        raise Refusal(422, "invalid", "The start has passed already.", field="start", hint="Give a later start.")
    check_until(end, now, "end")
    if goes_on and held_since is not None:
        start = held_since
    elif repeats is None:
        start = max(start, now)
    if end == start:
        message = f"Its start and its end are both {utc(start)}: that is no time."
        raise Refusal(422, "invalid", message, field="end", hint="Give an end after the start.")
    if end < start:
        ends, starts = (utc(at, precise=is_short(start, end)) for at in (end, start))
        message = f"It would end at {ends}, before its start at {starts}."
        raise Refusal(422, "invalid", message, field="end", hint="Give an end after the start.")
    if before is None and len(transaction.bookings) >= MOST:
        raise Refusal(409, "too_many", f"There are {MOST} bookings already.", hint="Cancel some of them.")
    if request.project is None:
        names = tuple(dict.fromkeys(request.nodes))
        for name in names:
            _check_node(transaction, name)
        if request.gpus or request.lends:
            message = "A maintenance closes whole nodes: it has no number of GPUs, and no project lends for it."
            raise Refusal(422, "invalid", message, field="gpus" if request.gpus else "lends")
        return BookingRecord(number, by, start, end, why, nodes=names, repeats=repeats)
    booking = BookingRecord(number, by, start, end, why, project=request.project, repeats=repeats)
    return _for_project(transaction, request, booking)


def _check_node(transaction: Transaction, name: str) -> None:
    try:
        drains.node_named(transaction, name)
    except Refusal as refusal:
        raise replace_message(refusal, refusal.message, refusal.hint, "nodes") from None


def _repeat(every: wire.Weekly) -> Repeat:
    try:
        return repeat(every.days, every.opens, every.closes, every.zone)
    except NoRepeatError as error:
        raise invalid_field(f"every.{error.part}", f"{error}.") from None


def _for_project(transaction: Transaction, request: wire.BookingRequest, booking: BookingRecord) -> BookingRecord:
    """Return the booking with its GPUs. Raises `Refusal`."""
    types, projects = transaction.types, transaction.policy_projects()
    project = _project(projects, booking.project, "project")
    gpus = quotas.checked(request.gpus, "gpus", types, Environment.TRAIN)
    if not total(gpus):
        raise invalid_field("gpus", "A booking for a project has at least one GPU.")
    if project.quota is None:
        message = f"The quota of {given(project.name)} is unlimited: there is nothing to book beyond it."
        raise Refusal(409, "unlimited", message, field="project")
    lends: dict[str, Amount] = {}
    for name, amount in request.lends.items():
        lender = _project(projects, name, "lends")
        lends[name] = quotas.checked(amount, "lends", types, Environment.TRAIN)
        if name == project.name:
            raise invalid_field("lends", f"{given(name)} cannot lend to itself.")
        for gpu_type in types.train or ("",):
            has = quota_of(lender, gpu_type, types.train)
            lent = quota_of(replace(lender, quota=lends[name]), gpu_type, types.train) or 0
            if has is not None and lent > has:
                message = f"{given(name)} cannot lend {count(lent, 'GPU')}: its quota is {has}."
                raise Refusal(409, "sums", message, field="lends", hint="Let it lend fewer.")
    lends = {name: _by_type(amount, types.train) for name, amount in lends.items()}
    return replace(booking, gpus=_by_type(gpus, types.train), lends=lends)


def _by_type(amount: Amount, types: tuple[str, ...]) -> Amount:
    """Return an amount as a table, which stays the same when further types join the pool."""
    named = isinstance(amount, int) and len(types) == 1 and types[0]
    return {types[0]: amount} if named and isinstance(amount, int) else amount


def _beyond_limit(project: Project, types: Sequence[str]) -> str:
    """Return the sentence about a quota with bookings that exceeds the limit; empty if none does."""
    for gpu_type in types or ("",):
        quota, limit = quota_of(project, gpu_type, types), limit_of(project, gpu_type, types)
        if quota is not None and limit is not None and quota > limit:
            of_type = f" of {gpu_type} GPUs" if len(types) > 1 else ""
            return f"The quota{of_type} of {given(project.name)} would be {quota}, and its limit is {limit}."
    return ""


def _project(projects: Mapping[str, Project], name: str, field: str) -> Project:
    if name not in projects:
        raise unknown_project(name, field)
    return projects[name]


def named(job: JobRecord) -> str:
    """Return a job by its name, which others may have, and its id."""
    return f"{quoted(job.spec.name)} ({job.id})" if job.spec.name else job.id


def notes(transaction: Transaction, booking: BookingRecord) -> Iterator[str]:
    """Yield what the admin should know of a booking: whose work is lost, and whose quotas cannot be kept."""
    unsaved = [
        job
        for job in running_there(transaction, booking)
        if job.standing.saved is None and booked.may_run_at(job, booking.start, transaction.now)
    ]
    if unsaved:
        names = wording.listed([named(job) for job in unsaved[:3]])
        more = f" and {len(unsaved) - 3} more" if len(unsaved) > 3 else ""
        yield (
            f"{names}{more} {wording.plural(len(unsaved), 'runs there now and has', 'run there now and have')}"
            " saved no checkpoint so far: unsaved work at the start is lost."
        )
    if _never_pauses(booking):
        effect = "it never opens" if len(booking.nodes) == 1 else "they never open"
        yield (
            "Each time begins when the one before ends"
            f"{f': {effect}' if booking.nodes else ''}, until the booking is cancelled."
        )
    yield from _lent_in_vain(booking, transaction.types.train)
    if booking.nodes:
        for other in transaction.bookings.values():
            if other.number != booking.number and booked.overlap(booking, other):
                both = [name for name in booking.nodes if name in other.nodes]
                yield f"Booking {other.number} closes {wording.listed(both)} at a part of this time, too."
        types = transaction.types.train
        projects = booked.projects_at(
            transaction.policy_projects(), transaction.bookings.values(), transaction.endings, booking.start, types
        )
        nodes = [node for node in transaction.nodes.possible() if node.name not in booking.nodes]
        for gpu_type in types or ("",):
            yield from _short(projects, nodes, gpu_type, types)


def _lent_in_vain(booking: BookingRecord, types: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each type of which projects lend more than is booked."""
    booked_gpus = booked.difference(booking.project, [booking], types)
    lent = Counter[str]()
    for name in booking.lends:
        lent.update({kind: -gpus for kind, gpus in booked.difference(name, [booking], types).items()})
    for gpu_type, gpus in lent.items():
        over = gpus - booked_gpus.get(gpu_type, 0)
        if over > 0:
            kind = f"{gpu_type} GPU" if len(types) > 1 else "GPU"
            lends = (
                f"{wording.count(gpus, kind)} {wording.plural(gpus, 'is', 'are')} lent and {gpus - over} booked"
            )
            yield f"{lends}: {over} {wording.plural(over, 'is', 'are')} in no project's quota meanwhile."


def _never_pauses(booking: BookingRecord) -> bool:
    """Return whether a booking that repeats holds without a break."""
    return booking.repeats is not None and all(a.end >= b.start for a, b in pairwise(booked.times(booking)))


def _short(
    projects: Mapping[str, Project], nodes: Collection[Node], gpu_type: str, types: tuple[str, ...]
) -> Iterator[str]:
    left = quotas.total_gpus(tuple(nodes), gpu_type if types else None)
    needed = quotas.quota_sum(projects, left, gpu_type, types)
    if needed > left:
        kind = f"{gpu_type} GPU" if len(types) > 1 else "GPU"
        yield (
            f"The quotas add up to {wording.count(needed, kind)}, and {left} are left meanwhile: not every project"
            " gets its quota then."
        )


def running_there(transaction: Transaction, booking: BookingRecord) -> Iterator[JobRecord]:
    """Yield the jobs that run on the nodes of a booking."""
    for job in transaction.state.live_jobs():
        if any(worker.node in booking.nodes for worker in job.attempts[-1].placement):
            yield job


def subject(booking: BookingRecord) -> str:
    """Return what a booking is for, in a few words."""
    if booking.project:
        return booking.project
    return ", ".join(booking.nodes)[:200]


def shown(booking: BookingRecord) -> dict[str, object]:
    """Return a booking as the audit trail has it."""
    what: dict[str, object] = {"start": booking.start, "end": booking.end}
    if booking.number:
        what["number"] = booking.number
    if booking.repeats is not None:
        what |= {"repeats": in_words(booking.repeats), "every": structs.asdict(_weekly(booking.repeats))}
    if booking.project:
        what |= {"project": booking.project, "gpus": booking.gpus}
    else:
        what["nodes"] = list(booking.nodes)
    more = {"lends": dict(booking.lends), "why": booking.why}
    return {**what, **{name: value for name, value in more.items() if value}}


def view(booking: BookingRecord) -> wire.BookingView:
    """Return a booking as the API shows it."""
    return wire.BookingView(
        number=booking.number,
        by=booking.by,
        start=booking.start,
        end=booking.end,
        why=booking.why,
        nodes=booking.nodes,
        project=booking.project,
        gpus=booking.gpus,
        lends=booking.lends,
        begun=booking.begun,
        times=booked.times(booking),
        repeats="" if booking.repeats is None else in_words(booking.repeats),
        every=None if booking.repeats is None else _weekly(booking.repeats),
    )


def _weekly(repeats: Repeat) -> wire.Weekly:
    days = ",".join(DAYS[day] for day in repeats.days)
    return wire.Weekly(days=days, opens=repeats.opens, closes=repeats.closes, zone=repeats.zone)
