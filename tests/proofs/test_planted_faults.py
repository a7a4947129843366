"""The checker can fail: for each promise a policy that breaks it, which must be caught breaking it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import pytest
from histories.living import live_through

from springtide.scheduler.model import (
    Change,
    Decision,
    Job,
    JobChanged,
    JobRemoved,
    Move,
    Pause,
    Phase,
    Plan,
    Reason,
    Reserve,
    Snapshot,
    Standing,
    Start,
    Worker,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.promises import Promise

SEEDS = range(40)
STEPS = 120
BECAUSE = Reason("planted")


class Faulty(ABC):
    """The real policy, its plans spoilt."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.planner = Planner(snapshot)
        self.jobs: dict[str, Job] = {job.id: job for job in snapshot.jobs}
        self.plans = 0

    def apply(self, change: Change) -> None:
        match change:
            case JobChanged(job):
                self.jobs[job.id] = job
            case JobRemoved(job_id):
                self.jobs.pop(job_id, None)
        self.planner.apply(change)

    def plan(self, now: float) -> Plan:
        self.plans += 1
        plan = self.planner.plan(now)
        return replace(plan, decisions=tuple(self.spoil(plan.decisions)))

    def standing(self) -> dict[str, Standing]:
        return dict(self.planner.standing())

    def running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.phase is Phase.RUNNING]

    def waiting(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.phase is Phase.WAITING]

    @abstractmethod
    def spoil(self, decisions: Sequence[Decision]) -> Sequence[Decision]:
        """What becomes of the policy's decisions."""


class GivesGpusAwayTwice(Faulty):
    def spoil(self, decisions):
        for at, decision in enumerate(decisions):
            for job in self.running():
                if isinstance(decision, Start) and len(job.placement) == len(decision.placement):
                    return [*decisions[:at], replace(decision, placement=job.placement)]
        return decisions


class StartsOnBuildNodes(Faulty):
    def spoil(self, decisions):
        return [
            replace(decision, placement=tuple(replace(worker, node="login") for worker in decision.placement))
            if isinstance(decision, Start)
            else decision
            for decision in decisions
        ]


class NeverTakesBack(Faulty):
    def spoil(self, decisions):
        return [decision for decision in decisions if isinstance(decision, Start)]


class TakesWhatIsNotBorrowed(Faulty):
    def spoil(self, decisions):
        if decisions:
            return decisions
        for job in self.waiting():
            for other in self.running():
                if other.project != job.project and len(other.placement) * other.gpus == job.workers * job.gpus:
                    return [Pause(other.id, job.id, BECAUSE), Reserve(job.id, other.placement, BECAUSE)]
        return decisions


class StartsPartsOfGangs(Faulty):
    def spoil(self, decisions):
        return [
            replace(decision, placement=decision.placement[:1]) if isinstance(decision, Start) else decision
            for decision in decisions
        ]


class StartsWhatIsHeld(Faulty):
    def spoil(self, decisions):
        held = [job for job in self.jobs.values() if job.phase is Phase.HELD]
        return [
            replace(decision, job=held[0].id) if held and isinstance(decision, Start) else decision
            for decision in decisions
        ]


class LeavesGpusIdle(Faulty):
    def spoil(self, decisions):
        return [decision for decision in decisions if not (isinstance(decision, Start) and self.running())]


class PausesForNobody(Faulty):
    def spoil(self, decisions):
        stoppable = [job for job in self.running() if job.preemptible]
        return decisions or [Pause(job.id, None, BECAUSE) for job in stoppable[:1]]


class SwapsForEver(Faulty):
    """Takes turns between two jobs, each time with a reservation."""

    def spoil(self, decisions):
        if decisions:
            return decisions
        for job in self.waiting():
            for other in self.running():
                if other.project == job.project and other.held_gpus == job.gpus * job.workers and not job.reserved:
                    return [Pause(other.id, job.id, BECAUSE), Reserve(job.id, other.placement, BECAUSE)]
        return decisions


class ForgetsGangs(Faulty):
    """Never starts anything of more than two GPUs."""

    def spoil(self, decisions):
        def large(job_id: str) -> bool:
            return self.jobs[job_id].workers * self.jobs[job_id].gpus > 2

        return [
            decision
            for decision in decisions
            if not large(decision.job) and not isinstance(decision, Pause | Move | Reserve)
        ]


