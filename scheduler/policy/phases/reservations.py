"""Reservations: GPUs set aside for a waiting job, some still in use (docs/policy.md, The bound of waiting).

A delayed reservation is for GPUs of jobs that are not stopping. As these jobs end, no other job gets the GPUs,
except by backfill. Two kinds of jobs get one: guaranteed jobs that only minimum run times keep waiting, so that
other jobs do not start on these GPUs meanwhile; and jobs that have waited long although their projects are
entitled to them. The latter reserve one at a time, as GPUs idle until the last one of a reservation is free. A job
with a delayed reservation starts elsewhere if it can, as does any job with one that its quota guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import inf

from msgspec import structs

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy import gang_placement, reasons
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest, request_of
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.phases.precedence import (
    delayed_reservations,
    is_delayed,
    outranked,
    runtimes_awaited_until,
)
from springtide.scheduler.policy.phases.reclaiming import ReclaimGpus
from springtide.scheduler.policy.phases.starting import FreeGpus
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.job_queues import PlacementConstraints, SchedulingClass
from springtide.scheduler.policy.state.nodes import avoids, workers_of
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.service import waiting_since

RESERVE_AFTER = 3600.0
"""Waiting time after which a job gets a delayed reservation, in seconds.

Reclaiming serves nearly all jobs at once; a job that waits this long needs more GPUs together than ever become
free at the same time.
"""

MAX_NODES = 64
"""Maximum number of nodes considered for each worker of a delayed reservation."""

MAX_BACKFILL = 64
"""Maximum number of waiting jobs tried by backfill, those with the shortest time limits first."""


def fulfil_reservations(builder: PlanBuilder) -> None:
    """Drop the reservations that cannot be met, the last first; start jobs whose reserved GPUs are free."""
    state = builder.state
    in_order = sorted(_in_order_of_waiting(state), key=lambda job: is_delayed(state, job))
    for leaf, job in builder.undecided(reversed(in_order)):
        if not state.pool.are_allocatable(job.reserved) or avoids(job, job.reserved):
            builder.drop_reservation(job, "reservation-lost")
        elif job.id == builder.turn:
            continue
        elif job.turn or _is_refused(builder, leaf, job):
            builder.drop_reservation(job, "reservation-refused")
    for leaf, job in builder.undecided(in_order):
        gpus = len(job.reserved) * job.gpus
        if job.not_before > builder.now:
            builder.retry(job.not_before)
        elif state.pool.holders(job.reserved) or not admission.held_within_limit(leaf, gpus):
            continue
        elif admission.beyond_quota(leaf, job, 0) is None:
            state.release(job)
            builder.accept(leaf, Proposal(job, job.reserved, reasons.of_reservation("reservation-fulfilled", job)))


def _is_refused(builder: PlanBuilder, leaf: ProjectNode, job: Job) -> bool:
    """Return whether the project may not have the GPUs reserved for the job.

    The reservation of the turn does not count: it may exceed the bounds of its project until the job starts.
    """
    state = builder.state
    in_turn = state.awaiting.get(builder.turn or "")
    with state.undo.trial():
        if in_turn is not None:
            state.release(in_turn)
        due = admission.guaranteed(leaf, 0) or admission.within_entitlement(leaf, 0)
        return (is_delayed(state, job) and not due) or admission.refusal(leaf, job, 0) is not None


def replace_reservations(builders: Sequence[PlanBuilder], *kinds: Callable[[PlanBuilder], Means]) -> None:
    """Give jobs with a delayed reservation GPUs by these means, of any type that they accept, in its stead."""
    for builder in builders:
        for _, job in builder.undecided(delayed_reservations(builder.state)):
            if job.not_before <= builder.now:
                means = (kind(accepting) for accepting in _accepting(builders, job) for kind in kinds)
                any(_replace(builder, job, option) for option in means)


def start_elsewhere(builder: PlanBuilder) -> None:
    """Start guaranteed jobs that wait for others to stop on GPUs that are free meanwhile.

    The GPUs that become free later are for others then: no job borrows while an owner waits.
    """
    if not builder.state.awaiting:
        return
    free = FreeGpus(builder)
    tried: set[PlacementConstraints] = set()
    for leaf, job in builder.undecided(_in_order_of_waiting(builder.state)):
        if builder.state.pool.max_free < job.gpus or job.not_before > builder.now:
            continue
        constraints = request_of(leaf, job).scheduling_class.constraints
        if constraints in tried or is_delayed(builder.state, job) or not admission.guaranteed(leaf, 0):
            continue
        if not _replace(builder, job, free):
            tried.add(constraints)


def _in_order_of_waiting(state: ClusterState) -> list[Job]:
    return sorted(state.awaiting.values(), key=lambda job: (-job.priority, job.submitted, job.id))


def _accepting(builders: Sequence[PlanBuilder], job: Job) -> list[PlanBuilder]:
    """Return the builders of the GPU types that the job accepts, in its order."""
    suitable = (builder for builder in builders if builder.state.pool.suitable(job.gpu_types, job.per_gpu))
    return sorted(suitable, key=lambda builder: builder.state.rank_of(job.gpu_types))


def _replace(builder: PlanBuilder, job: Job, means: Means) -> bool:
    """Get the job GPUs by these means; GPUs of another type are reserved, as their state has no such job yet."""
    leaf = means.state.leaf_of(job)
    there = structs.replace(job, avoid=means.state.avoided(job))
    request = request_of(leaf, there)
    with builder.state.undo.trial():
        builder.state.release(job)
        proposal, retry_at = means.propose(request)
        over = admission.over_limit(leaf, 0)
    means.builder.retry(retry_at)
    if proposal is None or over is not None:
        return False
    if means.builder is not builder:
        proposal = replace(proposal, later=True, why=reasons.of_reservation("reservation-replaced", job))
    if proposal.later:
        builder.drop_reservation(job, "reservation-replaced")
    else:
        builder.release_reservation(job)
    means.builder.accept(leaf, proposal)
    means.accepted(request, proposal)
    return True


class ReserveGuaranteed(ReclaimGpus):
    """Delayed reservations for guaranteed jobs, on GPUs whose holders are within their minimum run times."""

    def leaves(self) -> Iterable[ProjectNode]:
        """Return the projects with a waiting job that they are entitled to, if jobs have a minimum run time."""
        lasting = self.state.settings.min_runtime > 0
        return super().leaves() if lasting and self.builder.guarantee_pending else ()

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return whether the quota guarantees such a job within all limits."""
        need = scheduling_class.need
        within = admission.guaranteed(leaf, need) and admission.over_limit(leaf, need) is None
        return within and super().promising(leaf, scheduling_class)

    def propose(self, request: PendingRequest) -> Answer:
        """Propose GPUs of jobs that can be evicted after their minimum run times and do not shrink now."""
        leaf, job = request.leaf, request.job
        if not self.promising(leaf, request.scheduling_class):
            return NO
        if outranked(self.state, job):
            return NO
        search = self.victim_search(leaf, job, request.need, ahead=True)
        found = search.solve() or search.solve_with_moves()
        holders = [] if found is None else self.state.pool.holders(found.placement)
        if found is None or any(self.builder.is_shrunk(self.state.jobs[job_id]) for job_id in holders):
            return NO
        return Answer(ahead(self.state, job, found.placement, "reserved-ahead", found.dropped))


