"""Bookings: nodes set apart for a maintenance, GPUs for a project, from a start to an end (docs/bookings.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.requests import drains, quotas
from springtide.scheduler.engine.state import booked
from springtide.scheduler.engine.state.endings import check_until
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_types import quota_of, total
from springtide.scheduler.model import Amount, Environment, Node, Project, Span
from springtide.scheduler.refusal import Refusal, checked_reason, invalid_field, unknown_project
from springtide.scheduler.repeats import NoRepeatError, Repeat, in_words, next_span, repeat
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import POOL, BookingRecord, DrainRecord, EndingKind
from springtide.scheduler.wording import count, given, quoted, utc

MOST = 1000
"""Maximum number of bookings at a time."""

LATE = 120.0
"""Time by which a start may have passed when the request arrives, in seconds; it begins at once then."""


def book(transaction: Transaction, request: wire.BookingRequest, by: str) -> wire.NewBooking:
    """Set nodes apart for nobody, or GPUs for a project, from a start to an end.

    Raises `Refusal`: 404 for an unknown node or project, 409 if quotas would not fit, 422 for a senseless booking.
    """
    booking = _checked(transaction, request, by)
    if booking.project:
        _check_quotas(transaction, booking)
    project = booking.project
    number = transaction.add_audit_entry(by, "booking.make", subject(booking), {}, shown(booking), project=project)
    booking = replace(booking, number=number)
    transaction.bookings.put(booking)
    notes = tuple(_notes(transaction, booking))
    follow(transaction)
    return wire.NewBooking(booking=view(transaction.bookings[number]), notes=notes)


def cancel(transaction: Transaction, number: int, by: str) -> None:
    """Take a booking back, before its start or in it. Raises `Refusal` (404) if there is none of this number."""
    booking = transaction.bookings.get(number)
    if booking is None:
        numbers = ", ".join(map(str, sorted(transaction.bookings))) or "none"
        message = f"There is no booking {number}: it has ended, or was never made."
        raise Refusal(404, "unknown_booking", message, field="number", hint=f"Bookings: {numbers}.")
    _end(transaction, booking, by)
    what, project = "booking.cancel", booking.project
    transaction.add_audit_entry(by, what, subject(booking), shown(booking), {}, project=project)


def undo_make(transaction: Transaction, number: int, by: str) -> None:
    """Take a booking back that an entry of the audit trail has made. Raises `Refusal` (409) if it is over."""
    if number not in transaction.bookings:
        message = f"Booking {number} has ended or was cancelled: nothing of it is left to take back."
        raise Refusal(409, "changed", message)
    cancel(transaction, number, by)


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
            before, project = shown(booking), booking.project
            transaction.add_audit_entry(POOL, "booking.end", subject(booking), before, {}, project=project)
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
    _shift(transaction, booking, 1)
    after, project = shown(booking), booking.project
    transaction.add_audit_entry(POOL, "booking.begin", subject(booking), {}, after, project=project)


def _end(transaction: Transaction, booking: BookingRecord, by: str) -> None:
    if booking.begun:
        _taken_back(transaction, booking, by)
    transaction.bookings.remove(booking.number)


def _taken_back(transaction: Transaction, booking: BookingRecord, by: str) -> BookingRecord:
    """Undo what the begin of a booking did, and return the booking as one that has not begun."""
    _shift(transaction, booking, -1)
    for drain in list(transaction.drains.values()):
        if drain.booking == booking.number:
            drains.end_drain(transaction, drain, by)
    return replace(booking, begun=False)


def _drain(transaction: Transaction, booking: BookingRecord) -> None:
    """Drain the nodes of a booking that has begun, as far as they are there and not drained anyway."""
    there = {node.name: node for node in transaction.nodes.all}
    for name in booking.nodes:
        if name in there and name not in transaction.drains:
            why = booking.why or "maintenance"
            record = DrainRecord(name, booking.by, transaction.now, why, until=booking.end, booking=booking.number)
            drains.drain_for_booking(transaction, there[name], record)


def _shift(transaction: Transaction, booking: BookingRecord, sign: int) -> None:
    """Change the quotas of a booking's projects, and what they return to after changes that end."""
    types = transaction.types.train
    projects = transaction.policy_projects()
    changed = booked.with_quotas(projects, booking, sign, types)
    for name, (direction, amount) in booked.changed_quotas(booking).items():
        record = transaction.projects.get(name)
        if record is None:
            continue
        transaction.projects.put(replace(record, project=changed[name], version=record.version + 1))
        key = (EndingKind.QUOTA, name)
        ending = transaction.endings.get(key)
        if ending is not None:
            before = booked.shifted(ending.before, amount, sign * direction, types)
            transaction.endings.put(replace(ending, before=before))


