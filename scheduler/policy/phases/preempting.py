"""Preempt: pause less urgent jobs of the same project, and rotate equal ones that had more service (DESIGN §4)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from springtide.scheduler.model import Order
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import FairOrder, PendingRequest
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.preemption.rules import PreemptRule
from springtide.scheduler.policy.preemption.search import VictimSearch
from springtide.scheduler.policy.state.job_queues import PlacementConstraints, SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode

MAX_ROTATIONS = 128
"""Maximum number of jobs rotated in one plan: rotation is not urgent, and every rotated job has to save."""

ROTATIONS = ("rotated", "rotated-for-shorter")
"""Codes of the reasons of rotated jobs."""

ROTATION_INTERVAL = 1.0
"""Time until the next plan if more jobs are to be rotated, in seconds."""


class PreemptJobs(Means):
    """Make room within a project. Projects without result are marked idle in the memo."""

    def __init__(self, builder: PlanBuilder) -> None:
        super().__init__(builder)
        self._max_free = self.state.pool.max_free
        self._leaves: list[ProjectNode] = []
        self._retry_at: dict[str, float] = {}
        self._stays_active: set[str] = set()
        self._wants_gang: set[str] = set()
        self._slots: dict[PlacementConstraints, int] = {}
        self._failed: dict[str, list[tuple[int, SchedulingClass]]] = {}
        self._rotated = 0

    def order(self) -> FairOrder:
        """Order the projects in which a running job may have to give way to a waiting one."""
        names = self.builder.memo.projects_to_search(self.builder.changed_nodes)
        self._leaves = [
            leaf for leaf in map(self.state.tree.leaves.__getitem__, names) if self._has_candidates(leaf)
        ]
        return FairOrder(self._leaves, self.cursor.next_request)

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Tell whether a job of the project is less urgent than the first of this class, or had more service."""
        lowest = self.state.running[leaf.name].lowest_priority()
        if lowest is None or not self._might_fit(leaf, scheduling_class.constraints):
            return False
        priority = -self.state.queues[leaf.name].by_class[scheduling_class][0][0]
        if any(_fails_too(*each, priority, scheduling_class) for each in self._failed.get(leaf.name, ())):
            return False
        return priority > lowest or self._may_rotate(leaf, scheduling_class.service_level)

    def propose(self, leaf: ProjectNode, request: PendingRequest) -> Answer:
        """Propose evictions within the project."""
        job = request.job
        if not self.promising(leaf, request.scheduling_class) or admission.beyond_quota(leaf, job, request.need):
            return NO
        rotates = self._rotated < MAX_ROTATIONS
        retry_at = inf
        if not rotates:
            self._stays_active.add(leaf.name)
            retry_at = self.builder.now + ROTATION_INTERVAL
        rule = PreemptRule(self.state, leaf, job, self.builder.now, rotates=rotates)
        proposal: Proposal | None = None
        if rule.candidate_ids:
            search = VictimSearch(self.builder, leaf, job, rule)
            found = search.solve()
            retry_at = min(retry_at, search.retry_at)
            if not search.is_general:
                self._stays_active.add(leaf.name)
            if not search.fits:
                self._failed.setdefault(leaf.name, []).append((job.priority, request.scheduling_class))
                if job.min_workers > 1:
                    self._wants_gang.add(leaf.name)
            if found is not None and found.evictions:
                taken = tuple(worker for each in found.evictions for worker in each.taken)
                proposal = replace(found, set_aside=taken)
        self._retry_at[leaf.name] = min(retry_at, self._retry_at.get(leaf.name, inf))
        return Answer(proposal, retry_at)

    def accepted(self, leaf: ProjectNode, proposal: Proposal) -> None:
        """Count the rotated jobs."""
        self._rotated += sum(eviction.code in ROTATIONS for eviction in proposal.evictions)

    def finish(self) -> None:
        """Mark projects idle in which nothing can be done until a known time or an event."""
        for leaf in self._leaves:
            until = min(self._retry_at.get(leaf.name, inf), self._next_rotation(leaf))
            heads = self.state.queues[leaf.name].heads()
            fits = any(self._slots_for(each.constraints) >= each.constraints.min_workers for _, each in heads)
            if leaf.name in self._stays_active or fits:
                self.builder.retry(until)
            else:
                self._mark_idle(leaf, until, depends=leaf.name in self._wants_gang)
        self.builder.retry(self.builder.memo.next_activation())

    def _has_candidates(self, leaf: ProjectNode) -> bool:
        """Return whether a running job may have to give way to a waiting one; if not, mark the project idle."""
        lowest = self.state.running[leaf.name].lowest_priority()
        all_heads = self.state.queues[leaf.name].heads()
        fits = {each: self._might_fit(leaf, each) for each in {head[1].constraints for head in all_heads}}
        heads = [head for head in all_heads if fits[head[1].constraints]]
        if heads and lowest is not None:
            least_served = min(each.service_level for _, each in heads)
            if -heads[0][0][0] > lowest or self._may_rotate(leaf, least_served):
                return True
        self._mark_idle(leaf, self._next_rotation(leaf), depends=len(heads) < len(all_heads))
        return False

    def _mark_idle(self, leaf: ProjectNode, until: float, *, depends: bool) -> None:
        """Mark the project idle, except near a limit, where other projects' jobs count too.

        Jobs that accept several GPU types may not have been considered yet, or were served already.
        """
        heads = self.state.queues[leaf.name].heads()
        several = any(self.state.accepts_several(each.constraints.gpu_types) for _, each in heads)
        if several or self.builder.selection.rank:
            self.builder.retry(until)
            return
        most = max((each.need for _, each in heads), default=0)
        if not any(project.claimed + most > project.limit for project in leaf.path):
            depends = depends or any(not each.preemptible for _, each in heads)
            self.builder.memo.mark_idle(leaf.name, until, depends=depends)

    def _may_rotate(self, leaf: ProjectNode, service_level: int) -> bool:
        """Tell whether a running job has had so much service that it can be rotated for this level."""
        if self.state.settings.order is not Order.LEAST_SERVED:
            return False
        at = self.state.running[leaf.name].rotation.first(service_level)
        return at is not None and at <= self.builder.now

    def _next_rotation(self, leaf: ProjectNode) -> float:
        """Return when the next running job can be rotated, in seconds, or infinity."""
        if self.state.settings.order is not Order.LEAST_SERVED:
            return inf
        levels = {each.service_level for _, each in self.state.queues[leaf.name].heads()}
        rotation = self.state.running[leaf.name].rotation
        times = (rotation.after(level, self.builder.now) for level in levels)
        return min((at for at in times if at is not None), default=inf)

    def _might_fit(self, leaf: ProjectNode, constraints: PlacementConstraints) -> bool:
        """Tell whether such a job might fit if all preemptible jobs of the project ended."""
        instead = self.state.running[leaf.name].slots(constraints.gpus, self._max_free)
        return instead > 0 and instead + self._slots_for(constraints) >= constraints.min_workers

    def _slots_for(self, constraints: PlacementConstraints) -> int:
        """Return how many workers fit on free GPUs, those of stopping attempts included."""
        if constraints not in self._slots:
            self._slots[constraints] = self.state.pool.slots(constraints.gpus, self.state.pool.all)
        return self._slots[constraints]


def _fails_too(failed_priority: int, failed: SchedulingClass, priority: int, other: SchedulingClass) -> bool:
    """Tell whether no job of the project can give way to the other request, as none could to the one that failed.

    A job of one worker that asks for as many GPUs or more has no more to choose from, if it is not more urgent and
    had no less service.
    """
    one, two = failed.constraints, other.constraints
    return (
        one.min_workers == 1
        and one.gpus <= two.gpus
        and one._replace(gpus=two.gpus) == two
        and failed.preemptible == other.preemptible
        and failed_priority >= priority
        and failed.service_level <= other.service_level
    )
