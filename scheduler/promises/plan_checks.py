"""Checks of a plan, decision by decision; the cost grows with the plan, not with the pool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from springtide.scheduler.gpu_types import total
from springtide.scheduler.model import (
    WITHIN_NODES,
    Decision,
    Drop,
    Job,
    Move,
    Order,
    Pause,
    Phase,
    Placement,
    Plan,
    Reserve,
    Standing,
    Start,
)
from springtide.scheduler.promises.books import Books, GpuSlot, gpu_slots, size
from springtide.scheduler.promises.breach import Breach, Promise

ROUNDING = 1.0
"""Tolerance in GPU-seconds for comparisons of service, because times are floating-point numbers."""


def check_decisions(
    books: Books, plan: Plan, now: float, standing: Mapping[str, Standing] | None = None
) -> tuple[Breach, ...]:
    """Return the promises that a plan made now would break.

    ``standing`` has the entitlement of each project; without it, whether reclaims stay within the entitlement is
    not checked.
    """
    check = _PlanCheck(books, plan, now, standing)
    return tuple(check.breaches())


class _PlanCheck:
    def __init__(self, books: Books, plan: Plan, now: float, standing: Mapping[str, Standing] | None) -> None:
        self.books = books
        self.plan = plan
        self.now = now
        self.standing = standing
        self.known = [decision for decision in plan.decisions if decision.job in books.jobs]
        self.interrupted = {decision.job for decision in self.known if isinstance(decision, Pause | Move)}
        self.settled = {decision.job for decision in self.known if isinstance(decision, Drop | Start)}
        """Jobs whose reservation ends with this plan."""
        self.claims: dict[GpuSlot, str] = {}
        """Job for which this plan starts, moves or reserves each GPU."""

    def breaches(self) -> Iterator[Breach]:
        yield from self._jobs()
        yield from self._placements()
        yield from self._limits()
        yield from self._pauses()
        yield from self._takings()

    def _jobs(self) -> Iterator[Breach]:
        """Check that each decision concerns an existing job in a suitable state, once per job."""
        starts = Counter(decision.job for decision in self.plan.decisions if isinstance(decision, Start))
        stops = Counter(decision.job for decision in self.plan.decisions if isinstance(decision, Pause | Move))
        for job_id, count in (starts + stops).items():
            if count > 1:
                yield Breach(Promise.EXCLUSIVE, f"job {job_id} is started or stopped {count} times", job_id)
        for decision in self.plan.decisions:
            job = self.books.jobs.get(decision.job)
            verb = type(decision).__name__.lower()
            if job is None:
                yield Breach(Promise.NOTHING_LOST, f"{verb} of {decision.job}, which is no job", decision.job)
                continue
            wanted = {Start: (Phase.WAITING,), Pause: (Phase.RUNNING,), Move: (Phase.RUNNING,)}.get(type(decision))
            if wanted is not None and job.phase not in wanted:
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
        ends = [self.books.jobs[each].latest_end(self.now) for each in holders]
        return bool(ends) and job.latest_end(self.now) <= max(ends) < math.inf

    def _limits(self) -> Iterator[Breach]:
        """Check that no project exceeds its limit, nor its quota with jobs that are not preemptible."""
        held, pinned = Counter[str](), Counter[str]()
        for decision in self.known:
            job = self.books.jobs[decision.job]
            if isinstance(decision, Drop) and not job.preemptible:
                pinned.update(dict.fromkeys(self.books.paths.get(job.project, ()), gain(job, decision)))
            if not isinstance(decision, Start):
                continue
            for project in self.books.paths.get(job.project, ()):
                held[project] += size(decision.placement)
                pinned[project] += 0 if job.preemptible else gain(job, decision)
                if (after := self.books.held[project] + held[project]) > self.books.limit(project):
                    message = f"{project} would hold {after} GPUs, its limit is {self.books.limit(project):g}"
                    yield Breach(Promise.GUARANTEE, message, job.id, project)
                quota = total(self.books.projects[project].quota)
                after = self.books.pinned[project] + pinned[project]
                if quota is not None and not job.preemptible and after > quota:
                    message = f"{project} would hold {after} GPUs that cannot be taken back, its quota is {quota}"
                    yield Breach(Promise.GUARANTEE, message, job.id, project)

    def _pauses(self) -> Iterator[Breach]:
        """Check that each pause serves a start or reservation of the same plan and is permitted for its job."""
        served = {decision.job for decision in self.known if isinstance(decision, Start | Reserve | Move)}
        for decision in self.known:
            if not isinstance(decision, Pause | Move):
                continue
            job = self.books.jobs[decision.job]
            for problem in self._unjust(job, decision, served):
                yield Breach(Promise.NO_THRASHING, f"job {job.id} is stopped, {problem}", job.id, job.project)

    def _unjust(self, job: Job, decision: Pause | Move, served: set[str]) -> Iterator[str]:
        helped = self.books.jobs.get(decision.beneficiary) if decision.beneficiary else None
        if len(job.placement) < job.min_workers:  # a gang that has lost workers cannot go on
            return
        if not job.preemptible:
            yield "but cannot be paused"
        if isinstance(decision, Pause) and helped is None and not self._above_limit(job):
            yield "for nobody"
        if helped is not None and helped.id not in served:
            yield f"but {helped.id} gets neither a start nor a reservation"
        kept = set(gpu_slots(decision.placement)) if isinstance(decision, Move) else set()
        freed = {(worker.node, gpu) for worker in job.placement for gpu in worker.gpus} - kept
        if (
            helped is not None
            and not any(slot in self.claims for slot in freed)
            and not self._in_the_way(job, helped)
        ):
            yield "but nobody is given its GPUs"
        urgent = helped is not None and not helped.preemptible
        ran = self.now - (self.now if job.started is None else job.started)
        if ran < self.books.settings.min_runtime and not urgent:
            yield f"{ran:g} s after its start, inside the minimum run time"
        if helped is not None and helped.project == job.project and shrinks(job, decision):
            yield from self._unjust_within(job, helped, decision)

    def _above_limit(self, job: Job) -> bool:
        """Return whether the job's project or one of its ancestors holds more than its limit."""
        return any(
            self.books.claimed[name] > self.books.limit(name) for name in self.books.paths.get(job.project, ())
        )

    def _in_the_way(self, job: Job, helped: Job) -> bool:
        """Return whether a bound above both keeps ``helped`` from starting: a limit, quota or entitlement."""
        shared = set(self.books.paths.get(job.project, ())) & set(self.books.paths.get(helped.project, ()))
        bounded = any(self.books.projects[project].limit is not None for project in shared)
        need = helped.gpus * helped.min_workers
        full = any(self.books.claimed[project] + need > self._entitled(project) for project in shared)
        return bounded or full or (bool(shared) and not helped.preemptible)

    def _entitled(self, project: str) -> float:
        """Return the number of GPUs that the project may claim back; infinite if the entitlement is unknown."""
        if self.standing is None:
            return math.inf
        quota = total(self.books.projects[project].quota)
        share = max(self.standing[project].fair_share, math.inf if quota is None else quota)
        return min(self.books.limit(project), share)

    def _unjust_within(self, job: Job, helped: Job, decision: Pause | Move) -> Iterator[str]:
        """Check a pause within a project: for a higher priority, or for an equal job with less service."""
        if helped.priority > job.priority:
            return
        if helped.priority < job.priority:
            yield f"for {helped.id} of the same project and lower priority"
        elif isinstance(decision, Pause):
            if self.books.settings.order is not Order.LEAST_SERVED:
                yield f"for {helped.id} of the same project and equal priority"
            elif not job.rotate:
                yield f"for its equal {helped.id}, though it asked not to be rotated"
            elif job.served_by(self.now) < helped.served - ROUNDING:
                yield f"for its equal {helped.id}, which had no less service"

    def _takings(self) -> Iterator[Breach]:
        """Check that no project within its quota loses a GPU to another and reclaims stay within entitlement."""
        losses: dict[str, dict[str, int]] = {}
        reclaimers: dict[str, str] = {}
        for decision in self.known:
            if not isinstance(decision, Pause | Move) or decision.beneficiary not in self.books.jobs:
                continue
            job, helped = self.books.jobs[decision.job], self.books.jobs[decision.beneficiary]
            lost = -gain(job, decision)
            if job.project != helped.project and lost > 0:
                side, _ = self.books.split(job.project, helped.project)
                losses.setdefault(side, {})[job.id] = lost
                reclaimers[helped.id] = job.project
        gained = Counter[str]()
        for decision in self.known:
            job = self.books.jobs[decision.job]
            gained.update(dict.fromkeys(self.books.paths.get(job.project, ()), max(0, gain(job, decision))))
        for side, lost_by in losses.items():
            quota = self.books.quota(side)
            last = max(lost_by, key=lost_by.__getitem__)
            if self.books.claimed[side] + gained[side] - sum(lost_by.values()) + lost_by[last] <= quota:
                message = f"{side} would lose GPUs of its quota of {quota:g} to another project"
                yield Breach(Promise.GUARANTEE, message, last, side)
        yield from self._greed(reclaimers)

    def _greed(self, reclaimers: Mapping[str, str]) -> Iterator[Breach]:
        """Check decision by decision that all ancestors of a reclaiming job stay within their entitlement."""
        gained = Counter[str]()
        for decision in self.known:
            job = self.books.jobs[decision.job]
            path = self.books.paths.get(job.project, ())
            gained.update(dict.fromkeys(path, gain(job, decision)))
            if job.id not in reclaimers or not isinstance(decision, Start | Reserve):
                continue
            _, top = self.books.split(reclaimers[job.id], job.project)
            for above in path[: path.index(top) + 1]:
                entitled = self._entitled(above)
                after = self.books.claimed[above] + gained[above]
                if after > entitled:
                    message = f"{above} reclaims up to {after} GPUs, it is entitled to {entitled:g}"
                    yield Breach(Promise.NO_THRASHING, message, job.id, above)


def gain(job: Job, decision: Decision) -> int:
    """Return the number of GPUs that a decision adds to the claim of its job; negative if it removes some."""
    before = size(job.reserved) + (0 if job.phase is Phase.PAUSING else job.held_gpus)
    after = 0 if isinstance(decision, Pause | Drop) else size(decision.placement)
    return after - before


def shrinks(job: Job, decision: Pause | Move) -> bool:
    """Return whether the job has fewer GPUs after the decision."""
    return gain(job, decision) < 0


def domains(books: Books, placement: Placement, level: str) -> set[object]:
    """Return the topology domains of a level that a placement uses; a node in no domain is its own domain."""
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
