"""What bookings make of nodes and quotas, now and later; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from springtide.scheduler.engine import messages
from springtide.scheduler.engine.state import lifecycle
from springtide.scheduler.gpu_types import as_table
from springtide.scheduler.model import Amount, AmountsAtTime, Node, Project, Reason, Span
from springtide.scheduler.repeats import spans
from springtide.scheduler.store.records import JobRecord
from springtide.scheduler.store.tables import BookingRecord, Ending, EndingKey, EndingKind

AHEAD = 14 * 86_400.0
"""Time for which bookings that repeat are looked ahead, in seconds."""

UNKNOWN = 86_400.0
"""Time for which a job without a time limit may run on at least, in seconds."""

RETURNING = frozenset({EndingKind.QUOTA, EndingKind.LIMIT, EndingKind.PARENT})
"""The kinds of changes whose ends decide whether bookings fit."""

FOR_EVER = 1e12
"""A time that never comes, in seconds since the epoch."""


def times(booking: BookingRecord) -> tuple[Span, ...]:
    """Return the times of a booking from its present or next one on; of one that repeats those of `AHEAD`."""
    if booking.repeats is None:
        return (Span(booking.start, booking.end),)
    later = spans(booking.repeats, booking.start)
    return tuple(takewhile(lambda span: span.start < booking.start + AHEAD, later))


def holds_at(booking: BookingRecord, at: float) -> bool:
    """Return whether a booking holds at a time from its present or next one on."""
    return any(span.start <= at < span.end for span in times(booking))


def overlap(one: BookingRecord, other: BookingRecord) -> bool:
    """Return whether two bookings close the same node at the same time."""
    return not set(one.nodes).isdisjoint(other.nodes) and any(
        a.start < b.end and b.start < a.end for a in times(one) for b in times(other)
    )


def closed_times(bookings: Iterable[BookingRecord]) -> dict[str, tuple[Span, ...]]:
    """Return the times in which nodes are booked for maintenance, by the name of the node."""
    found: dict[str, list[Span]] = {}
    for booking in bookings:
        for node in booking.nodes:
            found.setdefault(node, []).extend(times(booking))
    return {node: tuple(sorted(spans)) for node, spans in found.items()}


def changed_quotas(booking: BookingRecord) -> dict[str, tuple[int, Amount]]:
    """Return by which amount, and with which sign, a booking changes the quotas of projects."""
    changes: dict[str, tuple[int, Amount]] = {name: (-1, amount) for name, amount in booking.lends.items()}
    return {booking.project: (1, booking.gpus), **changes} if booking.project else changes


def difference(project: str, bookings: Iterable[BookingRecord], types: Sequence[str]) -> dict[str, int]:
    """Return by how many GPUs bookings change the quota of a project, by type; that of the only one may be empty.

    ``types`` are those of the train pool. Types without a difference are left out.
    """
    names, found = tuple(types) or ("",), Counter[str]()
    for booking in bookings:
        direction, amount = changed_quotas(booking).get(project, (0, None))
        if amount:
            for name, gpus in as_table(amount, names).items():
                found[name] += direction * (gpus or 0)
    return {name: gpus for name, gpus in found.items() if gpus}


def with_bookings(project: Project, bookings: Iterable[BookingRecord], types: Sequence[str]) -> Project:
    """Return a project with the quota that it has while these bookings hold; an unlimited one stays so.

    No quota is below 0, whatever is lent of it.
    """
    more = difference(project.name, bookings, types)
    if project.quota is None or not more:
        return project
    if isinstance(project.quota, int) and len(types) < 2:
        return replace(project, quota=max(0, project.quota + sum(more.values())))
    mine = as_table(project.quota, tuple(types))
    quota = {name: None if own is None else max(0, own + more.get(name, 0)) for name, own in mine.items()}
    return replace(project, quota=quota)


def present(project: Project, bookings: Iterable[BookingRecord], types: Sequence[str]) -> Project:
    """Return a project with the quota that it has by the bookings that have begun."""
    return with_bookings(project, (each for each in bookings if each.begun), types)


def projects_at(
    projects: Mapping[str, Project],
    bookings: Iterable[BookingRecord],
    endings: Mapping[EndingKey, Ending],
    at: float,
    types: Sequence[str],
) -> dict[str, Project]:
    """Return the projects with their places, quotas and limits at a time, by bookings and by changes that end."""
    later = dict(projects)
    for (kind, name), ending in endings.items():
        if kind in RETURNING and ending.until <= at and name in later:
            fields: dict[str, Any] = {kind.value: ending.before}
            later[name] = replace(later[name], **fields)
    holding = [booking for booking in bookings if holds_at(booking, at)]
    return {name: with_bookings(project, holding, types) for name, project in later.items()}


def returns(endings: Mapping[EndingKey, Ending]) -> set[float]:
    """Return the times at which quotas, limits and places of projects return to what they were."""
    return {ending.until for ending in endings.values() if ending.kind in RETURNING}


def in_time(
    projects: Mapping[str, Project], bookings: Collection[BookingRecord], types: Sequence[str]
) -> tuple[Project, ...]:
    """Return the projects with the times at which bookings change their quotas."""
    concerned = {name for booking in bookings for name in changed_quotas(booking)}
    if not concerned:
        return tuple(projects.values())
    booked = (span for booking in bookings if booking.project for span in times(booking))
    changes = sorted({at for span in booked for at in span})
    at_times: dict[str, list[AmountsAtTime]] = {}
    for span in (Span(*pair) for pair in zip(changes, [*changes[1:], FOR_EVER], strict=True)):
        then = projects_at(projects, bookings, {}, span.start, types)
        for name in concerned & then.keys():
            at_times.setdefault(name, []).append(AmountsAtTime(span, then[name].quota, then[name].limit))
    return tuple(
        replace(project, at_times=tuple(at_times[name])) if name in at_times else project
        for name, project in projects.items()
    )


def nodes_open_at(nodes: Iterable[Node], bookings: Iterable[BookingRecord], at: float) -> tuple[Node, ...]:
    """Return the nodes that no maintenance closes at a time."""
    closed = {name for booking in bookings if holds_at(booking, at) for name in booking.nodes}
    return tuple(node for node in nodes if node.name not in closed)


def may_run_at(job: JobRecord, at: float, now: float) -> bool:
    """Return whether a job that runs now may still run at a later time, in seconds since the epoch.

    Its time limit decides. Without one it may run for as long as jobs like it usually do, as long again as its
    attempt has run, and for `UNKNOWN` at least.
    """
    end = lifecycle.deadline(job)
    if end is not None:
        return at < end
    live, usual = job.live, job.standing.usual_runtime
    started = now if live is None or live.started is None else live.started
    usual_end = 0.0 if usual is None else started + usual - job.standing.ran
    return at < max(now + UNKNOWN, now + (now - started), usual_end)


def closes_under(job: JobRecord, bookings: Iterable[BookingRecord], now: float) -> Reason | None:
    """Return which maintenance a job that runs will be paused for; None if it has probably ended by then.

    Of several the first one counts.
    """
    if job.live is None or not job.live.placement:
        return None
    nodes = {worker.node for worker in job.live.placement}
    coming = [
        (span.start, booking, span.end)
        for booking in bookings
        if not nodes.isdisjoint(booking.nodes)
        for span in times(booking)
        if span.start > now
    ]
    if not coming:
        return None
    start, booking, until = min(coming, key=lambda each: each[0])
    if not may_run_at(job, start, now):
        return None
    names = tuple(sorted(nodes.intersection(booking.nodes)))
    return messages.closes(names, replace(booking, start=start, end=until))


def with_booking(why: Reason, bookings: Iterable[BookingRecord]) -> Reason:
    """Return why a job waits, with the times and the reason of the maintenance for which it does not start."""
    if why.code != "node-closes-first":
        return why
    first, start = why.params["first"], why.params["start"]
    found = next((each for each in bookings if first in each.nodes and each.start == start), None)
    return why if found is None else replace(why, params={**why.params, **messages.booked(found)})
