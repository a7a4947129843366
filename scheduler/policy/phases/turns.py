"""The turn: one job at a time that others would pass for ever (docs/policy.md, The bound of waiting).

Fair order lets smaller jobs, projects of more weight or priority, and more urgent jobs of the same project pass a
job as long as they keep coming. So one job at a time has the turn: the one that has waited longest, if nothing
else bounds its wait, because its project is not entitled to it or is at a bound, or because other jobs outrank it.
It gets GPUs that others hold beyond their entitlement, or else GPUs reserved as they become free, even beyond the
bounds of its project, so that no other job of the project starts before it. Once it runs, only guaranteed jobs
take its GPUs within an hour; after that, or at its end, the next job has the turn. GPUs that quotas guarantee to
others are never part of a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter

from springtide.scheduler.model import Job
from springtide.scheduler.policy import gang_placement
from springtide.scheduler.policy.eviction.rules import TurnRule
from springtide.scheduler.policy.eviction.search import VictimSearch
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.ordering.fair_order import PendingRequest, request_of
from springtide.scheduler.policy.phases.means import Means
from springtide.scheduler.policy.phases.precedence import outranked
from springtide.scheduler.policy.phases.reservations import RESERVE_AFTER, ReserveAhead, ahead
from springtide.scheduler.policy.plan_builder import NO, Answer, PlanBuilder
from springtide.scheduler.policy.state.job_queues import SchedulingClass
from springtide.scheduler.policy.state.nodes import workers_of
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.protection import turn_end

OUTRANKED_FOR = 86_400.0
"""Waiting time after which a job can have the turn although more urgent jobs of its project wait, in seconds."""

MAX_TRIED = 16
"""Maximum number of jobs tried for the turn in one plan."""


class Turns:
    """The turn on the GPUs of one type."""

    def __init__(self, builder: PlanBuilder) -> None:
        self._builder = builder
        self._state = builder.state
        self._guaranteed: dict[ProjectNode | None, int] = {}

    def find(self) -> None:
        """Find the job that has the turn already: a running one, or one with a reservation."""
        builder, leaves = self._builder, self._state.tree.leaves
        for job in self._state.in_turn.values():
            builder.retry(turn_end(job))
            if turn_end(job) > builder.now:
                builder.turn = job.id
        for job in self._state.awaiting.values():
            if job.turn and job.project in leaves and self._is_left_to(leaves[job.project], job.need):
                builder.turn = job.id

    def take(self) -> None:
        """Reserve GPUs for the job with the turn; if there is none, give the turn to the next job.

        What the plan has decided may be all that is in the way of a job: no later one has the turn in its stead.
        """
        builder = self._builder
        if builder.turn is not None:
            job = self._state.awaiting.get(builder.turn)
            if job is not None and job.id in builder.displaced:
                self._serve(job)
            return
        for _, job in builder.undecided(islice(self._waiting(), MAX_TRIED)):
            builder.turn = job.id
            if self._serve(job):
                return
            builder.turn = None
            if builder.decided:
                return

    def _serve(self, job: Job) -> bool:
        request = request_of(self._state.leaf_of(job), job)
        means = (kind(self._builder) for kind in (ReclaimInTurn, TakeTurn))
        return any(option.serve_one(request) is not None for option in means)

    def _waiting(self) -> Iterator[Job]:
        """Yield the jobs that may have the turn, the longest waiting first; record when the next one may."""
        hopeless: set[tuple[str, int]] = set()
        for since, together in groupby(self._state.waits.ascending(), key=itemgetter(0)):
            if since + RESERVE_AFTER > self._builder.now:
                self._builder.retry(since + RESERVE_AFTER)
                return
            for job in self._in_order(self._state.jobs[job_id] for _, job_id in together):
                if (job.project, job.need) in hopeless:
                    continue
                if not self._is_left_to(self._state.leaf_of(job), job.need):
                    hopeless.add((job.project, job.need))
                elif self._has_no_other_way(job, since):
                    yield job

    def _in_order(self, jobs: Iterable[Job]) -> list[Job]:
        """Return jobs that wait equally long, that of the project with less recent use first."""

        def key(job: Job) -> tuple[float, float, int, str]:
            leaf = self._state.leaf_of(job)
            return (job.submitted, leaf.use_rank, leaf.age, job.id)

        return sorted(jobs, key=key)

    def _has_no_other_way(self, job: Job, since: float) -> bool:
        """Return whether nothing else bounds the long wait of a job, ``since`` that time."""
        leaf = self._state.leaf_of(job)
        if outranked(self._state, job):
            self._builder.retry(since + OUTRANKED_FOR)
            return since + OUTRANKED_FOR <= self._builder.now
        refused = admission.refusal(leaf, job, job.need) is not None
        return refused or not admission.within_entitlement(leaf, job.need)

    def _is_left_to(self, leaf: ProjectNode, need: int) -> bool:
        """Return whether the GPUs that quotas guarantee to others leave ``need``, within all limits."""
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
    """Return how many of the requested GPUs the quota guarantees."""
    return min(project.quota, project.due)


class ReclaimInTurn(Means):
    """GPUs that others hold beyond their entitlement, for the job with the turn."""

    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return True: any job may have the turn."""
        return True

    def propose(self, request: PendingRequest) -> Answer:
        """Propose evictions of jobs of other projects."""
        leaf, job = request.leaf, request.job
        if job.id != self.builder.turn or admission.beyond_quota(leaf, job, request.need) is not None:
            return NO
        search = VictimSearch(self.builder, leaf, job, TurnRule(self.state, leaf, request.need))
        return Answer(search.solve(), search.retry_at)


class TakeTurn(ReserveAhead):
    """GPUs for the job with the turn: free ones, or GPUs that become free one after another."""

    def propose(self, request: PendingRequest) -> Answer:
        """Propose to reserve GPUs: free ones, or GPUs that become free one after another."""
        job = request.job
        parts = gang_placement.place_gang(self.state.pool, job, job.min_workers)
        placement = self.behind_several(job) if parts is None else workers_of(parts)
        return NO if placement is None else Answer(ahead(self.state, job, placement, "promised"))