def exceeding_later(
    transaction: Transaction,
    before: Mapping[str, Project],
    after: Mapping[str, Project],
    changed: Sequence[str],
) -> Iterator[Refusal]:
    """Yield a refusal for each booking to come that a change of quotas would leave without its GPUs.

    The quotas at its start are checked as `quotas.exceeding_quotas` checks those of now.
    """
    bookings, types = list(transaction.bookings.values()), transaction.types.train

    def then(projects: Mapping[str, Project], at: float) -> dict[str, Project]:
        return booked.projects_at(projects, bookings, transaction.endings, at, types)

    starts = [(each, span.start) for each in bookings for span in booked.times(each)]
    for booking, at in starts:
        if booking.project and at > transaction.now:
            for refusal in _exceeding_at(transaction, at, then(before, at), then(after, at), changed):
                message = f"With booking {booking.number}: {refusal.message}"
                yield replace_message(refusal, message, refusal.hint)


def _check_quotas(transaction: Transaction, booking: BookingRecord) -> None:
    """Raise `Refusal` if quotas would exceed the GPUs at some time of a booking."""
    others = list(transaction.bookings.values())
    changes = {at for each in (booking, *others) for span in booked.times(each) for at in span}
    projects = transaction.policy_projects()
    for at in sorted(at for at in changes if booked.holds_at(booking, at)):
        was, becomes = (
            booked.projects_at(projects, bookings, transaction.endings, at, transaction.types.train)
            for bookings in (others, [*others, booking])
        )
        for refusal in _exceeding_at(transaction, at, was, becomes, (booking.project,)):
            hint = _hint_of_sums(transaction, booking)
            raise replace_message(refusal, f"From {utc(at)} on: {refusal.message}", hint)


def _hint_of_sums(transaction: Transaction, booking: BookingRecord) -> str:
    """Return what helps if quotas would exceed the GPUs of the pool, or the quota of the project above."""
    parent = transaction.projects[booking.project].project.parent
    if parent is not None and transaction.projects[parent].project.quota is not None:
        lend = "name a project inside it whose quota lends enough"
        return f"Book the GPUs for {quoted(parent)} first, {lend}, or book fewer."
    if booking.lends:
        return "Let them lend more, name others too, book fewer, or at another time."
    return "Name whose quota lends GPUs meanwhile, book fewer, or at another time."


def replace_message(refusal: Refusal, message: str, hint: str) -> Refusal:
    """Return a refusal with other words."""
    return Refusal(refusal.status, refusal.code, message, field=refusal.field, hint=hint)


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


def _checked(transaction: Transaction, request: wire.BookingRequest, by: str) -> BookingRecord:
    """Return the booking of a request, without a number. Raises `Refusal`."""
    now = transaction.now
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
    if start < now - LATE and repeats is None:
        raise Refusal(422, "invalid", "The start has passed already.", field="start", hint="Give a later start.")
    check_until(end, now)
    start = start if repeats is not None else max(start, now)
    if end == start:
        message = f"Its start and its end are both {utc(start)}: that is no time."
        raise Refusal(422, "invalid", message, field="end", hint="Give an end after the start.")
    if end < start:
        message = f"It would end at {utc(end)}, before its start at {utc(start)}."
        raise Refusal(422, "invalid", message, field="end", hint="Give an end after the start.")
    if len(transaction.bookings) >= MOST:
        raise Refusal(409, "too_many", f"There are {MOST} bookings already.", hint="Cancel some of them.")
    if request.project is None:
        names = tuple(dict.fromkeys(request.nodes))
        for name in names:
            drains.node_named(transaction, name)
        if request.gpus or request.lends:
            message = "A maintenance closes whole nodes: it has no number of GPUs, and nobody lends for it."
            raise Refusal(422, "invalid", message, field="gpus" if request.gpus else "lends")
        return BookingRecord(0, by, start, end, why, nodes=names, repeats=repeats)
    booking = BookingRecord(0, by, start, end, why, project=request.project, repeats=repeats)
    return _for_project(transaction, request, booking)


def _repeat(every: wire.Weekly) -> Repeat:
    try:
        return repeat(every.days, every.opens, every.closes, every.zone)
    except NoRepeatError as error:
        raise invalid_field(f"every.{error.part}", f"{error}.") from None


