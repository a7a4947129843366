"""Consolidation: move preemptible jobs so that a waiting one fits (DESIGN §4, cycle)."""

from __future__ import annotations

from springtide.scheduler.model import Job
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import FairOrder, PendingRequest
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.preemption.consolidation import MoveSearch
from springtide.scheduler.policy.state.job_queues import PlacementConstraints, SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode


class MoveJobs(Means):
    """Make room on nodes by moving running jobs to other free GPUs."""

    def __init__(self, builder: PlanBuilder) -> None:
        super().__init__(builder)
        self._free = self.state.pool.free
        self._failed: set[PlacementConstraints] = set()

    def order(self) -> FairOrder:
        """Order the projects with a waiting job that is not larger than all free GPUs together.

        There is none if moves help no waiting job, whichever project has it.
        """
        queues, small = self.state.queues, [each for each in self.state.constraint_counts if self._is_small(each)]
        leaves = self.state.tree.leaves.items() if any(map(self._may_succeed, small)) else ()
        return FairOrder(
            [leaf for name, leaf in leaves if 0 < queues[name].smallest <= self._free], self.cursor.next_request
        )

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Tell whether enough GPUs are free, and no search for such a job has failed in this plan."""
        constraints = scheduling_class.constraints
        return self._is_small(constraints) and constraints not in self._failed

    def propose(self, leaf: ProjectNode, request: PendingRequest) -> Answer:
        """Propose moves that make the job fit."""
        job, constraints = request.job, request.scheduling_class.constraints
        self._free = self.state.pool.free
        if not self.promising(leaf, request.scheduling_class) or admission.refusal(leaf, job, request.need):
            return NO
        answer = self._search(job)
        if answer.proposal is None:
            self._failed.add(constraints)
        return answer

    def accepted(self, leaf: ProjectNode, proposal: Proposal) -> None:
        """Count the free GPUs again."""
        self._free = self.state.pool.free

    def _is_small(self, constraints: PlacementConstraints) -> bool:
        return constraints.need <= self._free

    def _may_succeed(self, constraints: PlacementConstraints) -> bool:
        """Tell whether moves make room for any job with these constraints."""
        found, retry_at = self._search(constraints.as_job())
        self.builder.retry(retry_at)
        return found is not None

    def _search(self, job: Job) -> Answer:
        """Return the moves that make room, and when a search that fails may succeed."""
        search = MoveSearch(self.builder, job)
        found = search.solve()
        return Answer(found if found is not None and found.relocations else None, search.retry_at)
