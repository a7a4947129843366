"""Reservations: GPUs set aside for a waiting job, some of them still in use (DESIGN §3, no starvation).

A job that has waited for long although its project is entitled to it gets a delayed reservation: GPUs of jobs
that were not asked to stop. As these end, no other job gets the GPUs. There is one delayed reservation at a time,
as GPUs that wait for the last one are idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import inf

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import FairOrder, PendingRequest
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.phases.precedence import (
    delayed_reservations,
    guarantee_pending,
    is_delayed,
    outranked,
)
from springtide.scheduler.policy.placement import gang_placement
from springtide.scheduler.policy.placement.gang_placement import Allocation
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.job_queues import SchedulingClass, scheduling_class_of
from springtide.scheduler.policy.state.nodes import NodeState, bits, workers_of
from springtide.scheduler.policy.state.projects import ProjectNode
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
    excess = [
        (is_delayed(state, job), -job.priority, job.submitted, job.id, job, leaf)
        for job in state.awaiting.values()
        if (leaf := state.tree.leaves.get(job.project)) is not None and admission.refusal(leaf, job, 0) is not None
    ]
    for *_, job, _ in excess:
        state.release(job)
    for *_, job, leaf in sorted(excess, key=lambda each: each[:4]):
        if admission.refusal(leaf, job, len(job.reserved) * job.gpus) is not None:
            builder.drop_reservation(job, "reservation-refused")
        else:
            state.restore(job)


def _fulfil(builder: PlanBuilder, leaf: ProjectNode, job: Job) -> None:
    """Start the job on its reserved GPUs, or elsewhere if its reservation is delayed."""
    state = builder.state
    vacant = state.pool.is_vacant(job.reserved)
    if not vacant and not is_delayed(state, job):
        return
    gpus = len(job.reserved) * job.gpus
    refused = not vacant and not admission.within_entitlement(leaf, 0)
    mark = state.mark()
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
    state.roll_back(mark)


def reserve_elsewhere(builders: Sequence[PlanBuilder]) -> None:
    """Replace delayed reservations by free GPUs of another type that the job accepts.

    A reservation beyond the quota is dropped for a job within its quota of another type.
    """
    for builder in builders:
        state = builder.state
        for job in delayed_reservations(state) if len(state.types) > 1 else ():
            others = {other.state.gpu_type: other for other in builders if other is not builder}
            leaf = state.tree.leaves.get(job.project)
            if leaf is None or job.id in builder.decided:
                continue
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
    if not fits and (there.claimed + need > there.quota or admission.within_quota(leaf, 0)):
        return False
    builder.state.release(job)
    builder.drop_reservation(job, "reservation-replaced")
    if fits:
        other.accept(
            there,
            Proposal(
                job, workers_of(allocation or []), reasons.of_reservation("reservation-replaced", job), later=True
            ),
        )
    return True


def improve_reservations(builder: PlanBuilder, means: Sequence[Means]) -> None:
    """Replace delayed reservations where a means can make room now."""
    state = builder.state
    for job in sorted(state.awaiting.values(), key=lambda each: each.id):
        leaf = state.tree.leaves.get(job.project)
        if leaf is None or job.id in builder.decided or not is_delayed(state, job):
            continue
        mark = state.mark()
        state.release(job)
        request = PendingRequest((0, 0, job.submitted, job.id), job, scheduling_class_of(job))
        if admission.over_limit(leaf, 0) is not None or not _serve(builder, means, leaf, request):
            state.roll_back(mark)
        else:
            builder.drop_reservation(job, "reservation-replaced")


def _serve(builder: PlanBuilder, means: Sequence[Means], leaf: ProjectNode, request: PendingRequest) -> bool:
    """Accept the first proposal of these means; return whether there is one."""
    for each in means:
        proposal, retry_at = each.propose(leaf, request)
        builder.retry(retry_at)
        if proposal is not None:
            builder.accept(leaf, proposal)
            return True
    return False


def reserve_ahead(builder: PlanBuilder) -> None:
    """Give a delayed reservation to a job that has waited too long, unless there is one already.

    The project whose first job has waited longest is served first: the others wait until that has started.
    """
    state = builder.state
    delayed = delayed_reservations(state)
    waits = [] if delayed else _overdue_projects(builder)
    if not delayed and not waits:
        return
    owed = guarantee_pending(builder)
    for job in delayed:
        leaf = state.tree.leaves.get(job.project)
        borrows = leaf is not None and not admission.guaranteed(leaf, 0)
        if job.id not in builder.decided and outranked(state, job, builder.now - RESERVE_AFTER):
            builder.drop_reservation(job, "reservation-outranked")
        elif job.id not in builder.decided and borrows and owed:
            builder.drop_reservation(job, "reservation-refused")
    for leaf in waits:
        means = ReserveAhead(builder, leaf, guaranteed_only=owed)
        means.serve()
        if means.exhausted():
            return


class ReserveAhead(Means):
    """GPUs that become free later, when the jobs that hold them end."""

    def __init__(self, builder: PlanBuilder, leaf: ProjectNode, *, guaranteed_only: bool) -> None:
        super().__init__(builder)
        self._leaf = leaf
        self._guaranteed_only = guaranteed_only
        self._done = False

    def order(self) -> FairOrder:
        """Order the jobs of one project."""
        return FairOrder((self._leaf,), self.cursor.next_request)

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Tell whether the project is entitled to such a job, or guaranteed it."""
        if self._guaranteed_only:
            return admission.guaranteed(leaf, scheduling_class.need)
        return admission.within_entitlement(leaf, scheduling_class.need)

    def exhausted(self) -> bool:
        """Tell whether there is a delayed reservation."""
        return self._done

    def propose(self, leaf: ProjectNode, request: PendingRequest) -> Answer:
        """Propose to reserve GPUs where the fewest are held."""
        job = request.job
        due = _reserve_at(job)
        if due > self.builder.now:
            return Answer(None, due)
        if (
            outranked(self.state, job, self.builder.now - RESERVE_AFTER)
            or admission.refusal(leaf, job, request.need) is not None
        ):
            return NO
        placement = _drain(self.builder, job)
        if placement is None:
            return NO
        holders = [self.state.jobs[job_id] for job_id in self.state.pool.holders(placement)]
        return Answer(Proposal(job, placement, reasons.set_aside("promised", job, holders), later=True))

    def accepted(self, leaf: ProjectNode, proposal: Proposal) -> None:
        """Stop after one."""
        self._done = True