def _for_project(transaction: Transaction, request: wire.BookingRequest, booking: BookingRecord) -> BookingRecord:
    types = transaction.types
    project = _project(transaction, booking.project, "project")
    gpus = quotas.checked(request.gpus, "gpus", types, Environment.TRAIN)
    if not total(gpus):
        raise invalid_field("gpus", "A booking for a project has at least one GPU.")
    if project.quota is None:
        message = f"The quota of {given(project.name)} is unlimited: there is nothing to book beyond it."
        raise Refusal(409, "unlimited", message, field="project")
    lends: dict[str, Amount] = {}
    for name, amount in request.lends.items():
        lender = _project(transaction, name, "lends")
        lends[name] = quotas.checked(amount, "lends", types, Environment.TRAIN)
        if name == project.name:
            raise invalid_field("lends", f"{given(name)} cannot lend to itself.")
        for gpu_type in types.train or ("",):
            has = quota_of(lender, gpu_type, types.train)
            lent = quota_of(replace(lender, quota=lends[name]), gpu_type, types.train) or 0
            if has is not None and lent > has:
                message = f"{given(name)} cannot lend {count(lent, 'GPU')}: its quota is {has}."
                raise Refusal(409, "sums", message, field="lends", hint="Let it lend fewer.")
    for gpu_type in types.train or ("",):
        raised = replace(project, quota=booked.shifted(project.quota, gpus, 1, types.train))
        quota, limit = quota_of(raised, gpu_type, types.train), _limit(project, gpu_type, types.train)
        if quota is not None and quota > limit:
            message = f"The quota of {given(project.name)} would be {quota}, and its limit is {limit:g}."
            raise Refusal(409, "sums", message, field="gpus", hint="Raise the limit first, or book fewer GPUs.")
    lends = {name: _by_type(amount, types.train) for name, amount in lends.items()}
    return replace(booking, gpus=_by_type(gpus, types.train), lends=lends)


def _by_type(amount: Amount, types: tuple[str, ...]) -> Amount:
    """Return an amount as a table, which stays the same when further types join the pool."""
    named = isinstance(amount, int) and len(types) == 1 and types[0]
    return {types[0]: amount} if named and isinstance(amount, int) else amount


def _limit(project: Project, gpu_type: str, types: Collection[str]) -> float:
    limit = quota_of(replace(project, quota=project.limit), gpu_type, tuple(types)) if project.limit else None
    if isinstance(project.limit, Mapping) and gpu_type not in project.limit:
        return inf
    return inf if limit is None else limit


def _project(transaction: Transaction, name: str, field: str) -> Project:
    record = transaction.projects.get(name)
    if record is None:
        raise unknown_project(name, field)
    return record.project


def _named(job: JobRecord) -> str:
    """Return a job by its name, which others may have, and its id."""
    return f"{quoted(job.spec.name)} ({job.id})" if job.spec.name else job.id


def _notes(transaction: Transaction, booking: BookingRecord) -> Iterator[str]:
    """Yield what the admin should know of a booking: whose work is lost, and whose quotas cannot be kept."""
    left = booking.start - transaction.now
    unsaved = [
        job
        for job in _there(transaction, booking)
        if job.standing.saved is None
        and (job.spec.options.time_limit is None or job.spec.options.time_limit > left)
    ]
    if unsaved:
        names = wording.listed([_named(job) for job in unsaved[:3]])
        more = f" and {len(unsaved) - 3} more" if len(unsaved) > 3 else ""
        yield (
            f"{names}{more} {wording.plural(len(unsaved), 'runs there now and has', 'run there now and have')}"
            " saved no checkpoint so far: unsaved work at the start is lost."
        )
    if _never_pauses(booking):
        effect = "it never opens" if len(booking.nodes) == 1 else "they never open"
        yield (
            "Each time begins when the one before ends"
            f"{f': {effect}' if booking.nodes else ''}, until booking {booking.number} is cancelled."
        )
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


def _there(transaction: Transaction, booking: BookingRecord) -> Iterator[JobRecord]:
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
        what["repeats"] = in_words(booking.repeats)
    if booking.project:
        what |= {"project": booking.project, "gpus": booking.gpus}
    else:
        what["nodes"] = list(booking.nodes)
    return {**what, **({"lends": dict(booking.lends)} if booking.lends else {}), "why": booking.why}


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
    )
