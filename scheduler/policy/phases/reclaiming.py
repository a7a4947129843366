"""Reclaim: take GPUs back from projects that hold more than their due (DESIGN §4, cycle)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from springtide.scheduler.model import Job
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest
from springtide.scheduler.policy.phases.elastic import growing_jobs, one_more_worker
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.phases.precedence import delayed_reservations
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.preemption.candidates import SearchCache
from springtide.scheduler.policy.preemption.rules import ReclaimRule
from springtide.scheduler.policy.preemption.search import VictimSearch
from springtide.scheduler.policy.state.job_queues import SchedulingClass, scheduling_class_of
from springtide.scheduler.policy.state.projects import ProjectNode


class ReclaimGpus(Means):
    """Make room for waiting jobs that their projects are entitled to, at the cost of projects beyond it."""

    def __init__(self, builder: PlanBuilder) -> None:
        super().__init__(builder)
        self._failed: set[tuple[str, SchedulingClass]] = set()
        self._cache = SearchCache()
        self._delayed: dict[str, list[Job]] = {}
        self._changed_nodes = 0

    def leaves(self) -> Iterable[ProjectNode]:
        """Return the projects with a waiting job that they are entitled to."""
        leaves = set(self.builder.memo.entitled_projects())
        for leaf, job in self.builder.undecided(delayed_reservations(self.state)):
            self._delayed.setdefault(job.project, []).append(job)
            smallest = self.state.queues[leaf.name].smallest
            if smallest and self._is_guaranteed(leaf, smallest):
                leaves.add(leaf)
        return leaves

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Tell whether the project is entitled to such a job, and no search for one has failed in this plan."""
        tried = (leaf.name, scheduling_class._replace(service_level=0)) in self._failed
        need = scheduling_class.need
        return not tried and (leaf.claimed + need <= leaf.entitled or self._is_guaranteed(leaf, need))

    def propose(self, request: PendingRequest) -> Answer:
        """Propose evictions of other projects' jobs."""
        leaf = request.leaf
        if not self.promising(leaf, request.scheduling_class):
            return NO
        over = leaf.claimed + request.need > leaf.entitled
        delayed = tuple(self._delayed[leaf.name]) if over else ()
        with self.state.undo.trial():
            for job in delayed:
                self.state.release(job)
            self._changed_nodes = self.state.pool.nodes_of(worker for job in delayed for worker in job.reserved)
            found, retry_at = self._search(leaf, request.job, request.need)
        if found is None:
            self._failed.add((leaf.name, request.scheduling_class._replace(service_level=0)))
            if retry_at < inf and (over or admission.guaranteed(leaf, request.need)):
                self.builder.guarantee_delayed = True
            return Answer(None, retry_at)
        return Answer(replace(found, dropped=(*delayed, *found.dropped)), retry_at)

    def accepted(self, request: PendingRequest, proposal: Proposal) -> None:
        """Take note of who reclaims; forget the delayed reservations that the proposal drops."""
        self.builder.reclaiming.update(request.leaf.path)
        for job in proposal.dropped:
            self._delayed.pop(job.project, None)

    def _is_guaranteed(self, leaf: ProjectNode, need: int) -> bool:
        """Tell whether the job is within the quota if the project's delayed reservations do not count as held."""
        released = sum(len(job.reserved) * job.gpus for job in self._delayed.get(leaf.name, ()))
        return released > 0 and leaf.claimed - released + need <= leaf.quota

    def _search(self, leaf: ProjectNode, job: Job, need: int) -> Answer:
        """Search for victims; for a guaranteed job also for victims that make room for jobs to be moved."""
        if admission.beyond_quota(leaf, job, need) is not None:
            return NO
        if job.min_workers > 1 or admission.over_limit(leaf, need) is not None:
            search = self._victim_search(leaf, job, need)
            found, retry_at = search.solve(), search.retry_at
        else:
            found, retry_at = self._search_for_one(leaf, job, self.state.pool.all)
        if found is None and leaf.claimed + need <= leaf.quota:
            search = self._victim_search(leaf, job, need)
            found = search.solve_with_moves()
            retry_at = min(retry_at, search.retry_at)
        return Answer(found, retry_at)

    def _search_for_one(self, leaf: ProjectNode, job: Job, within: int) -> Answer:
        """Search for victims for one worker on some nodes, and only where an earlier search has not failed."""
        builder = self.builder
        search = self._victim_search(leaf, job, job.gpus)
        slack = search.slack
        everywhere = not search.nodes & ~within
        kind = (scheduling_class_of(job).constraints, job.preemptible)
        changed = builder.changed_nodes | self._changed_nodes
        nodes, until = builder.memo.failures.nodes_to_search(kind, leaf.name, slack, changed, builder.now)
        if search.rule.guaranteed and search.rule.barrier is not None:
            nodes, until = within, inf  # who is behind the barrier may give more than at the failure
        elif search.rule.guaranteed:
            awaiting = (each for each in self.state.awaiting.values() if each.preemptible)
            nodes |= self.state.pool.nodes_of(worker for each in awaiting for worker in each.reserved)
        search.nodes &= within & nodes
        found = search.solve() if search.nodes else None
        until = min(until, search.retry_at)
        if found is None and everywhere and search.is_general and not changed:
            builder.memo.failures.record_search(kind, leaf.name, slack, until)
        return Answer(found, until)

    def _victim_search(self, leaf: ProjectNode, job: Job, need: int) -> VictimSearch:
        return VictimSearch(self.builder, leaf, job, ReclaimRule(self.state, leaf, need), self._cache)


class GrowIntoQuota(ReclaimGpus):
    """Make room for more workers of elastic jobs as far as the quotas of their projects reach.

    Growth costs a restart, so nothing is reclaimed in order to grow beyond the quota.
    """

    def leaves(self) -> Iterable[ProjectNode]:
        """Return the projects with an elastic job that may grow."""
        for leaf, job in growing_jobs(self.builder, lambda leaf, job: _owns(leaf, job.gpus)):
            self.cursor.offer_growth(leaf, job)
        return self.cursor.growing

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Pass over all waiting jobs."""
        return False

    def propose(self, request: PendingRequest) -> Answer:
        """Propose evictions for one more worker."""
        builder, leaf, job = self.builder, request.leaf, request.job
        workers = builder.workers_planned(job)
        paused = builder.is_shrunk(job) or (job.id in builder.decided and workers == job.placement)
        refused = not _owns(leaf, job.gpus) or admission.over_limit(leaf, job.gpus) is not None
        if paused or refused or len(workers) == job.workers:
            return NO
        asks, nodes = one_more_worker(builder, job, workers)
        found, retry_at = self._search_for_one(leaf, asks, nodes)
        if found is None:
            return Answer(None, retry_at)
        why = reasons.gets_workers("grows", job, workers + found.placement)
        return Answer(replace(found, why=why, grows=True), retry_at)


def _owns(leaf: ProjectNode, need: int) -> bool:
    """Tell whether the GPUs are within the project's quota, and its ancestors can honour that."""
    return leaf.claimed + need <= leaf.quota and admission.within_entitlement(leaf, need)
