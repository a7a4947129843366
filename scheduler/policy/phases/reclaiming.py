"""Reclaim: take GPUs back from projects that hold more than their due (docs/policy.md, How a plan is made)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from springtide.scheduler.model import Job
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.eviction.rules import ReclaimRule
from springtide.scheduler.policy.eviction.search import VictimSearch
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest
from springtide.scheduler.policy.phases.elastic import growing_jobs, one_more_worker
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.phases.precedence import delayed_reservations, runtimes_awaited_until
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.state.job_queues import SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode


class ReclaimGpus(Means):
    """Make room for waiting jobs that their projects are entitled to, at the cost of projects beyond it.

    A job that the quota guarantees gets room though delayed reservations of its project, which count as usage,
    exceed the quota with it: these are dropped, except the turn's and those for the end of minimum run times.
    """

    def __init__(self, builder: PlanBuilder) -> None:
        super().__init__(builder)
        self._failed: set[tuple[str, SchedulingClass]] = set()
        self._delayed: dict[str, list[Job]] = {}
        for _, job in builder.undecided(delayed_reservations(builder.state)):
            if runtimes_awaited_until(builder, job) <= builder.now and job.id != builder.turn:
                self._delayed.setdefault(job.project, []).append(job)

    def leaves(self) -> Iterable[ProjectNode]:
        """Return the projects with a waiting job that they are entitled to."""
        leaves = set(self.builder.memo.entitled_projects())
        for project in self._delayed:
            leaf, smallest = self.state.tree.leaves[project], self.state.queues[project].smallest
            if smallest and self._is_guaranteed(leaf, smallest, self._reserved(leaf)):
                leaves.add(leaf)
        return leaves

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return whether the project is entitled to such a job, and no search for one has failed in this plan."""
        return self._is_due(leaf, scheduling_class, self._reserved(leaf))

    def _is_due(self, leaf: ProjectNode, scheduling_class: SchedulingClass, reserved: int) -> bool:
        tried = (leaf.name, scheduling_class._replace(service_level=0)) in self._failed
        need = scheduling_class.need
        return not tried and (leaf.claimed + need <= leaf.entitled or self._is_guaranteed(leaf, need, reserved))

    def propose(self, request: PendingRequest) -> Answer:
        """Propose evictions of other projects' jobs."""
        leaf, job, need = request.leaf, request.job, request.need
        reserved = self._reserved(leaf, job)
        if not self._is_due(leaf, request.scheduling_class, reserved):
            return NO
        over = leaf.claimed + need > leaf.entitled
        delayed = tuple(self._beside(leaf, job)) if over else ()
        with self.state.undo.trial():
            for reserving in delayed:
                self.state.release(reserving)
            if admission.beyond_quota(leaf, job, need) is not None:
                return NO
            search = self.victim_search(leaf, job, need)
            found = search.solve()
            if found is None and search.rule.guaranteed:
                found = search.solve_with_moves()
        if found is None:
            self._failed.add((leaf.name, request.scheduling_class._replace(service_level=0)))
            if admission.guaranteed(leaf, need - reserved):
                self.builder.guarantee_pending = True
            return Answer(None, search.retry_at)
        return Answer(replace(found, dropped=(*delayed, *found.dropped)), search.retry_at)

    def accepted(self, request: PendingRequest, proposal: Proposal) -> None:
        """Record the reclaiming projects; forget the delayed reservations that the proposal drops."""
        self.builder.reclaiming.update(request.leaf.path)
        for job in proposal.dropped:
            self._delayed.pop(job.project, None)

    def _is_guaranteed(self, leaf: ProjectNode, need: int, reserved: int) -> bool:
        """Return whether the job is within the quota if ``reserved`` GPUs of the project do not count."""
        return reserved > 0 and leaf.claimed - reserved + need <= leaf.quota

    def _beside(self, leaf: ProjectNode, job: Job | None = None) -> Iterator[Job]:
        """Yield the project's other jobs whose delayed reservations the job may have dropped."""
        return (other for other in self._delayed.get(leaf.name, ()) if job is None or other.id != job.id)

    def _reserved(self, leaf: ProjectNode, job: Job | None = None) -> int:
        """Return how many GPUs these delayed reservations have."""
        return sum(len(other.reserved) * other.gpus for other in self._beside(leaf, job))

    def victim_search(self, leaf: ProjectNode, job: Job, need: int, *, ahead: bool = False) -> VictimSearch:
        """Return a search for jobs that have to make room for ``need`` GPUs, now or ``ahead``."""
        return VictimSearch(self.builder, leaf, job, ReclaimRule(self.state, leaf, need), ahead=ahead)


class GrowIntoQuota(ReclaimGpus):
    """Make room for more workers of elastic jobs as far as the quotas of their projects reach.

    Growth costs a restart, so nothing is reclaimed in order to grow beyond the quota.
    """

    def leaves(self) -> Iterable[ProjectNode]:
        """Return the projects with an elastic job that may grow."""
        for leaf, job in growing_jobs(self.builder, lambda leaf, job: admission.guaranteed(leaf, job.gpus)):
            self.cursor.offer_growth(leaf, job)
        return self.cursor.growing

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Pass over all waiting jobs."""
        return False

    def propose(self, request: PendingRequest) -> Answer:
        """Propose evictions for one more worker."""
        builder, leaf, job = self.builder, request.leaf, request.job
        workers = builder.workers_planned(job)
        paused = builder.is_shrunk(job) or (job.id in builder.decided and len(workers) <= len(job.placement))
        refused = not admission.guaranteed(leaf, job.gpus) or admission.over_limit(leaf, job.gpus) is not None
        if paused or refused or len(workers) == job.workers:
            return NO
        asks, nodes = one_more_worker(builder, job, workers)
        search = self.victim_search(leaf, asks, job.gpus)
        search.nodes &= nodes
        found = search.solve()
        if found is None:
            return Answer(None, search.retry_at)
        why = reasons.gets_workers("grows", job, workers + found.placement)
        return Answer(replace(found, why=why, grows=True), search.retry_at)
