"""Checks of a plan, decision by decision; the cost grows with the plan, not with the pool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from springtide.scheduler.model import (
    WITHIN_NODES,
    Decision,
    Drop,
    Job,
    Move,
    Pause,
    Phase,
    Placement,
    Plan,
    Reserve,
    Standing,
    Start,
)
from springtide.scheduler.promises.books import Account, Books, GpuSlot, gpu_slots
from springtide.scheduler.promises.breach import Breach, Promise
from springtide.scheduler.promises.share_checks import ShareCheck

WANTED = {Start: Phase.WAITING, Pause: Phase.RUNNING, Move: Phase.RUNNING}
"""The phase of a job about which a decision of this type may be made; any for the other types."""


def check_decisions(
    books: Books, plan: Plan, now: float, standing: Mapping[str, Standing] | None = None
) -> tuple[Breach, ...]:
    """Return the promises that a plan made now would break.

    ``standing`` has the entitlement of each project; without it, whether reclaims stay within the entitlement is
    not checked.
    """
    books.pass_time(now)
    check = _PlanCheck(books, plan, now, standing)
    return tuple(check.breaches())


class _PlanCheck:
    def __init__(self, books: Books, plan: Plan, now: float, standing: Mapping[str, Standing] | None) -> None:
        self.books = books
        self.plan = plan
        self.now = now
        self.standing = standing
        self.known = [decision for decision in plan.decisions if decision.job in books.jobs]
        self.settled = {decision.job for decision in self.known if isinstance(decision, Drop | Start)}
        """Jobs whose reservation ends with this plan."""
        self.claims: dict[GpuSlot, str] = {}
        """Job for which this plan starts, moves or reserves each GPU."""

    def breaches(self) -> Iterator[Breach]:
        yield from self._jobs()
        yield from self._placements()
        for account in self.books.accounts.values():
            known = [decision for decision in self.known if self._account(decision) is account]
            if known:
                yield from ShareCheck(self.books, account, known, self.claims, self.now, self.standing).breaches()

    def _account(self, decision: Decision) -> Account:
        job = self.books.jobs[decision.job]
        if isinstance(decision, Start | Move | Reserve):
            return self.books.account_at(decision.placement) or self.books.account_of(job)
        return self.books.account_of(job)

    def _jobs(self) -> Iterator[Breach]:
        """Check that each decision concerns an existing job in a suitable state, once per job."""
        acts = [decision.job for decision in self.plan.decisions if not isinstance(decision, Drop)]
        for job_id, count in Counter(acts).items() if len(set(acts)) < len(acts) else ():
            if count > 1:
                message = f"job {job_id} is started, reserved for or stopped {count} times"
                yield Breach(Promise.EXCLUSIVE, message, job_id)
        for decision in self.plan.decisions:
            job = self.books.jobs.get(decision.job)
            verb = type(decision).__name__.lower()
            if job is None:
                yield Breach(Promise.NOTHING_LOST, f"{verb} of {decision.job}, which is no job", decision.job)
                continue
            wanted = WANTED.get(type(decision))
            if wanted is not None and job.phase is not wanted:
                message = f"{verb} of job {job.id}, which is {job.phase}"
                yield Breach(
                    Promise.NOTHING_LOST if job.phase is Phase.HELD else Promise.EXCLUSIVE,
                    message,
                    job.id,
                    job.project,
                )
            if isinstance(decision, Start) and job.not_before > self.now:
                message = f"job {job.id} starts {job.not_before - self.now:g} s before it may"
                yield Breach(Promise.NOTHING_LOST, message, job.id, job.project)

    def _placements(self) -> Iterator[Breach]:
        for decision in self.known:
            if isinstance(decision, Start | Move | Reserve):
                job = self.books.jobs[decision.job]
                yield from self._gang(job, decision.placement)
                yield from self._ground(job, decision.placement)
                yield from self._collisions(job, decision)

    def _gang(self, job: Job, placement: Placement) -> Iterator[Breach]:
        """Check for enough workers, each with its GPUs on one node of an accepted type, in the required domain."""
        problems = []
        if not job.min_workers <= len(placement) <= job.workers:
            problems.append(f"gets {len(placement)} workers, wants {job.min_workers} to {job.workers}")
        if sorted(worker.rank for worker in placement) != list(range(len(placement))):
            problems.append("has ranks that are not 0, 1, 2, …")
        if any(len(set(worker.gpus)) != job.gpus for worker in placement):
            problems.append(f"has a worker without its {job.gpus} GPUs")
        nodes = [self.books.nodes[worker.node] for worker in placement if worker.node in self.books.nodes]
        if job.gpu_types and any(node.gpu_type not in job.gpu_types for node in nodes):
            problems.append("sits on GPUs of a type it does not accept")
        if not all(node.per_gpu.holds(job.per_gpu) for node in nodes):
            problems.append("asks for more cores or memory than its GPUs come with")
        if len({node.gpu_type for node in nodes}) > 1:
            problems.append("is spread over several GPU types")
        if job.require is not None and len(domains(self.books, placement, job.require)) > 1:
            problems.append(f"is spread over more than one {job.require}")
        for problem in problems:
            yield Breach(Promise.GANG, f"job {job.id} {problem}", job.id, job.project)

    def _ground(self, job: Job, placement: Placement) -> Iterator[Breach]:
        """Check that the GPUs exist, on available nodes of the train environment."""
        for slot in sorted(set(gpu_slots(placement))):
            if not self.books.usable(slot):
                message = f"job {job.id} gets GPU {slot[1]} of {slot[0]}, which is no train GPU of the pool"
                yield Breach(Promise.BUILD, message, job.id, job.project)
            elif not self.books.nodes[slot[0]].available:
                message = f"job {job.id} gets GPUs of {slot[0]}, which is away"
                yield Breach(Promise.EXCLUSIVE, message, job.id, job.project)
            elif self.books.timed and self.books.bars(self.books.nodes[slot[0]], self.books.kind_of(job)):
                message = f"job {job.id} gets GPUs of {slot[0]}, which closes before it would have left"
                yield Breach(Promise.EXCLUSIVE, message, job.id, job.project)

    def _collisions(self, job: Job, decision: Start | Move | Reserve) -> Iterator[Breach]:
        """Check that no other job holds the GPUs or has reserved them."""
        for slot in sorted(set(gpu_slots(decision.placement))):
            where = f"GPU {slot[1]} of {slot[0]}"
            other = self.claims.setdefault(slot, job.id)
            holders = [owner for owner in self.books.owners.get(slot, ()) if owner != job.id]
            if other != job.id:
                yield Breach(Promise.EXCLUSIVE, f"{where} goes to both {other} and {job.id}", job.id, job.project)
            if holders and isinstance(decision, Start):
                message = f"job {job.id} starts on {where}, which {holders[0]} holds"
                yield Breach(Promise.EXCLUSIVE, message, job.id, job.project)
            for promised in self.books.reservations.get(slot, ()):
                if promised != job.id and promised not in self.settled and not self._ends_before(job, promised):
                    message = f"{where} is reserved for {promised} and goes to {job.id}"
                    yield Breach(Promise.NO_THRASHING, message, job.id, job.project)

    def _ends_before(self, job: Job, promised: str) -> bool:
        """Return whether the job ends, by time limits, before all GPUs reserved for ``promised`` are free."""
        reserved = set(gpu_slots(self.books.jobs[promised].reserved))
        holders = {owner for slot in reserved for owner in self.books.owners.get(slot, ())}
        ends = [self.books.jobs[holder].latest_end(self.now) for holder in holders]
        return bool(ends) and job.latest_end(self.now) <= max(ends) < math.inf


def domains(books: Books, placement: Placement, level: str) -> set[object]:
    """Return the topology domains of a placement at a level; a node in no domain is its own domain."""
    touched: set[object] = set()
    for worker in placement:
        node = books.nodes.get(worker.node)
        if node is None or level == "node":
            touched.add(worker.node)
        elif level in WITHIN_NODES:
            group = {gpu: at for at, each in enumerate(node.groups(level)) for gpu in each}
            touched.update((node.name, group.get(gpu, ("", gpu)) if group else 0) for gpu in worker.gpus)
        else:
            touched.add(node.labels.get(level, ("", node.name)))
    return touched
