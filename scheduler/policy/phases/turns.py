"""The turn: of the jobs that others would pass for ever, the one that waits longest (DESIGN §3, no starvation).

Fair order lets smaller jobs, projects of more weight or priority, and more urgent jobs of the same project pass a
job for as long as they come. So one job at a time has the turn: the longest waiting of those that have waited for
long and have no other way, because their projects are not entitled to them, are at a bound, or they are outranked.
GPUs are reserved for it as they become free, beyond bounds that its project is at, so that no other job of the
project starts until it can. Once it runs, nobody takes its GPUs for an hour but those whom their quotas
guarantee them; then, or at its end, it is the next one's turn. What quotas guarantee to others is never part of a
turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from springtide.scheduler.model import Job
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest
from springtide.scheduler.policy.phases.precedence import outranked
from springtide.scheduler.policy.phases.reservations import RESERVE_AFTER, ReserveAhead, ahead
from springtide.scheduler.policy.placement import gang_placement
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.state.job_queues import scheduling_class_of
from springtide.scheduler.policy.state.nodes import workers_of
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.service import waiting_since

OUTRANKED_FOR = 86_400.0
"""Waiting time after which a job can have the turn although more urgent jobs of its project wait, in seconds."""

MAX_TRIED = 16
"""Maximum number of jobs for which GPUs are looked for in one plan."""


class Turns:
    """Who has the turn on the GPUs of one type."""

    def __init__(self, builder: PlanBuilder) -> None:
        self._builder = builder
        self._state = builder.state
        self._guaranteed: dict[ProjectNode | None, int] = {}

    def find(self) -> None:
        """Note which job has the turn already: one that runs, or one that awaits reserved GPUs."""
        builder = self._builder
        running = [job.id for job in self._state.in_turn.values() if (job.turn_until or 0.0) > builder.now]
        awaiting = (job.id for job in _longest_first(self._state.awaiting.values()) if self._may_have_it(job))
        for job_id in running:
            builder.retry(self._state.jobs[job_id].turn_until or 0.0)
        builder.turn = running[0] if running else next(awaiting, None)

    def take(self) -> None:
        """Start the job that has the turn, or reserve GPUs for it; if none has it, it is the next one's turn."""
        builder = self._builder
        if builder.turn is not None:
            job = self._state.awaiting.get(builder.turn)
            if job is not None and builder.is_dropped(job):
                self._serve(job)
            return
        for _, job in builder.undecided(islice(self._waiting(), MAX_TRIED)):
            builder.turn = job.id
            if self._serve(job):
                return
            builder.turn = None

    def _serve(self, job: Job) -> bool:
        leaf = self._state.leaf_of(job)
        request = PendingRequest(leaf, (0, 0, job.submitted, job.id), job, scheduling_class_of(job))
        return TakeTurn(self._builder).serve_one(request) is not None

    def _waiting(self) -> Iterator[Job]:
        """Yield the jobs that may have the turn, the longest waiting first; note when the next one may."""
        hopeless: set[tuple[str, int]] = set()
        for since, job_id in self._state.waits.ascending():
            if since + RESERVE_AFTER > self._builder.now:
                self._builder.retry(since + RESERVE_AFTER)
                return
            job = self._state.jobs[job_id]
            need = job.gpus * job.min_workers
            if (job.project, need) in hopeless:
                continue
            if not self._is_left_to(self._state.leaf_of(job), need):
                hopeless.add((job.project, need))
            elif self._may_have_it(job):
                yield job

    def _may_have_it(self, job: Job) -> bool:
        """Tell whether the job has waited for long, has no other way, and others' guarantees leave it GPUs."""
        state, now, since = self._state, self._builder.now, waiting_since(job)
        leaf = state.tree.leaves.get(job.project)
        if leaf is None or since + RESERVE_AFTER > now or not state.could_run(job):
            return False
        need = job.gpus * job.min_workers
        if not self._is_left_to(leaf, need):
            return False
        if outranked(state, job):
            self._builder.retry(since + OUTRANKED_FOR)
            return since + OUTRANKED_FOR <= now
        more = max(0, need - len(job.reserved) * job.gpus)
        return not admission.within_entitlement(leaf, more) or admission.refusal(leaf, job, more) is not None

    def _is_left_to(self, leaf: ProjectNode, need: int) -> bool:
        """Tell whether so many GPUs are left by what quotas guarantee to others, within all limits."""
        for project in leaf.path:
            if need > project.limit:
                return False
            need += self._guaranteed_below(project.parent) - _guaranteed(project)
        return need <= self._state.pool.total

    def _guaranteed_below(self, parent: ProjectNode | None) -> int:
        if parent not in self._guaranteed:
            children: Sequence[ProjectNode] = self._state.tree.roots if parent is None else parent.children
            self._guaranteed[parent] = sum(map(_guaranteed, children))
        return self._guaranteed[parent]


def _guaranteed(project: ProjectNode) -> int:
    """Return how many GPUs the quota guarantees of those that the project asks for."""
    return min(project.quota, project.request, project.limit)


def _longest_first(jobs: Iterator[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (waiting_since(job), job.submitted, job.id))


class TakeTurn(ReserveAhead):
    """GPUs for the job that has the turn: free ones, or those that become free one after another."""

    def propose(self, request: PendingRequest) -> Answer:
        """Propose to start the job on free GPUs, or to reserve GPUs for it."""
        leaf, job = request.leaf, request.job
        if admission.may_start(leaf, job, request.need):
            allocation = gang_placement.place_gang(self.state.pool, job, job.min_workers)
            if allocation is not None:
                return Answer(Proposal(job, workers_of(allocation)))
        placement = self.behind_several(job)
        return NO if placement is None else Answer(ahead(self.state, job, placement, "promised"))