class ChangesItsMind(Faulty):
    """Numbers the GPUs of a start by how often it was asked."""

    def spoil(self, decisions):
        def turned(worker: Worker) -> Worker:
            return replace(worker, gpus=worker.gpus[::-1] if self.plans % 2 else worker.gpus)

        return [
            replace(decision, placement=tuple(turned(worker) for worker in decision.placement))
            if isinstance(decision, Start)
            else decision
            for decision in decisions
        ]


class MixesTypes(Faulty):
    """Places a worker of each gang on GPUs of another type."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.type_of = {node.name: node.gpu_type for node in snapshot.nodes}

    def spoil(self, decisions):
        def mixed(decision: Start) -> Start:
            first, *others = decision.placement
            types = {worker.node: self.type_of[worker.node] for worker in decision.placement}
            node = next(name for name in sorted(self.type_of) if self.type_of[name] not in types.values())
            return replace(decision, placement=(replace(first, node=node), *others))

        return [
            mixed(decision) if isinstance(decision, Start) and len(decision.placement) > 1 else decision
            for decision in decisions
        ]


class IgnoresTheTypesOfJobs(Faulty):
    """Starts jobs on the GPUs meant for others, of whatever type."""

    def spoil(self, decisions):
        starts = [decision for decision in decisions if isinstance(decision, Start)]
        placements = [decision.placement for decision in starts]
        turned = dict(zip([each.job for each in starts], placements[1:] + placements[:1], strict=True))
        return [
            replace(decision, placement=turned[decision.job]) if isinstance(decision, Start) else decision
            for decision in decisions
        ]


class TakesBackOneTypeOnly(Faulty):
    """Returns lent GPUs of the first type of the pool, and not those of the others."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        first = self.planner.types[0]
        self.nodes = {node.name for node in snapshot.nodes if node.gpu_type == first}

    def spoil(self, decisions):
        def here(decision: Decision) -> bool:
            placement = self.jobs[decision.job].placement or getattr(decision, "placement", ())
            return all(worker.node in self.nodes for worker in placement)

        return [decision for decision in decisions if isinstance(decision, Start) or here(decision)]


class BorrowsBeforeItsQuota(Faulty):
    """Evict no job of a type while another type has idle GPUs."""

    def spoil(self, decisions):
        starts = [decision for decision in decisions if isinstance(decision, Start)]
        return starts or [decision for decision in decisions if not isinstance(decision, Pause | Reserve | Move)]


FAULTS_WITH_TYPES = [
    (MixesTypes, Promise.GANG),
    (IgnoresTheTypesOfJobs, Promise.GANG),
    (TakesBackOneTypeOnly, Promise.GUARANTEE),
    (BorrowsBeforeItsQuota, Promise.GUARANTEE),
]

FAULTS = [
    (GivesGpusAwayTwice, Promise.EXCLUSIVE),
    (StartsOnBuildNodes, Promise.BUILD),
    (NeverTakesBack, Promise.GUARANTEE),
    (TakesWhatIsNotBorrowed, Promise.GUARANTEE),
    (StartsPartsOfGangs, Promise.GANG),
    (StartsWhatIsHeld, Promise.NOTHING_LOST),
    (LeavesGpusIdle, Promise.WORK_CONSERVING),
    (PausesForNobody, Promise.NO_THRASHING),
    (SwapsForEver, Promise.NO_THRASHING),
    (ForgetsGangs, Promise.NO_STARVATION),
    (ChangesItsMind, Promise.REPLAYABLE),
]


@pytest.mark.parametrize(("fault", "promise"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_policy_that_breaks_a_promise_is_caught(fault, promise):
    found: set[Promise] = set()
    for seed in SEEDS:
        world = live_through(seed, STEPS, fault, wanted=promise)
        found.update(breach.promise for breach in world.watch.breaches)
        if promise in found:
            break

    assert promise in found


@pytest.mark.parametrize(
    ("fault", "promise"), FAULTS_WITH_TYPES, ids=[fault.__name__ for fault, _ in FAULTS_WITH_TYPES]
)
def test_a_policy_that_mixes_up_gpu_types_is_caught(fault, promise):
    found: set[Promise] = set()
    for seed in SEEDS:
        world = live_through(seed, STEPS, fault, wanted=promise, typed=True)
        found.update(breach.promise for breach in world.watch.breaches)
        if promise in found:
            break

    assert promise in found
