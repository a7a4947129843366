"""A plan under construction: its decisions, and the proposals that lead to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from springtide.scheduler.model import Decision, Drop, Job, Move, Pause, Phase, Placement, Reason, Reserve, Start
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.memo import Memo
from springtide.scheduler.policy.state import protection
from springtide.scheduler.policy.state.job_queues import SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode


class Eviction(NamedTuple):
    """GPUs taken from a running job: all (it is paused), or those of some workers (it shrinks)."""

    job: Job
    taken: Placement
    left: Placement
    code: str
    """Code of the reason."""
    spared: tuple[Job, ...] = ()
    """Jobs that only their minimum run times kept from making way instead."""


class Relocation(NamedTuple):
    """A running job some of whose workers move to other GPUs."""

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
    """GPUs for a job, with the evictions and moves that free them.

    ``grows``: ``placement`` are more workers for a running or starting job. The GPUs are free now, or become free
    ``later`` and are reserved until then. ``why`` is the reason, None for a start on free GPUs or for room made by
    other jobs. ``set_aside`` are evicted GPUs that no other job may get in this plan, ``dropped`` the jobs that
    lose their reservations.
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

    @property
    def disruptions(self) -> tuple[Eviction | Relocation, ...]:
        """The evictions and moves of the running jobs that make room."""
        return (*self.evictions, *self.relocations)


class Answer(NamedTuple):
    """A proposal or None, and the time after which time alone may give another answer (infinity: never)."""

    proposal: Proposal | None
    retry_at: float = inf


NO = Answer(None)
"""Nothing can be done for a request until something happens."""


