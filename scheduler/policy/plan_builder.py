"""The decisions of a plan that is being built, and the proposals that it is built of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from springtide.scheduler.model import Decision, Drop, Job, Move, Pause, Phase, Placement, Reason, Reserve, Start
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.memo.memo import Memo
from springtide.scheduler.policy.state.job_queues import SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode


class Eviction(NamedTuple):
    """GPUs taken from a running job: all (it is paused), or those of some workers (it shrinks)."""

    job: Job
    taken: Placement
    left: Placement
    code: str
    """Code of the reason."""


class Relocation(NamedTuple):
    """A running job of which some workers leave their GPUs for others."""

    job: Job
    taken: Placement
    landed: Placement

    @property
    def placement(self) -> Placement:
        """All its workers after the move."""
        stay = tuple(worker for worker in self.job.placement if worker not in self.taken)
        return ranked(stay + self.landed)


@dataclass(frozen=True, slots=True)
class Proposal:
    """GPUs for a job, and what has to happen before it gets them.

    ``grows`` tells that ``placement`` are more workers of a job that runs or is being started. The GPUs are free
    now, or become free ``later``: then they are reserved. ``why`` is the reason, None for room made by other jobs.
    ``set_aside`` are evicted GPUs that nobody else may get in this plan, ``dropped`` jobs that lose their
    reservations.
    """

    job: Job
    placement: Placement
    why: Reason | None = None
    grows: bool = False
    later: bool = False
    evictions: tuple[Eviction, ...] = ()
    relocations: tuple[Relocation, ...] = ()
    set_aside: Placement = ()
    dropped: tuple[Job, ...] = ()


class Answer(NamedTuple):
    """A proposal or None, and the time after which time alone may give another answer (infinity: never)."""

    proposal: Proposal | None
    retry_at: float = inf


NO = Answer(None)
"""Nothing can be done for a request until something happens."""


class Selection(NamedTuple):
    """Which waiting jobs are considered.

    ``rank`` selects the jobs that have this GPU type at that position among those that they accept; None selects
    all. ``guaranteed`` selects jobs within the quota of their project only.
    """

    rank: int | None = None
    guaranteed: bool = False


ALL = Selection()


class PlanBuilder:
    """The decisions made so far for one GPU type, and the state as it will be once they are carried out.

    ``selection`` are the waiting jobs that are considered at present. ``decided`` are the jobs about which nothing
    more is decided in this plan, by id, with their projects; the builders of all types share it.
    ``elastic_starts`` are the started jobs that may get more workers; ``changed_nodes`` the nodes where jobs that
    run or have a reservation lose GPUs; ``awaited`` the running jobs that a guaranteed request may evict once
    their extended minimum run time is over; ``reclaiming`` the projects that get GPUs of others, with all above
    them; ``retry_at`` is the earliest time at which time alone may change the plan.
    """

    def __init__(self, memo: Memo, now: float, decided: dict[str, str] | None = None) -> None:
        self.state = memo.state
        self.memo = memo
        self.now = now
        self.selection = ALL
        self.decided = {} if decided is None else decided
        self.elastic_starts: list[tuple[ProjectNode, Job]] = []
        self.changed_nodes = 0
        self.awaited: set[str] = set()
        self.reclaiming: set[ProjectNode] = set()
        self.guarantee_delayed = False
        self.retry_at = inf
        self._drops: list[Drop] = []
        self._placed: dict[str, Start | Move] = {}
        self._shrunk: dict[str, Move] = {}
        self._others: list[Decision] = []
        self._left: dict[str, Placement] = {}

    # ---------- asking

    @property
    def frees_gpus(self) -> bool:
        """Whether any job has to give up GPUs, or a reservation was made or dropped."""
        return bool(self._others or self._drops or self._shrunk)

    def considers(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Tell whether the waiting jobs of a class are selected."""
        rank, guaranteed = self.selection
        if guaranteed and leaf.claimed + scheduling_class.need > leaf.quota:
            return False
        return rank is None or rank == self.state.rank_of(scheduling_class.constraints.gpu_types)

    def undecided(self, jobs: Iterable[Job]) -> Iterator[tuple[ProjectNode, Job]]:
        """Yield those of the jobs about which nothing is decided, with their projects; none of unknown ones."""
        for job in jobs:
            leaf = self.state.tree.leaves.get(job.project)
            if leaf is not None and job.id not in self.decided:
                yield leaf, job

    def reclaims_too_much(self, leaf: ProjectNode, need: int) -> bool:
        """Tell whether a project that gets GPUs of others in this plan would exceed what it is entitled to."""
        return any(
            project in self.reclaiming and project.claimed + need > project.entitled for project in leaf.path
        )

    def is_starting(self, job: Job) -> bool:
        """Tell whether the job is started by this plan."""
        return isinstance(self._placed.get(job.id), Start)

    def is_shrunk(self, job: Job) -> bool:
        """Tell whether the plan takes some of the job's workers."""
        return job.id in self._shrunk

    def workers_left(self, job: Job) -> Placement:
        """Return the workers that a running job keeps."""
        return self._left.get(job.id, job.placement)

    def workers_planned(self, job: Job) -> Placement:
        """Return the workers that a job has after this plan, growth included."""
        return self._placed[job.id].placement if job.id in self._placed else job.placement

    def may_stop(self, job: Job) -> bool:
        """Tell whether the attempt can be paused or moved, its minimum run time aside."""
        return (
            job.preemptible
            and job.phase is Phase.RUNNING
            and job.id not in self.decided
            and job.project in self.state.tree.leaves
        )

    def protected_until(self, job: Job) -> float:
        """Return the end of the job's minimum run time if that is still to come, else minus infinity."""
        over = (job.started or 0.0) + self.state.settings.min_runtime
        return over if over > self.now and self.state.settings.min_runtime > 0 else -inf

    # ---------- deciding

    def retry(self, at: float) -> None:
        """Note a time at which the plan may change."""
        if self.now < at < self.retry_at:
            self.retry_at = at

    def accept(self, leaf: ProjectNode, proposal: Proposal) -> list[ProjectNode]:
        """Decide what is proposed for a job of ``leaf``; return the projects that lose GPUs."""
        pool, job, placement = self.state.pool, proposal.job, proposal.placement
        for each in proposal.dropped:
            self.state.release(each)
            self.drop_reservation(each, "reservation-refused")
        for eviction in proposal.evictions:
            self.take(eviction.job, eviction.taken, eviction.left)
        for eviction in proposal.evictions:
            victim, keeps = eviction.job, len(eviction.left)
            theirs = self.state.leaf_of(victim)
            why = reasons.made_way(victim, theirs, job, leaf, kind=eviction.code, keeps=keeps)
            self.decide_eviction(victim, job.id, why)
        for moved in proposal.relocations:
            pool.vacate(moved.job.id, moved.taken)
            pool.reserve(moved.landed)
            self.changed_nodes |= pool.nodes_of(moved.job.placement)
            shrunk = self._shrunk.get(moved.job.id)
            why = reasons.makes_room(moved.job, job) if shrunk is None else shrunk.reason
            self.decide(moved.job, Move(moved.job.id, moved.placement, job.id, why))
        if proposal.later:
            pool.reserve(placement)
        else:
            pool.occupy(job.id, placement)
        gpus = len(placement) * job.gpus
        self.state.tree.add_usage(leaf, gpus, preemptible=job.preemptible, held=0 if proposal.later else gpus)
        pool.reserve(proposal.set_aside)
        if self.selection.guaranteed:
            pool.reserve(worker for each in proposal.evictions for worker in each.taken)
            pool.reserve(worker for each in proposal.relocations for worker in each.taken)
        self._decide_placement(proposal)
        losing = (*proposal.dropped, *(eviction.job for eviction in proposal.evictions))
        return [self.state.leaf_of(each) for each in losing]

    def take(self, job: Job, taken: Placement, left: Placement) -> None:
        """Take GPUs from a running job, which keeps those of ``left``; the log of the state can take it back."""
        self.state.pool.vacate(job.id, taken)
        self._keep(job, left, -len(taken) * job.gpus)

    def give_back(self, job: Job, taken: Placement) -> None:
        """Give a running job GPUs back that were taken from it."""
        self.state.pool.occupy(job.id, taken)
        self._keep(job, self.workers_left(job) + taken, len(taken) * job.gpus)

    def _keep(self, job: Job, left: Placement, gpus: int) -> None:
        self.state.tree.add_usage(self.state.leaf_of(job), gpus, preemptible=job.preemptible)
        self.state.undo.record(self._left.__setitem__, job.id, self.workers_left(job))
        self._left[job.id] = left

    def decide_eviction(self, job: Job, beneficiary: str | None, why: Reason) -> None:
        """Decide that a job of which GPUs were taken is paused, or goes on with the others, for another job."""
        left = self.workers_left(job)
        self.changed_nodes |= self.state.pool.nodes_of(job.placement)
        if left:
            self._shrunk[job.id] = Move(job.id, ranked(left), beneficiary, why)
        else:
            self.decide(job, Pause(job.id, beneficiary, why))

    def decide(self, job: Job, decision: Pause | Move) -> None:
        """Decide about a running job; nothing more is decided about it in this plan."""
        self._shrunk.pop(job.id, None)
        self._others.append(decision)
        self.decided[job.id] = job.project

    def drop_reservation(self, job: Job, code: str) -> None:
        """Decide that the job's reservation, which the state has released, ends; for the reason with this code."""
        self._drops.append(Drop(job.id, reasons.of_reservation(code, job)))
        self.decided[job.id] = job.project
        self.reservation_released(job)

    def reservation_released(self, job: Job) -> None:
        """Take note that GPUs reserved for the job can be used by other jobs, or freed for them."""
        self.changed_nodes |= self.state.pool.nodes_of(job.reserved)
        self.memo.reservation_released(job)

    def decisions(self) -> tuple[Decision, ...]:
        """Return all decisions: what is given up, what starts, what makes room."""
        return (
            *self._drops,
            *sorted(self._placed.values(), key=lambda each: isinstance(each, Move)),
            *self._shrunk.values(),
            *self._others,
        )

    def _decide_placement(self, proposal: Proposal) -> None:
        job, placement, why = proposal.job, proposal.placement, proposal.why
        if why is None:
            evicted = [each.job for each in proposal.evictions]
            why = reasons.set_aside("room-made", job, [*evicted, *(each.job for each in proposal.relocations)])
        self.decided[job.id] = job.project
        before = self._placed.get(job.id)
        if proposal.grows:
            workers = ranked(self.workers_planned(self.state.jobs[job.id]) + placement)
            if isinstance(before, Start):
                why = reasons.with_workers(before.reason, job, len(workers))
                self._placed[job.id] = replace(before, placement=workers, reason=why)
            else:
                self._placed[job.id] = Move(job.id, workers, None, why)
        elif proposal.later:
            self._others.append(Reserve(job.id, placement, why))
        else:
            self._placed[job.id] = Start(job.id, placement, why)


def ranked(workers: Placement) -> Placement:
    """Return the same workers, ranked from 0 without gaps."""
    return tuple(replace(worker, rank=rank) for rank, worker in enumerate(workers))
