"""What a booking would do to quotas, to what projects can borrow, and to jobs; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil

from msgspec import structs

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.requests import bookings, quotas
from springtide.scheduler.engine.state import booked
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_types import amount_of, amount_words, as_table, quota_of
from springtide.scheduler.model import Amount, Job, Project, Snapshot
from springtide.scheduler.store.tables import BookingRecord
from springtide.scheduler.wording import quoted

BOOKED = "(booked)"
"""Prefix of the ids of the jobs that represent the use of a booking. Ids of real jobs contain no parentheses."""
MOST_JOBS = 200
"""Maximum number of these jobs for each GPU type."""


def in_use(
    snapshot: Snapshot, booking: BookingRecord, others: Collection[BookingRecord], types: tuple[str, ...]
) -> Snapshot:
    """Return the pool as if a booking for a project held now and the project asked for all of its quota.

    The ``others`` that have begun do not end, none else begins, and no job is protected by its minimum run time,
    which is over when a booking begins.
    """
    holding = [*(each for each in others if each.begun), booking]
    projects = {
        each.name: booked.with_bookings(replace(each, at_times=()), holding, types) for each in snapshot.projects
    }
    project = projects[booking.project]
    jobs: list[Job] = []
    limit: dict[str, int | None] = {}
    for gpu_type in types or ("",):
        held = _held(snapshot, projects, booking.project, gpu_type if types else None)
        quota = quota_of(project, gpu_type, types) or 0
        limit[gpu_type] = max(quota, held)
        jobs += _jobs_for(booking, quota - held, gpu_type, snapshot.now)
    most: Amount = limit if len(limit) > 1 else next(iter(limit.values()))
    projects[booking.project] = replace(project, limit=most)
    return replace(
        snapshot,
        projects=tuple(projects.values()),
        jobs=(*snapshot.jobs, *jobs),
        nodes=tuple(structs.replace(node, closed=()) for node in snapshot.nodes),
        settings=replace(snapshot.settings, min_runtime=0.0),
    )


def _held(snapshot: Snapshot, projects: Mapping[str, Project], name: str, gpu_type: str | None) -> int:
    """Return how many GPUs of a type a project holds with those inside it; None for all types."""
    nodes = {node.name for node in snapshot.nodes if gpu_type in {None, node.gpu_type}}
    return sum(
        len(worker.gpus)
        for job in snapshot.jobs
        if _is_inside(projects, job.project, name)
        for worker in job.placement
        if worker.node in nodes
    )


def _is_inside(projects: Mapping[str, Project], name: str | None, other: str) -> bool:
    while name is not None and name != other:
        name = projects[name].parent if name in projects else None
    return name == other


def _jobs_for(booking: BookingRecord, gpus: int, gpu_type: str, now: float) -> Iterator[Job]:
    """Yield jobs that ask for this many GPUs of a type, each for as few as possible."""
    each = max(1, ceil(gpus / MOST_JOBS))
    for number in range(ceil(max(0, gpus) / each)):
        workers = min(each, gpus - number * each)
        yield Job(
            id=f"{BOOKED} {gpu_type} {number}",
            project=booking.project,
            user=booking.by,
            workers=workers,
            min_workers=workers,
            submitted=now,
            gpu_types=(gpu_type,) if gpu_type else (),
        )


def said_of(
    transaction: Transaction,
    booking: BookingRecord,
    before: BookingRecord | None,
    displaced: Sequence[wire.Shift],
) -> Iterator[str]:
    """Yield the effects of a booking in sentences: quotas, the GPUs left to borrow, jobs, and the notes."""
    if booking.project:
        yield from _of_quotas(transaction, booking, before)
        holds = before is not None and before.begun and booking.start <= transaction.now
        yield _of_displaced(booking, displaced, holds=holds)
    else:
        yield from _of_nodes(transaction, booking)
    yield from bookings.notes(transaction, booking)


def _of_quotas(transaction: Transaction, booking: BookingRecord, before: BookingRecord | None) -> Iterator[str]:
    types, at = transaction.types.train, booking.start
    projects, others = transaction.policy_projects(), bookings.others(transaction, before)
    was, becomes = (
        booked.projects_at(projects, made, transaction.endings, at, types) for made in (others, [*others, booking])
    )
    for name in booked.changed_quotas(booking):
        old, new = _differing(was[name].quota, becomes[name].quota, types)
        yield f"Meanwhile the quota of {quoted(name)} is {new} instead of {old}."
    nodes = booked.nodes_open_at(transaction.nodes.possible(), [*others, booking], at)
    for gpu_type in types or ("",):
        gpus = quotas.total_gpus(nodes, gpu_type if types else None)
        free = [max(0, gpus - quotas.quota_sum(projects, gpus, gpu_type, types)) for projects in (was, becomes)]
        if free[1] < free[0]:
            kind = f"{gpu_type} GPU" if len(types) > 1 else "GPU"
            left = f"{wording.count(free[1], kind)} {wording.plural(free[1], 'is', 'are')} beyond all quotas then"
            fewer = (
                f"other projects can borrow {free[0] - free[1]} fewer while {quoted(booking.project)} uses them"
            )
            yield f"{left}, instead of {free[0]}: {fewer}."


def _differing(old: Amount, new: Amount, types: tuple[str, ...]) -> tuple[str, str]:
    """Return two amounts in words, on a pool of several types of those in which they differ."""
    if len(types) < 2:
        first, second = (amount_of(each, types[0], types) if types else each for each in (old, new))
        return amount_words(first), amount_words(second)
    tables = [as_table(amount, types) for amount in (old, new)]
    changed = [name for name in types if tables[0][name] != tables[1][name]]
    first, second = ({name: table[name] for name in changed} for table in tables)
    return amount_words(first), amount_words(second)


def _of_displaced(booking: BookingRecord, displaced: Sequence[wire.Shift], *, holds: bool) -> str:
    """Return what would happen to jobs; ``holds`` says that the booking that is changed has begun and goes on."""
    begins = f"If {'' if holds else 'it began now and '}{quoted(booking.project)} used all of its quota"
    if holds:
        begins += " now"
    if not displaced:
        return f"{begins}, no job would be paused for it."
    parts = []
    for kind, verb in (("paused", "paused until other GPUs are free"), ("moved", "moved to other GPUs")):
        jobs = [_job_words(shift) for shift in displaced if shift.kind == kind]
        if jobs:
            parts.append(f"{wording.listed(jobs)} would be {verb}")
    return f"{begins}, {', and '.join(parts)}."


def _job_words(shift: wire.Shift) -> str:
    """Return a job with its owner and its GPUs: ``“bert” of susan in nlp (2 GPUs)``."""
    whose = shift.user if shift.user == shift.project else f"{shift.user} in {shift.project}"
    return f"{quoted(shift.name or shift.job) if shift.job else 'a job'} of {whose} ({wording.gpus(shift.gpus)})"


def _of_nodes(transaction: Transaction, booking: BookingRecord) -> Iterator[str]:
    nodes = [node for node in transaction.nodes.all if node.name in booking.nodes]
    counts = Counter(node.gpu_type for node in nodes for _ in range(node.gpus))
    gpus = wording.listed([wording.count(number, f"{kind} GPU".strip()) for kind, number in counts.items()])
    closes = wording.plural(len(booking.nodes), "closes", "close")
    yield f"{wording.listed(booking.nodes)} {closes}: {gpus or 'no GPU'}."
    there = list(bookings.running_there(transaction, booking))
    names = wording.listed([bookings.named(job) for job in there])
    runs = f"{names} {wording.plural(len(there), 'runs', 'run')} there now." if there else "No job runs there now."
    yield f"{runs} What still runs there at the start is paused, and goes on elsewhere or afterwards."
