"""Consolidation: move preemptible jobs so that a waiting one fits (docs/policy.md, How a plan is made)."""

from __future__ import annotations

from collections.abc import Iterable

from springtide.scheduler.model import Job
from springtide.scheduler.policy.eviction.consolidation import MoveSearch
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.state.job_queues import PlacementConstraints, SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode


class MoveJobs(Means):
    """Make room on nodes by moving running jobs to other free GPUs."""

    def __init__(self, builder: PlanBuilder) -> None:
        super().__init__(builder)
        self._failed: set[PlacementConstraints] = set()

    def leaves(self) -> Iterable[ProjectNode]:
        """Return the projects with a waiting job no larger than all free GPUs together.

        None of them if moves help no waiting job of any project.
        """
        queues, free = self.state.queues, self.state.pool.free
        small = (constraints.as_job() for constraints in self.state.constraint_counts if constraints.need <= free)
        leaves = self.state.tree.leaves.items() if any(map(self._search, small)) else ()
        return [leaf for name, leaf in leaves if 0 < queues[name].smallest <= free]

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return whether enough GPUs are free, and no search for such a job has failed in this plan."""
        constraints = scheduling_class.constraints
        return constraints not in self._failed and constraints.need <= self.state.pool.free

    def propose(self, request: PendingRequest) -> Answer:
        """Propose moves that make the job fit."""
        leaf, job = request.leaf, request.job
        if not self.promising(leaf, request.scheduling_class) or admission.refusal(leaf, job, request.need):
            return NO
        if self.builder.reclaims_too_much(leaf, request.need):
            return NO
        proposal = self._search(job)
        if proposal is None:
            self._failed.add(request.scheduling_class.constraints)
        return Answer(proposal)

    def _search(self, job: Job) -> Proposal | None:
        """Return the moves that make room; after a failure, record when to try again."""
        search = MoveSearch(self.builder, job)
        proposal = search.solve()
        self.builder.retry(search.retry_at)
        return proposal if proposal is not None and proposal.relocations else None
