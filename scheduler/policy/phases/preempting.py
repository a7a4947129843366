"""Preempt: pause less urgent jobs of the same project, and rotate equal ones with more service.

The rules are in docs/policy.md (The rules and their places).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from operator import le

from springtide.scheduler.model import Job, Order
from springtide.scheduler.policy.eviction.rules import PreemptRule, ReclaimRule
from springtide.scheduler.policy.eviction.search import VictimSearch
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.plan_builder import Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.state.job_queues import PlacementConstraints, SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode

MAX_ROTATIONS = 128
"""Maximum number of jobs rotated in one plan: rotation is not urgent, and every rotated job has to save."""

ROTATIONS = ("rotated", "rotated-for-shorter")
"""Codes of the reasons of rotated jobs."""

ROTATION_INTERVAL = 1.0
"""Time until the next plan if more jobs are to be rotated, in seconds."""


Difficulty = tuple[int, int, int]
"""GPUs of a worker, service level, negative priority: a search fails if an easier one has failed."""


class PreemptJobs(Means):
    """Make room within a project. Projects without result are marked idle in the memo."""

    def __init__(self, builder: PlanBuilder) -> None:
        super().__init__(builder)
        self._leaves: list[ProjectNode] = []
        self._failed: defaultdict[tuple[str, SchedulingClass], list[Difficulty]] = defaultdict(list)
        self._retry_at: dict[str, float] = {}
        self._stays_active: set[str] = set()
        self._rotated = 0

    def leaves(self) -> Iterable[ProjectNode]:
        """Return the projects in which a running job may have to make room for a waiting one; others are idle."""
        for name in self.builder.memo.projects_to_search(self.builder.changed_nodes):
            leaf = self.state.tree.leaves[name]
            if any(self._promising(leaf, each, -key[0]) for key, each in self.state.queues[name].heads()):
                self._leaves.append(leaf)
            else:
                self._mark_idle(leaf)
        return self._leaves

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return whether a job of the project is less urgent than the first of this class, or had more service."""
        return self._promising(
            leaf, scheduling_class, -self.state.queues[leaf.name].by_class[scheduling_class][0][0]
        )

    def _promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass, priority: int) -> bool:
        running, level = self.state.running[leaf.name], scheduling_class.service_level
        less_urgent = running.by_priority.first() < priority
        rotates = self.state.settings.order is Order.LEAST_SERVED
        had_more = rotates and running.ripe_times(level).first() <= self.builder.now
        if not (less_urgent or had_more) or not self._might_fit(leaf, scheduling_class.constraints):
            return False
        difficulty = (scheduling_class.constraints.gpus, level, -priority)
        failed = self._failed.get(_apart_from_difficulty(leaf, scheduling_class), ()) if self._failed else ()
        return not any(all(map(le, easier, difficulty)) for easier in failed)

    def propose(self, request: PendingRequest) -> Answer:
        """Propose evictions within the project."""
        leaf, job = request.leaf, request.job
        promising = self._promising(leaf, request.scheduling_class, job.priority)
        if not promising or admission.beyond_quota(leaf, job, request.need):
            return Answer(None, self._next_rotation(leaf, [request.scheduling_class]))
        rotates = self._rotated < MAX_ROTATIONS
        rule = PreemptRule(self.state, leaf, job, self.builder.now, rotates=rotates)
        search = VictimSearch(self.builder, leaf, job, rule)
        proposal = search.solve() if rule.candidate_ids else None
        if proposal is not None or not rotates:
            self._stays_active.add(leaf.name)
        soonest = self._next_rotation(leaf, [request.scheduling_class])
        retry_at = min(search.retry_at, soonest if rotates else self.builder.now + ROTATION_INTERVAL)
        self._retry_at[leaf.name] = min(retry_at, self._retry_at.get(leaf.name, inf))
        if proposal is None:
            failed = self._failed[_apart_from_difficulty(leaf, request.scheduling_class)]
            failed.append((job.gpus, request.scheduling_class.service_level, -job.priority))
        if proposal is None or not proposal.evictions:
            return Answer(None, retry_at)
        taken = tuple(worker for eviction in proposal.evictions for worker in eviction.taken)
        spared = self._spared_borrowers(request)
        evictions = tuple(eviction._replace(spared=spared) for eviction in proposal.evictions)
        return Answer(replace(proposal, evictions=evictions, set_aside=taken), retry_at)

    def _spared_borrowers(self, request: PendingRequest) -> tuple[Job, ...]:
        """Return the jobs of others that would make way for a guaranteed job but for their minimum run times."""
        leaf, job = request.leaf, request.job
        if not admission.guaranteed(leaf, request.need):
            return ()
        rule = ReclaimRule(self.state, leaf, request.need)
        found = VictimSearch(self.builder, leaf, job, rule, ahead=True).solve()
        victims = () if found is None else (eviction.job for eviction in found.evictions)
        now = self.builder.now
        return tuple(victim for victim in victims if self.builder.protected_until(victim, job) > now)

    def accepted(self, request: PendingRequest, proposal: Proposal) -> None:
        """Count the rotated jobs; usage has changed, so failed searches may succeed now."""
        self._failed.clear()
        self._rotated += sum(eviction.code in ROTATIONS for eviction in proposal.evictions)

    def serve(self) -> None:
        """Serve the requests; mark projects idle that need no attention until a known time or an event."""
        super().serve()
        for leaf in self._leaves:
            self._mark_idle(leaf)
        self.builder.retry(self.builder.memo.next_activation())

    def _mark_idle(self, leaf: ProjectNode) -> None:
        """Mark the project idle, except near a limit, for which other projects' jobs count too.

        It depends on others if one of its jobs needs quota, or GPUs that its own jobs cannot free. Jobs that
        accept several GPU types may not have been considered yet, or were served already.
        """
        heads = [each for _, each in self.state.queues[leaf.name].heads()]
        several = any(self.state.accepts_several(head.constraints.gpu_types) for head in heads)
        until = min(self._retry_at.get(leaf.name, inf), self._next_rotation(leaf, heads))
        if leaf.name in self._stays_active or several or self.builder.rank:
            self.builder.retry(until)
        elif admission.over_limit(leaf, max((head.need for head in heads), default=0)) is None:
            depends = any(
                head.constraints.min_workers > 1
                or not head.preemptible
                or not self._might_fit(leaf, head.constraints)
                for head in heads
            )
            self.builder.memo.mark_idle(leaf.name, until, depends=depends)

    def _next_rotation(self, leaf: ProjectNode, waiting: Iterable[SchedulingClass]) -> float:
        """Return when the next running job can be rotated, in seconds, or infinity."""
        if self.state.settings.order is not Order.LEAST_SERVED:
            return inf
        levels = {waiting_class.service_level for waiting_class in waiting}
        running = self.state.running[leaf.name]
        return min((running.ripe_times(level).first(self.builder.now) for level in levels), default=inf)

    def _might_fit(self, leaf: ProjectNode, constraints: PlacementConstraints) -> bool:
        """Return whether such a job might fit if all preemptible jobs of the project ended."""
        pool = self.state.pool
        instead = self.state.running[leaf.name].slots(constraints.gpus, pool.max_free)
        if instead == 0 or instead >= constraints.min_workers:
            return instead > 0
        return instead + pool.slots(constraints.gpus, pool.all) >= constraints.min_workers


def _apart_from_difficulty(leaf: ProjectNode, scheduling_class: SchedulingClass) -> tuple[str, SchedulingClass]:
    """Return the key of searches whose difficulties can be compared."""
    constraints = scheduling_class.constraints._replace(gpus=0)
    return leaf.name, scheduling_class._replace(constraints=constraints, service_level=0)