class PlanBuilder:
    """The decisions so far for one GPU type, and the state that follows from them.

    The builder considers the waiting jobs that accept this GPU type at position ``rank``, or all for None; if
    ``guaranteed``, only those within the quota of their project. ``decided`` maps the ids of decided jobs to their
    projects: these jobs get no other decision in this plan than more workers; the builders of all types share it.
    ``changed_nodes`` are the nodes where running or reserving jobs lose GPUs; ``guarantee_pending``: a waiting
    request fits the pool and its project's quota; ``reclaiming`` are the projects that get GPUs of others, with
    their ancestors; ``retry_at`` is the earliest time at which the passing of time may change the plan. ``turn``
    is the id of the job with the turn, ``displaced`` are the ids of jobs that lose their reservations to others.
    """

    def __init__(self, memo: Memo, now: float, decided: dict[str, str] | None = None) -> None:
        self.state = memo.state
        self.memo = memo
        self.now = now
        self.rank: int | None = None
        self.guaranteed = False
        self.decided = {} if decided is None else decided
        self.changed_nodes = 0
        self.reclaiming: set[ProjectNode] = set()
        self.guarantee_pending = False
        self.retry_at = inf
        self.turn: str | None = None
        self.displaced: set[str] = set()
        self._drops: list[Drop] = []
        self._decisions: dict[str, Start | Pause | Move | Reserve] = {}
        self._workers: dict[str, Placement] = {}

    # ---------- queries

    @property
    def is_calm(self) -> bool:
        """Whether no job gives up GPUs, and none waits that its project's quota guarantees."""
        return not (self.changed_nodes or self.state.pausing or self.guarantee_pending)

    @property
    def leaves_nothing(self) -> bool:
        """Whether nothing is left to decide.

        No undecided job waits, stops, has to leave its nodes, wants workers or exceeds a limit.
        """
        state = self.state
        if state.awaiting or state.pausing or state.partial or state.in_turn or state.leaving:
            return False
        served = all(job_id in self.decided for job_id in state.queued) and not self._incomplete()
        return served and all(project.claimed <= project.limit for project in state.tree.limited)

    def _incomplete(self) -> bool:
        """Return whether a job starts with fewer workers than it wants."""
        return any(len(workers) < self.state.jobs[job_id].workers for job_id, workers in self._workers.items())

    def considers(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return whether the waiting jobs of a class are considered."""
        if self.guaranteed and leaf.claimed + scheduling_class.need > leaf.quota:
            return False
        return self.rank is None or self.rank == self.state.rank_of(scheduling_class.constraints.gpu_types)

    def undecided(self, jobs: Iterable[Job]) -> Iterator[tuple[ProjectNode, Job]]:
        """Yield the undecided jobs with their projects; no job of an unknown project."""
        for job in jobs:
            leaf = self.state.tree.leaves.get(job.project)
            if leaf is not None and job.id not in self.decided:
                yield leaf, job

    def reclaims_too_much(self, leaf: ProjectNode, need: int) -> bool:
        """Return whether a project that gets GPUs of others in this plan would exceed its entitlement."""
        return any(
            project in self.reclaiming and project.claimed + need > project.entitled for project in leaf.path
        )

    def is_shrunk(self, job: Job) -> bool:
        """Return whether the plan takes some of the job's workers."""
        return job.id in self._decisions and job.id not in self.decided

    def workers_planned(self, job: Job) -> Placement:
        """Return the workers of a job after this plan; a moved job's are on their present GPUs."""
        return self._workers.get(job.id, job.placement)

    def reserved_for(self, job: Job) -> Placement:
        """Return the GPUs that are reserved for a job, by this plan or before it."""
        decision = self._decisions.get(job.id)
        return decision.placement if isinstance(decision, Reserve) else job.reserved

    def enlarged(self) -> list[tuple[ProjectNode, Job]]:
        """Return the jobs that get workers by this plan, with their projects."""
        jobs = (self.state.jobs[job_id] for job_id in self._workers)
        return [
            (self.state.leaf_of(job), job) for job in jobs if len(self.workers_planned(job)) > len(job.placement)
        ]

    def may_stop(self, job: Job) -> bool:
        """Return whether the attempt can be paused or moved, its minimum run time aside."""
        return (
            job.preemptible
            and job.phase is Phase.RUNNING
            and job.id not in self.decided
            and job.project in self.state.tree.leaves
        )

    def may_restart(self, job: Job) -> bool:
        """Return whether a running job would start again if it was stopped now; record when that changes."""
        self.retry(job.not_before)
        return job.not_before <= self.now

    def protected_until(self, job: Job, guaranteed: Job | None = None) -> float:
        """Return the end of the job's minimum run time, in seconds, for all or against a ``guaranteed`` job."""
        least = self.state.settings.min_runtime
        if guaranteed is None:
            return protection.protected_until(job, least)
        return protection.protected_from_guaranteed(job, least, guaranteed)

    # ---------- decisions

    def retry(self, at: float) -> None:
        """Record a time at which the plan may change."""
        if self.now < at < self.retry_at:
            self.retry_at = at

    def accept(self, leaf: ProjectNode, proposal: Proposal) -> list[ProjectNode]:
        """Accept a proposal for a job of ``leaf``; return the projects that lose GPUs."""
        pool, job = self.state.pool, proposal.job
        for waiting in proposal.dropped:
            self.displaced.add(waiting.id)
            self.drop_reservation(waiting, "reservation-refused")
        for eviction in proposal.evictions:
            self.take(eviction.job, eviction.taken, eviction.left)
        for eviction in proposal.evictions:
            theirs = self.state.leaf_of(eviction.job)
            keeps, spared = len(eviction.left), eviction.spared
            why = reasons.made_way(eviction.job, theirs, job, leaf, kind=eviction.code, keeps=keeps, spared=spared)
            self.decide_eviction(eviction.job, job.id, why)
        for moved in proposal.relocations:
            pool.vacate(moved.job.id, moved.taken)
            pool.reserve(moved.landed)
            self.changed_nodes |= pool.nodes_of(moved.job.placement)
            shrunk = self._decisions.get(moved.job.id)
            why = (
                reasons.of("moved", moved.job, **reasons.of_beneficiary(job)) if shrunk is None else shrunk.reason
            )
            self.decide(moved.job, Move(moved.job.id, moved.placement, job.id, why))
        self._decide_placement(leaf, proposal)
        pool.reserve(proposal.set_aside)
        if self.guaranteed:
            for disruption in proposal.disruptions:
                pool.reserve(disruption.taken)
        losing = (*proposal.dropped, *(eviction.job for eviction in proposal.evictions))
        return [self.state.leaf_of(loser) for loser in losing]

    def take(self, job: Job, taken: Placement, left: Placement) -> None:
        """Take GPUs from a running job, which keeps ``left``; the undo log of the state can revert it."""
        self.state.pool.vacate(job.id, taken)
        self._set_workers(job, left)

    def give_back(self, job: Job, taken: Placement) -> None:
        """Give GPUs back to a running job."""
        self.state.pool.occupy(job.id, taken)
        self._set_workers(job, self.workers_planned(job) + taken)

    def _set_workers(self, job: Job, workers: Placement) -> None:
        before = self.workers_planned(job)
        gpus = (len(workers) - len(before)) * job.gpus
        self.state.tree.add_usage(self.state.leaf_of(job), gpus, preemptible=job.preemptible)
        self.state.undo.record(self._workers.__setitem__, job.id, before)
        self._workers[job.id] = workers

    def decide_eviction(self, job: Job, beneficiary: str | None, why: Reason) -> None:
        """Decide that a job pauses, or continues with its remaining workers, for another job."""
        left = self.workers_planned(job)
        self.changed_nodes |= self.state.pool.nodes_of(job.placement)
        if left:
            self._decisions[job.id] = Move(job.id, ranked(left), beneficiary, why)
        else:
            self.decide(job, Pause(job.id, beneficiary, why))

    def decide(self, job: Job, decision: Start | Pause | Move | Reserve) -> None:
        """Decide about a job; the only later decision about it is more workers."""
        self._decisions[job.id] = decision
        self.decided[job.id] = job.project

    def drop_reservation(self, job: Job, code: str) -> None:
        """Decide that the job's reservation ends, for the reason with this code."""
        self._drops.append(Drop(job.id, reasons.of_reservation(code, job)))
        self.decided[job.id] = job.project
        self.release_reservation(job)

    def release_reservation(self, job: Job) -> None:
        """Release the GPUs reserved for the job, for use by other jobs."""
        self.state.release(job)
        self.changed_nodes |= self.state.pool.nodes_of(job.reserved)
        self.memo.reservation_released(job)

    def decisions(self) -> tuple[Decision, ...]:
        """Return all decisions, dropped reservations first."""
        return (*self._drops, *self._decisions.values())

    def _decide_placement(self, leaf: ProjectNode, proposal: Proposal) -> None:
        """Decide that the job gets its GPUs: now, or by a reservation if they become free later."""
        job, placement, why, later = proposal.job, proposal.placement, proposal.why, proposal.later
        if later:
            self.state.pool.reserve(placement)
        else:
            self.state.pool.occupy(job.id, placement)
        gpus = len(placement) * job.gpus
        self.state.tree.add_usage(leaf, gpus, preemptible=job.preemptible, held=0 if later else gpus)
        before = self._decisions.get(job.id)
        if proposal.grows:
            placement = ranked(self.workers_planned(self.state.jobs[job.id]) + placement)
        if proposal.grows or not later:
            self._workers[job.id] = placement
        if isinstance(before, Start):
            why = None if before.reason.code in reasons.STARTED else before.reason
        if why is None and later:
            holders = reasons.of_holders([disruption.job for disruption in proposal.disruptions])
            why = reasons.of("room-made", job, gpus=gpus, **holders)
        elif why is None:
            why = reasons.started(job, leaf, len(placement))
        if proposal.grows and not isinstance(before, Start):
            self.decide(job, Move(job.id, placement, None, why))
        elif later:
            self.decide(job, Reserve(job.id, placement, why, job.id == self.turn))
        else:
            self.decide(job, Start(job.id, placement, why, job.id == self.turn))


def ranked(workers: Placement) -> Placement:
    """Return the same workers, ranked from 0 without gaps."""
    return tuple(replace(worker, rank=rank) for rank, worker in enumerate(workers))
