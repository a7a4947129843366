"""Reservations: GPUs set aside for a waiting job, some of them still in use (DESIGN §3, no starvation).

A job that has waited for long although its project is entitled to it gets a delayed reservation: GPUs of jobs
that were not asked to stop. As these end, no other job gets the GPUs. There is one delayed reservation at a time,
as GPUs that wait for the last one are idle. Beside it, jobs that others keep waiting by priority alone get GPUs
that one job frees all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest
from springtide.scheduler.policy.ordering.queue_cursor import QueueCursor
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.phases.precedence import (
    delayed_reservations,
    guarantee_pending,
    is_delayed,
    outranked,
)
from springtide.scheduler.policy.placement import gang_placement
from springtide.scheduler.policy.placement.gang_placement import Allocation
from springtide.scheduler.policy.plan_builder import PlanBuilder, Proposal
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.job_queues import SchedulingClass, scheduling_class_of
from springtide.scheduler.policy.state.nodes import NodeState, bits, mask_of, workers_of
from springtide.scheduler.policy.state.projects import ProjectNode, sides
from springtide.scheduler.policy.state.service import waiting_since

RESERVE_AFTER = 3600.0
"""Waiting time after which a job gets a delayed reservation, in seconds.

Reclaiming serves nearly all jobs at once; one that waits this long needs GPUs together that never become free
together.
"""

MAX_NODES = 64
"""Maximum number of nodes considered per worker of a job that gets a delayed reservation."""


def fulfil_reservations(builder: PlanBuilder) -> None:
    """Start the jobs whose reserved GPUs are free; drop reservations that cannot be met."""
    state = builder.state
    _drop_excess(builder)
    for job in sorted(state.awaiting.values(), key=lambda each: each.id):
        leaf = state.tree.leaves.get(job.project)
        if job.id in builder.decided:
            continue
        if not state.pool.are_allocatable(job.reserved):
            state.release(job)
            builder.drop_reservation(job, "reservation-lost")
        elif job.not_before > builder.now:
            builder.retry(job.not_before)
        elif leaf is not None:
            _fulfil(builder, leaf, job)


def _drop_excess(builder: PlanBuilder) -> None:
    """Drop reservations of projects that have been given a lower limit or quota, the last ones in order first."""
    state = builder.state
    jobs = sorted(
        state.awaiting.values(),
        key=lambda job: (is_delayed(state, job), -job.priority, job.submitted, job.id),
    )
    excess = [each for each in builder.undecided(jobs) if admission.refusal(*each, 0) is not None]
    for _, job in excess:
        state.release(job)
    for leaf, job in excess:
        if admission.refusal(leaf, job, len(job.reserved) * job.gpus) is not None:
            builder.drop_reservation(job, "reservation-refused")
        else:
            state.restore(job)


def _fulfil(builder: PlanBuilder, leaf: ProjectNode, job: Job) -> None:
    """Start the job on its reserved GPUs, or elsewhere if its reservation is delayed."""
    state = builder.state
    vacant = not state.pool.holders(job.reserved)
    if not vacant and not is_delayed(state, job):
        return
    gpus = len(job.reserved) * job.gpus
    refused = not vacant and not admission.within_entitlement(leaf, 0)
    mark = state.undo.mark()
    state.release(job)
    if refused or admission.refusal(leaf, job, gpus) is not None:
        builder.drop_reservation(job, "reservation-refused")
        return
    if admission.held_within_limit(leaf, gpus):
        if vacant:
            builder.accept(leaf, Proposal(job, job.reserved, reasons.of_reservation("reservation-fulfilled", job)))
            return
        allocation = gang_placement.place_gang(state.pool, job, job.min_workers)
        if allocation is not None:
            builder.accept(leaf, Proposal(job, workers_of(allocation), reasons.started(job, leaf)))
            builder.reservation_released(job)
            return
    state.undo.roll_back(mark)


def reserve_elsewhere(builders: Sequence[PlanBuilder]) -> None:
    """Replace delayed reservations by free GPUs of another type that the job accepts.

    A reservation beyond the quota is dropped for a job within its quota of another type.
    """
    for builder in builders:
        state = builder.state
        others = {other.state.gpu_type: other for other in builders if other is not builder}
        delayed = delayed_reservations(state) if len(state.types) > 1 else ()
        for leaf, job in builder.undecided(delayed):
            for gpu_type in job.gpu_types or state.types:
                if gpu_type in others and _change_type(builder, others[gpu_type], leaf, job):
                    break


def _change_type(builder: PlanBuilder, other: PlanBuilder, leaf: ProjectNode, job: Job) -> bool:
    """Reserve free GPUs of another type, or drop the reservation for it; return whether either was done."""
    there, need = other.state.tree.leaves[job.project], job.gpus * job.min_workers
    if job.not_before > builder.now or admission.refusal(there, job, need) is not None:
        return False
    allocation = gang_placement.place_gang(other.state.pool, job, job.min_workers)
    fits = allocation is not None and admission.held_within_limit(there, need)
    borrows = any(project.claimed > project.quota for project in leaf.path)
    if not fits and (there.claimed + need > there.quota or not borrows):
        return False
    builder.state.release(job)
    builder.drop_reservation(job, "reservation-replaced")
    if fits:
        why = reasons.of_reservation("reservation-replaced", job)
        other.accept(there, Proposal(job, workers_of(allocation or ()), why, later=True))
    return True


def improve_reservations(builder: PlanBuilder, means: Sequence[Means]) -> None:
    """Replace delayed reservations where a means can make room now."""
    state = builder.state
    for leaf, job in builder.undecided(delayed_reservations(state)):
        mark = state.undo.mark()
        state.release(job)
        request = PendingRequest(leaf, (0, 0, job.submitted, job.id), job, scheduling_class_of(job))
        if admission.over_limit(leaf, 0) is None and any(each.serve_one(request) is not None for each in means):
            builder.drop_reservation(job, "reservation-replaced")
        else:
            state.undo.roll_back(mark)


def reserve_ahead(builder: PlanBuilder) -> None:
    """Give a delayed reservation to a job that has waited too long, unless there is one already.

    The project whose first job has waited longest is served first: the others wait until that has started, except
    for GPUs that priority alone keeps from being reclaimed.
    """
    state = builder.state
    delayed = list(delayed_reservations(state))
    protected = _protected_by_priority(builder, delayed)
    waits = _overdue_projects(builder) if protected or not delayed else []
    if not delayed and not waits:
        return
    owed = guarantee_pending(builder)
    for leaf, job in builder.undecided(delayed):
        if outranked(state, job, builder.now - RESERVE_AFTER):
            builder.drop_reservation(job, "reservation-outranked")
        elif owed and not admission.guaranteed(leaf, 0):
            builder.drop_reservation(job, "reservation-refused")
    for request in _overdue_requests(
        builder, waits, admission.guaranteed if owed else admission.within_entitlement
    ):
        leaf, job = request.leaf, request.job
        placement = _drain(builder, job) if not delayed else _behind_one(builder, leaf, job, protected)
        if placement is not None:
            holders = [state.jobs[job_id] for job_id in state.pool.holders(placement)]
            why = reasons.set_aside("promised", job, holders)
            builder.accept(leaf, Proposal(job, placement, why, later=True))
            if not delayed:
                return


def _protected_by_priority(builder: PlanBuilder, delayed: Iterable[Job]) -> list[tuple[ProjectNode, Job]]:
    """Return the jobs that these reservations await and that priority may keep from being reclaimed."""
    state = builder.state
    holders = {job_id for job in delayed for job_id in state.pool.holders(job.reserved)}
    return [
        (leaf, holder)
        for leaf, holder in builder.undecided(state.jobs[job_id] for job_id in sorted(holders))
        if any(project.claimed > project.entitled and _outranks_a_sibling(state, project) for project in leaf.path)
    ]


def _outranks_a_sibling(state: ClusterState, project: ProjectNode) -> bool:
    """Tell whether the project has a higher priority than another one of the same parent."""
    siblings = state.tree.roots if project.parent is None else project.parent.children
    return any(sibling.priority < project.priority for sibling in siblings)


def _overdue_requests(
    builder: PlanBuilder, waits: Iterable[ProjectNode], within: Callable[[ProjectNode, int], bool]
) -> Iterator[PendingRequest]:
    """Yield the requests of projects that have waited too long, as far as they are ``within`` what is due.

    Note when the others will have waited too long.
    """
    state = builder.state

    def promising(leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        return builder.considers(leaf, scheduling_class) and within(leaf, scheduling_class.need)

    cursor = QueueCursor(state, builder.decided, promising)
    for leaf in waits:
        while (request := cursor.next_request(leaf)) is not None:
            job = request.job
            builder.retry(_due(job))
            if (
                _due(job) <= builder.now
                and not outranked(state, job, builder.now - RESERVE_AFTER)
                and admission.refusal(leaf, job, request.need) is None
            ):
                yield request
            if job.id not in builder.decided:
                cursor.skip(request)


def _overdue_projects(builder: PlanBuilder) -> list[ProjectNode]:
    """Return the projects that are entitled to a first job that has waited too long, the longest wait first.

    Note when the others will have waited too long.
    """
    state = builder.state
    first_due: dict[ProjectNode, float] = {}
    for leaf in builder.memo.entitled_projects():
        for key, scheduling_class in state.queues[leaf.name].heads():
            job, need = state.jobs[key[3]], scheduling_class.need
            due = _due(job)
            builder.retry(due)
            entitled = leaf.claimed + need <= leaf.entitled
            if due <= builder.now and entitled and not admission.refusal(leaf, job, need):
                first_due[leaf] = min(due, first_due.get(leaf, due))
    return sorted(first_due, key=first_due.__getitem__)


def _due(job: Job) -> float:
    """Return when the job has waited too long."""
    return waiting_since(job) + RESERVE_AFTER


def _drain(builder: PlanBuilder, job: Job) -> Placement | None:
    """Return GPUs that the job can have once the jobs that hold them have ended: where the fewest are held."""
    state, pool = builder.state, builder.state.pool
    parts: Allocation | None = None
    with state.undo.trial():
        for node in _candidates(state, job):
            if (node.allocatable & ~node.reserved).bit_count() < job.gpus:
                continue
            for job_id in sorted(node.jobs.keys() - builder.decided):
                if not builder.is_shrunk(state.jobs[job_id]):
                    pool.vacate(job_id, (each for each in state.jobs[job_id].placement if each.node == node.name))
            if (parts := gang_placement.place_gang(pool, job, job.min_workers)) is not None:
                break
        drained = {node.index: node.free for node, _ in parts or ()}
    return None if parts is None else workers_of(_free_first(parts, drained))


def _behind_one(
    builder: PlanBuilder, leaf: ProjectNode, job: Job, protected: Iterable[tuple[ProjectNode, Job]]
) -> Placement | None:
    """Return GPUs that the job can have once one of the ``protected`` jobs has ended, all at once; or None.

    That one is a job of a project of higher priority, which has to hold more than it is entitled to.
    """
    state, pool = builder.state, builder.state.pool
    for holding, holder in protected:
        pair = sides(leaf, holding)
        if pair is None or pair[1].priority <= pair[0].priority or pair[1].claimed <= pair[1].entitled:
            continue
        if builder.is_shrunk(holder):
            continue
        with state.undo.trial():
            pool.reserve(workers_of((node, node.free) for node, _ in pool.known(holder.placement)))
            pool.vacate(holder.id, holder.placement)
            parts = gang_placement.place_gang(pool, job, job.min_workers, pool.nodes_of(holder.placement))
        if parts is not None:
            return workers_of(parts)
    return None


def _candidates(state: ClusterState, job: Job) -> list[NodeState]:
    """Return nodes with many free GPUs, those with the fewest held by non-preemptible jobs first."""

    def cost(node: NodeState) -> tuple[int, int, int]:
        firm = (mask for job_id, mask in node.jobs.items() if not state.jobs[job_id].preemptible)
        return (sum(mask.bit_count() for mask in firm), -node.free.bit_count(), node.index)

    by_room = state.pool.roomiest_first(state.pool.suitable(job.gpu_types, job.per_gpu))
    return sorted(islice(by_room, MAX_NODES * job.min_workers), key=cost)


def _free_first(parts: Allocation, drained: dict[int, int]) -> Allocation:
    """Return the same workers on the same nodes, on GPUs that are free now where links do not matter.

    ``drained`` are the GPUs of each node that are free in the end.
    """
    better: Allocation = []
    for node, mask in parts:
        chosen = mask
        if not node.groups:
            free_first = sorted(bits(drained[node.index]), key=lambda each: (not node.free >> each & 1, each))
            chosen = mask_of(free_first[: mask.bit_count()])
        drained[node.index] &= ~chosen
        better.append((node, chosen))
    return better
