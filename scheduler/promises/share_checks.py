"""Checks of a plan on the GPUs of one type: limits, quotas, and which jobs make room for which."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from springtide.scheduler.model import Decision, Drop, Job, Move, Order, Pause, Phase, Reserve, Standing, Start
from springtide.scheduler.policy.state.service import ranked_service
from springtide.scheduler.promises.books import Account, Books, GpuSlot, gpu_slots, size
from springtide.scheduler.promises.breach import Breach, Promise

ROUNDING = 1.0
"""Tolerance in GPU-seconds for comparisons of service, because times are floating-point numbers."""


@dataclass(frozen=True)
class ShareCheck:
    """The check of the decisions ``known`` about jobs on the GPUs of one type.

    ``claims`` is the job for which the plan starts, moves or reserves each GPU.
    """

    books: Books
    account: Account
    known: Sequence[Decision]
    claims: Mapping[GpuSlot, str]
    now: float
    standing: Mapping[str, Standing] | None

    def breaches(self) -> Iterator[Breach]:
        """Yield the promises that the decisions would break."""
        yield from self._limits()
        yield from self._pauses()
        yield from self._takings()

    def _limits(self) -> Iterator[Breach]:
        """Check that no project exceeds its limit, nor its quota with jobs that are not preemptible."""
        held, pinned = Counter[str](), Counter[str]()
        for decision in self.known:
            job = self.books.jobs[decision.job]
            if isinstance(decision, Drop) and not job.preemptible:
                pinned.update(dict.fromkeys(self.books.paths.get(job.project, ()), self._gain(job, decision)))
            if not isinstance(decision, Start):
                continue
            for project in self.books.paths.get(job.project, ()):
                held[project] += size(decision.placement)
                pinned[project] += 0 if job.preemptible else self._gain(job, decision)
                if (after := self.account.held[project] + held[project]) > self.account.limit(project):
                    message = f"{project} would hold {after} GPUs, its limit is {self.account.limit(project):g}"
                    yield Breach(Promise.GUARANTEE, message, job.id, project)
                quota = self.account.firm_quota(project)
                after = self.account.pinned[project] + pinned[project]
                if not job.preemptible and after > quota:
                    message = (
                        f"{project} would hold {after} GPUs that cannot be taken back, its quota is {quota:g}"
                    )
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
        if len(job.placement) < job.min_workers:  # an incomplete gang cannot continue
            return
        if isinstance(decision, Pause) and helped is None and self.books.has_to_leave(job):
            return
        if not job.preemptible:
            yield "but cannot be paused"
        if isinstance(decision, Pause) and helped is None and not self._above_limit(job):
            yield "but for no other job"
        if helped is not None and helped.id not in served:
            yield f"but {helped.id} gets neither a start nor a reservation"
        kept = set(gpu_slots(decision.placement)) if isinstance(decision, Move) else set()
        freed = {(worker.node, gpu) for worker in job.placement for gpu in worker.gpus} - kept
        if (
            helped is not None
            and not any(slot in self.claims for slot in freed)
            and not self._in_the_way(job, helped)
        ):
            yield "but no job gets its GPUs"
        urgent = helped is not None and not helped.preemptible
        started = self.now if job.started is None else job.started
        if self.now < started + self.books.settings.min_runtime and not urgent:
            yield f"{self.now - started:g} s after its start, inside the minimum run time"
        if helped is not None and helped.project == job.project and self._gain(job, decision) < 0:
            yield from self._unjust_within(job, helped, decision)

    def _above_limit(self, job: Job) -> bool:
        """Return whether the job's project or one of its ancestors holds more than its limit."""
        return any(
            self.account.claimed[name] > self.account.limit(name) for name in self.books.paths.get(job.project, ())
        )

    def _in_the_way(self, job: Job, helped: Job) -> bool:
        """Return whether a bound above both keeps ``helped`` from starting: a limit, quota or entitlement.

        GPUs that other jobs get by the same plan count.
        """
        shared = set(self.books.paths.get(job.project, ())) & set(self.books.paths.get(helped.project, ()))
        bounded = any(self.account.limit(project) < math.inf for project in shared)
        need = helped.need
        full = any(
            self.account.claimed[project] + self._started_beside(helped, project) + need
            > self.account.entitled(project, self.standing)
            for project in shared
        )
        return bounded or full or (bool(shared) and not helped.preemptible)

    def _started_beside(self, helped: Job, project: str) -> int:
        """Return how many GPUs other jobs of the project, or below it, get by the plan."""
        return sum(
            max(0, self._gain(job, decision))
            for decision in self.known
            if isinstance(decision, Start | Reserve) and decision.job != helped.id
            for job in [self.books.jobs[decision.job]]
            if project in self.books.paths.get(job.project, ())
        )

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
            elif self._ranked_service(job) < self._ranked_service(helped) - ROUNDING:
                yield f"for its equal {helped.id}, which had no less service"

    def _ranked_service(self, job: Job) -> float:
        return ranked_service(job, self.now, self.books.settings.surplus)

    def _takings(self) -> Iterator[Breach]:
        """Check that no project within its quota loses a GPU to another and reclaims stay within entitlement."""
        losses: dict[str, dict[str, int]] = {}
        reclaimers: dict[str, str] = {}
        for decision in self.known:
            if not isinstance(decision, Pause | Move) or decision.beneficiary not in self.books.jobs:
                continue
            job, helped = self.books.jobs[decision.job], self.books.jobs[decision.beneficiary]
            lost = -self._gain(job, decision)
            if job.project != helped.project and lost > 0:
                side, _ = self.books.split(job.project, helped.project)
                losses.setdefault(side, {})[job.id] = lost
                reclaimers[helped.id] = job.project
        if not losses:
            return
        gained = Counter[str]()
        for decision in self.known:
            job = self.books.jobs[decision.job]
            gained.update(dict.fromkeys(self.books.paths.get(job.project, ()), max(0, self._gain(job, decision))))
        for side, lost_by in losses.items():
            quota = self.account.quota(side)
            last = max(lost_by, key=lost_by.__getitem__)
            if self.account.claimed[side] + gained[side] - sum(lost_by.values()) + lost_by[last] <= quota:
                message = f"{side} would lose GPUs of its quota of {quota:g} to another project"
                yield Breach(Promise.GUARANTEE, message, last, side)
        yield from self._greed(reclaimers)

    def _greed(self, reclaimers: Mapping[str, str]) -> Iterator[Breach]:
        """Check that all ancestors of a reclaiming job stay within their entitlement, unless it has the turn."""
        gained = Counter[str]()
        for decision in self.known:
            job = self.books.jobs[decision.job]
            path = self.books.paths.get(job.project, ())
            gained.update(dict.fromkeys(path, self._gain(job, decision)))
            if job.id not in reclaimers or not isinstance(decision, Start | Reserve) or decision.turn:
                continue
            _, top = self.books.split(reclaimers[job.id], job.project)
            for above in path[: path.index(top) + 1]:
                entitled = self.account.entitled(above, self.standing)
                after = self.account.claimed[above] + gained[above]
                if after > entitled:
                    message = f"{above} reclaims up to {after} GPUs, it is entitled to {entitled:g}"
                    yield Breach(Promise.NO_THRASHING, message, job.id, above)

    def _gain(self, job: Job, decision: Decision) -> int:
        """Return the number of GPUs that a decision adds to the claim of its job; negative if it removes some."""
        reserved = size(job.reserved) if self.books.account_at(job.reserved) in {None, self.account} else 0
        before = reserved + (0 if job.phase is Phase.PAUSING else job.held_gpus)
        after = 0 if isinstance(decision, Pause | Drop) else size(decision.placement)
        return after - before