def _overdue_projects(builder: PlanBuilder) -> list[ProjectNode]:
    """Return the projects that are entitled to a job that has waited too long, the longest wait first."""
    waits = [(_longest_wait(builder, leaf), at, leaf) for at, leaf in enumerate(builder.memo.entitled_projects())]
    return [leaf for since, _, leaf in sorted(waits) if since < inf]


def _longest_wait(builder: PlanBuilder, leaf: ProjectNode) -> float:
    """Return since when a first job of the project has waited, if too long; infinity if none has that may start.

    Note when the others will have waited too long.
    """
    longest = inf
    for key, scheduling_class in builder.state.queues[leaf.name].heads():
        job = builder.state.jobs[key[3]]
        need, since = scheduling_class.need, waiting_since(job)
        if since + RESERVE_AFTER > builder.now:
            builder.retry(since + RESERVE_AFTER)
        elif since < longest and leaf.claimed + need <= leaf.entitled and not admission.refusal(leaf, job, need):
            longest = since
    return longest


def _reserve_at(job: Job) -> float:
    """Return when the job has waited too long."""
    return waiting_since(job) + RESERVE_AFTER


def _drain(builder: PlanBuilder, job: Job) -> Placement | None:
    """Return GPUs that the job can have once the jobs that hold them have ended: where the fewest are held."""
    state, pool = builder.state, builder.state.pool
    mark = pool.mark()
    free: dict[int, int] = {}
    parts: Allocation | None = None
    for node in _candidates(state, job):
        free[node.index] = node.free
        if (node.allocatable & ~node.reserved).bit_count() < job.gpus:
            continue
        for job_id in sorted(node.jobs.keys() - builder.decided):
            if builder.is_shrunk(state.jobs[job_id]):
                continue
            here = tuple(worker for worker in state.jobs[job_id].placement if worker.node == node.name)
            pool.vacate(job_id, here)
        parts = gang_placement.place_gang(pool, job, job.min_workers)
        if parts is not None:
            break
    for node, _ in parts or ():
        free.setdefault(node.index, node.free)
    drained = {node.index: node.free for node, _ in parts or ()}
    pool.roll_back(mark)
    return None if parts is None else workers_of(_free_first(parts, free, drained))


def _candidates(state: ClusterState, job: Job) -> list[NodeState]:
    """Return nodes with many free GPUs, those with the fewest held by non-preemptible jobs first."""
    pool = state.pool
    by_room = pool.with_free(pool.roomiest_first, pool.mask_for(job.gpu_types, job.per_gpu))
    return sorted(islice(by_room, MAX_NODES * job.min_workers), key=lambda node: _cost(state, node))


def _cost(state: ClusterState, node: NodeState) -> tuple[int, int, int]:
    non_preemptible = sum(
        mask.bit_count() for job_id, mask in node.jobs.items() if not state.jobs[job_id].preemptible
    )
    return (non_preemptible, -node.free.bit_count(), node.index)


def _free_first(parts: Allocation, free: dict[int, int], drained: dict[int, int]) -> Allocation:
    """Return the same workers on the same nodes, on GPUs that are free now where links do not matter."""
    left = drained
    better: Allocation = []
    for node, mask in parts:
        if node.groups:
            better.append((node, mask))
            continue
        rest = left[node.index]
        chosen = 0
        for index in sorted(bits(rest), key=lambda each: (not free[node.index] >> each & 1, each)):
            if chosen.bit_count() < mask.bit_count():
                chosen |= 1 << index
        left[node.index] = rest & ~chosen
        better.append((node, chosen))
    return better
