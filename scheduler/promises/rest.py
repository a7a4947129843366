"""Checks of a pool at rest: no more decisions are due at this instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from springtide.scheduler.model import WITHIN_NODES, Job, Node, Phase
from springtide.scheduler.promises.books import Books, GpuSlot, Kind, gpu_slots
from springtide.scheduler.promises.breach import Breach, Promise
from springtide.scheduler.resources.per_gpu import UNSPECIFIED
from springtide.scheduler.timetable import is_closed


def check_state(books: Books) -> tuple[Breach, ...]:
    """Return the promises that the pool's state breaks: each GPU held once, on train nodes, by complete gangs."""
    found: list[Breach] = []
    for job in books.jobs.values():
        found += check_job(books, job)
    return tuple(found)


def check_job(books: Books, job: Job) -> Iterator[Breach]:
    """Return the promises that one job's GPUs break: held by it alone, on train nodes, enough workers to run."""
    for slot in gpu_slots(job.placement):
        owners = books.owners.get(slot, [])
        if len(owners) > 1:
            message = f"GPU {slot[1]} of {slot[0]} is held by {' and '.join(sorted(owners))}"
            yield Breach(Promise.EXCLUSIVE, message, job.id, job.project)
        if slot[0] in books.nodes and not books.usable(slot):
            message = f"job {job.id} holds GPU {slot[1]} of {slot[0]}, which is no train GPU of the pool"
            yield Breach(Promise.BUILD, message, job.id, job.project)
    if job.phase is Phase.RUNNING and len(job.placement) < job.min_workers:
        message = f"job {job.id} runs with {len(job.placement)} of its least {job.min_workers} workers"
        yield Breach(Promise.GANG, message, job.id, job.project)


def _closed_under(books: Books, job: Job) -> str:
    """Return a job's node that is closed now, empty if none is."""
    names = {worker.node for worker in job.placement if worker.node in books.nodes}
    return next((name for name in sorted(names) if is_closed(books.nodes[name], books.now)), "")


def check_rest(books: Books, now: float) -> tuple[Breach, ...]:
    """Return the breaches of work conservation at an instant without further decisions of the policy.

    The cost grows with the number of kinds of waiting jobs and with the reservations, not with the queue.
    """
    return (*_idle(books, now), *_unfulfilled(books, now), *_in_closed(books))


def _in_closed(books: Books) -> Iterator[Breach]:
    for job in books.jobs.values() if books.timed else ():
        if job.phase is Phase.RUNNING and (closed := _closed_under(books, job)):
            message = f"job {job.id} runs on {closed}, which is closed now"
            yield Breach(Promise.EXCLUSIVE, message, job.id, job.project)


def _idle(books: Books, now: float) -> Iterator[Breach]:
    largest = max((free for (_, free), count in books.rooms.items() if count > 0), default=0)
    for kind, jobs in books.waiting.items():
        if kind.gpus > largest or kind.not_before > now:
            continue
        if any(allowed(books, kind, gpu_type) for gpu_type in fitting_types(books, kind)):
            job = next(iter(jobs))
            message = f"job {job} waits, though its {kind.need} GPUs are free and not reserved"
            yield Breach(Promise.WORK_CONSERVING, message, job, kind.project)


def _unfulfilled(books: Books, now: float) -> Iterator[Breach]:
    for job_id in books.reserved:
        job = books.jobs[job_id]
        if job.phase is not Phase.WAITING or job.not_before > now:
            continue
        reserved = list(gpu_slots(job.reserved))
        account = books.account_of(job)
        if any(books.bars(books.nodes[name], books.kind_of(job)) for name, _ in reserved if name in books.nodes):
            continue
        if all(_ready(books, slot) for slot in reserved) and allowed(
            books, books.kind_of(job), account.gpu_type, own=len(reserved)
        ):
            message = f"job {job_id} waits, though the GPUs reserved for it are free"
            yield Breach(Promise.WORK_CONSERVING, message, job_id, job.project)


def _ready(books: Books, slot: GpuSlot) -> bool:
    return slot not in books.owners and books.usable(slot) and books.nodes[slot[0]].available


def fitting_types(books: Books, kind: Kind) -> set[str]:
    """Return the types with free, unreserved GPUs that hold a job of this kind."""
    if kind.require is not None:
        return _types_with_domain(books, kind, kind.require)
    room: Counter[str] = Counter()
    if kind.per_gpu != UNSPECIFIED or books.timed:
        for name, free in books.free.items():
            if _may_hold(books, books.nodes[name], kind):
                room[books.nodes[name].gpu_type] += free // kind.gpus
        return {gpu_type for gpu_type, workers in room.items() if workers >= kind.min_workers}
    for (gpu_type, free), nodes in books.rooms.items():
        if free >= kind.gpus and (not kind.gpu_types or gpu_type in kind.gpu_types):
            room[gpu_type] += free // kind.gpus * nodes
    return {gpu_type for gpu_type, workers in room.items() if workers >= kind.min_workers}


def _types_with_domain(books: Books, kind: Kind, level: str) -> set[str]:
    room: Counter[tuple[str, object]] = Counter()
    for name, free in books.free.items():
        node = books.nodes[name]
        if free < kind.gpus or not _may_hold(books, node, kind):
            continue
        groups = node.groups(level)
        for at, group in enumerate(groups):
            idle = sum(1 for gpu in group if _unclaimed(books, (name, gpu)))
            room[node.gpu_type, (name, at)] = idle // kind.gpus
        if not groups:
            domain = name if level in {"node", *WITHIN_NODES} else node.labels.get(level, ("", name))
            room[node.gpu_type, domain] += free // kind.gpus
    return {gpu_type for (gpu_type, _), workers in room.items() if workers >= kind.min_workers}


def _may_hold(books: Books, node: Node, kind: Kind) -> bool:
    suits = (not kind.gpu_types or node.gpu_type in kind.gpu_types) and node.per_gpu.holds(kind.per_gpu)
    return suits and not books.bars(node, kind)


def _unclaimed(books: Books, slot: GpuSlot) -> bool:
    return _ready(books, slot) and slot not in books.reservations


def allowed(books: Books, kind: Kind, gpu_type: str, own: int = 0) -> bool:
    """Return whether limits, and quotas for jobs that are not preemptible, permit a job of this kind on a type.

    Non-preemptible jobs of a project itself stay within the quota that the projects below it leave. Reserved GPUs
    count as held, except for the ``own`` GPUs reserved for the job itself.
    """
    need, account = max(kind.need, own) - own, books.accounts[gpu_type]
    if account.leaves_no_quota(kind, need):
        return False
    for project in books.paths.get(kind.project, ()):
        if account.held[project] + account.promised[project] + need > account.limit(project):
            return False
        if not kind.preemptible and account.pinned[project] + need > account.firm_quota(project):
            return False
    return kind.project in books.projects