class ReserveAhead(Means):
    """A delayed reservation for a job that has waited too long within its project's entitlement, one at a time.

    It covers GPUs that become free one after another. While a guaranteed job waits, no job borrows by a delayed
    reservation.
    """

    def __init__(self, builder: PlanBuilder) -> None:
        super().__init__(builder)
        delayed = (job for job in delayed_reservations(self.state) if job.id != builder.turn)
        self._awaits = any(runtimes_awaited_until(builder, job) <= builder.now for job in delayed)

    def serve(self) -> None:
        """Serve the projects by the longest waits of their overdue jobs, each in the order of its queues.

        Outranked and refused delayed reservations are dropped before; not those for the end of minimum run times,
        as their deadline counts from the project's first waiting job.
        """
        for leaf, job in self.builder.undecided(delayed_reservations(self.state)):
            if runtimes_awaited_until(self.builder, job) > self.builder.now or job.id == self.builder.turn:
                continue
            if outranked(self.state, job):
                self.builder.drop_reservation(job, "reservation-outranked")
            elif self.builder.guarantee_pending and not admission.guaranteed(leaf, 0):
                self.builder.drop_reservation(job, "reservation-refused")
        found = [overdue for leaf in self.builder.memo.entitled_projects() if (overdue := self._overdue(leaf))]
        for overdue in sorted(found, key=lambda requests: min(waiting_since(request.job) for request in requests)):
            for request in overdue:
                self.serve_one(request)

    def _overdue(self, leaf: ProjectNode) -> list[PendingRequest]:
        """Return the requests that have waited too long; record when the project's others will have."""
        found: list[PendingRequest] = []
        now = self.builder.now
        while (request := self.next_request(leaf)) is not None:
            self.cursor.skip(request)
            job, due = request.job, waiting_since(request.job) + RESERVE_AFTER
            self.builder.retry(due)
            refused = admission.beyond_quota(leaf, job, request.need) is not None
            if due <= now and not refused and not outranked(self.state, job):
                found.append(request)
        return found

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return whether the project is entitled to such a job, and no job is owed GPUs before it."""
        need = scheduling_class.need
        owed = self.builder.guarantee_pending and not admission.guaranteed(leaf, need)
        return not owed and admission.within_entitlement(leaf, need)

    def propose(self, request: PendingRequest) -> Answer:
        """Propose GPUs for the job once their holders have ended."""
        leaf, job = request.leaf, request.job
        refused = admission.beyond_quota(leaf, job, request.need) is not None
        if refused or not self.promising(leaf, request.scheduling_class):
            return NO
        placement = None if self._awaits else self.behind_several(job)
        return NO if placement is None else Answer(ahead(self.state, job, placement, "promised"))

    def accepted(self, request: PendingRequest, proposal: Proposal) -> None:
        """Record that a delayed reservation exists."""
        self._awaits = True

    def behind_several(self, job: Job) -> Placement | None:
        """Return GPUs of the roomiest nodes that become free one after another; None if there are too few."""
        pool = self.state.pool
        suitable = pool.roomiest_first(pool.suitable(job.gpu_types, job.per_gpu, job.avoid))
        with pool.undo.trial():
            for node in list(islice(suitable, MAX_NODES * job.min_workers)):
                for holder in self._holders(sorted(node.jobs)):
                    pool.vacate(holder.id, (worker for worker in holder.placement if worker.node == node.name))
                    parts = gang_placement.place_gang(pool, job, job.min_workers)
                    if parts is not None:
                        return workers_of(parts)
        return None

    def _holders(self, job_ids: Iterable[str]) -> Iterator[Job]:
        """Yield the jobs about which this plan has decided nothing."""
        jobs = self.builder.undecided(self.state.jobs[job_id] for job_id in job_ids)
        return (job for _, job in jobs if not self.builder.is_shrunk(job))


def ahead(
    state: ClusterState, job: Job, placement: Placement, code: str, dropped: tuple[Job, ...] = ()
) -> Proposal:
    """Return a delayed reservation, with a reason of this code that names the holders of the GPUs."""
    holders = [state.jobs[job_id] for job_id in state.pool.holders(placement)]
    why = reasons.of(code, job, gpus=len(placement) * job.gpus, **reasons.of_holders(holders))
    return Proposal(job, placement, why, later=True, dropped=dropped)


def backfill(builder: PlanBuilder) -> None:
    """Lend idle GPUs of delayed reservations to jobs whose time limits end before the other GPUs are free.

    Reservations for the end of minimum run times lend nothing, nor do those on nodes where jobs give up GPUs by
    this plan: these are in use until the jobs have stopped.
    """
    state, pool = builder.state, builder.state.pool
    shortest = [state.jobs[job_id] for job_id in state.time_limits.lowest(MAX_BACKFILL)]
    for _, reserving in builder.undecided(delayed_reservations(state)):
        holders = [state.jobs[job_id] for job_id in pool.holders(reserving.reserved)]
        until = max(holder.latest_end(builder.now) for holder in holders)
        if runtimes_awaited_until(builder, reserving) > builder.now:
            continue
        if builder.changed_nodes & pool.nodes_of(reserving.reserved):
            continue
        for leaf, job in builder.undecided(shortest if until < inf else ()):
            need = job.need
            if job.latest_end(builder.now) > until or not admission.may_start(leaf, job, need):
                continue
            with pool.undo.trial():
                pool.unreserve(reserving.reserved)
                parts = gang_placement.place_gang(pool, job, job.min_workers)
            if parts is not None and not builder.reclaims_too_much(leaf, need):
                why = reasons.of("started-before", job, gpus=need, **reasons.of_beneficiary(reserving))
                builder.accept(leaf, Proposal(job, workers_of(parts), why))
