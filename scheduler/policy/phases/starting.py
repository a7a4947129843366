"""Free GPUs: start waiting jobs and let elastic ones grow (docs/policy.md, How a plan is made)."""

from __future__ import annotations

from springtide.scheduler.model import Job
from springtide.scheduler.policy import gang_placement, reasons
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest
from springtide.scheduler.policy.phases.elastic import growing_jobs
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.phases.precedence import invites_rotation
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.state.job_queues import PlacementConstraints, SchedulingClass
from springtide.scheduler.policy.state.nodes import workers_of
from springtide.scheduler.policy.state.projects import ProjectNode


class FreeGpus(Means):
    """Place requests on free GPUs.

    Running jobs grow within the quotas of their projects, and beyond them only with ``borrowing``, as they
    restart.
    """

    def __init__(self, builder: PlanBuilder, *, borrowing: bool = False) -> None:
        super().__init__(builder)
        self._borrowing = borrowing
        max_free = self.state.pool.max_free
        self._fitting = {
            constraints
            for constraints in self.state.constraint_counts
            if constraints.gpus <= max_free and self._has_room(constraints)
        }
        self.largest = max((constraints.gpus for constraints in self._fitting), default=0)

    def serve(self) -> None:
        """Serve the requests that may fit."""
        if not self.builder.guaranteed and not self.builder.rank:
            for leaf, job in (*growing_jobs(self.builder, self._may_grow), *self.builder.enlarged()):
                self.cursor.offer_growth(leaf, job)
        if self.exhausted():
            return
        leaves = self.state.tree.leaves
        decided = (leaves[name] for name in self.builder.decided.values() if name in leaves)
        key = (frozenset(self._fitting), self.builder.rank, self.builder.guaranteed)
        changed = (*self.cursor.growing, *decided)
        self.serve_in(self.builder.memo.order_of_waiting(key, self.next_request, changed))

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return whether a job of this class may fit."""
        return scheduling_class.constraints in self._fitting

    def exhausted(self) -> bool:
        """Return whether no further request fits."""
        return not self._fitting and (self.state.pool.max_free == 0 or not any(self.cursor.growing.values()))

    def propose(self, request: PendingRequest) -> Answer:
        """Propose the start of a job, or one more worker for a running or starting one."""
        leaf, job = request.leaf, request.job
        if request.grows and not self._may_grow(leaf, job):
            return NO
        if self.builder.reclaims_too_much(leaf, request.need) or not admission.may_start(leaf, job, request.need):
            return NO
        if request.grows:
            return self._propose_growth(job)
        allocation = gang_placement.place_gang(self.state.pool, job, job.min_workers)
        if allocation is None:
            self._fitting.discard(request.scheduling_class.constraints)
            return NO
        return Answer(Proposal(job, workers_of(allocation)))

    def accepted(self, request: PendingRequest, proposal: Proposal) -> None:
        """Offer an elastic job that starts more workers, unless jobs beyond quotas are not considered yet."""
        max_free = self.state.pool.max_free
        self._fitting = {constraints for constraints in self._fitting if constraints.gpus <= max_free}
        elastic = not request.grows and request.job.workers > request.job.min_workers
        if elastic and not self.builder.guaranteed:
            self.cursor.offer_growth(request.leaf, request.job)

    def _may_grow(self, leaf: ProjectNode, job: Job) -> bool:
        within = self._borrowing or leaf.claimed + job.gpus <= leaf.quota
        return job.gpus <= self.state.pool.max_free and (within or not job.placement)

    def _propose_growth(self, job: Job) -> Answer:
        workers = self.builder.workers_planned(job)
        after = (len(workers) + 1) * job.gpus
        if len(workers) == job.workers or invites_rotation(self.state, job, after):
            return NO
        allocation = gang_placement.place_more(self.state.pool, job, workers)
        if allocation is None:
            return NO
        more = workers_of(allocation, len(workers))
        return Answer(Proposal(job, more, reasons.gets_workers("grows", job, workers + more), grows=True))

    def _has_room(self, constraints: PlacementConstraints) -> bool:
        pool = self.state.pool
        nodes = pool.suitable(constraints.gpu_types, constraints.per_gpu, constraints.avoid)
        return pool.slots(constraints.gpus, nodes) >= constraints.min_workers
