"""Starts waiting jobs on free GPUs and lets elastic ones grow, in order."""

from __future__ import annotations

from springtide.scheduler.model import Job
from springtide.scheduler.policy import gates, placement, reasons
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.growing import may_grow
from springtide.scheduler.policy.lines import Shape, Where
from springtide.scheduler.policy.pool import workers_of
from springtide.scheduler.policy.promising import guarantee_waits
from springtide.scheduler.policy.tree import Seat
from springtide.scheduler.policy.turns import Claim, Turns
from springtide.scheduler.policy.walk import Walk


class Starting:
    """The first part of a cycle."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.state = desk.state
        self.walk = Walk(desk, self._hopeful)
        self._roomiest = self.state.pool.roomiest
        self._nowhere: set[Where] = set()
        self._owed: bool | None = None
        self._held_back: list[tuple[Seat, Job]] = []

    def run(self) -> None:
        """Start and grow as long as anything fits."""
        self._nowhere = {where for where in self.state.wheres if not self._has_room(where)}
        self._offer_growth()
        if not self._hopes():
            return
        turns = self._turns()
        while self._hopes() and (turn := turns.top()) is not None:
            leaf, claim = turn
            done = self._grow(leaf, claim) if claim.grows else self._start(leaf, claim)
            if not done:
                self.walk.give_up(leaf, claim)
            turns.refresh(leaf)

    def grow_after_all(self) -> None:
        """Let those grow who held back, where nobody has to make room for anybody."""
        desk = self.desk
        if not self._held_back or desk.decided or desk.shrunk or self.state.pausing:
            return
        walk = Walk(desk, lambda _leaf, _shape: False)
        for leaf, job in self._held_back:
            if job.id not in desk.fixed:
                walk.offer(leaf, job)
        turns = Turns([leaf for leaf, _ in self._held_back], walk.head)
        while (turn := turns.top()) is not None:
            leaf, claim = turn
            if not self._take_one_more(leaf, claim.job):
                walk.give_up(leaf, claim)
            turns.refresh(leaf)

    def _has_room(self, where: Where) -> bool:
        pool = self.state.pool
        return where.gpus <= self._roomiest and (
            pool.slots(where.gpus, pool.mask_for(where.gpu_types)) >= where.min_workers
        )

    def _offer_growth(self) -> None:
        state = self.state
        for name, growing in state.growing.items():
            for job_id in growing:
                job = state.jobs[job_id]
                if job.gpus <= self._roomiest and may_grow(self.desk, job):
                    self.walk.offer(state.tree.leaves[name], job)

    def _turns(self) -> Turns:
        """Turns among the projects where a job may fit now that did not fit at the last plan."""
        state = self.state
        growing = [state.tree.leaves[name] for name in self.walk.growing]
        if not state.loosened and not self.desk.decided:
            touched = [state.tree.leaves[name] for name in state.touched if state.lines[name].by_shape]
            return Turns([*touched, *growing], self.walk.head)
        hopeful = frozenset(where for where in state.wheres if self._fits(where))
        return state.turns.among_all(hopeful, self.walk.head, [*state.tree.counted(), *growing])

    def _hopes(self) -> bool:
        """Whether anything may still fit; if not, not every project has to be asked."""
        return self._roomiest > 0 and (
            any(self.walk.growing.values()) or any(self._fits(where) for where in self.state.wheres)
        )

    def _fits(self, where: Where) -> bool:
        return where.gpus <= self._roomiest and where not in self._nowhere

    def _hopeful(self, _leaf: Seat, shape: Shape) -> bool:
        return self._fits(shape.where)

    def _start(self, leaf: Seat, claim: Claim) -> bool:
        job = claim.job
        if gates.refusal(leaf, job, claim.need) is not None or not gates.held_within_limit(leaf, claim.need):
            return False
        parts = placement.find(self.state.pool, job, job.min_workers)
        if parts is None:
            self._nowhere.add(claim.shape.where)
            return False
        why = reasons.started(job, leaf)
        self.desk.start(leaf, job, workers_of(parts), why)
        self._roomiest = self.state.pool.roomiest
        if job.workers > job.min_workers:
            self.walk.offer(leaf, job)
        return True

    def _grow(self, leaf: Seat, claim: Claim) -> bool:
        """One more worker; false if that is impossible or was the last.

        Who would be restarted only to borrow more holds back while others wait for what is their own.
        """
        job = claim.job
        if job.id not in self.desk.started and leaf.claimed + job.gpus > leaf.quota and self._is_owed():
            self._held_back.append((leaf, job))
            return False
        return self._take_one_more(leaf, job)

    def _is_owed(self) -> bool:
        if self._owed is None:
            self._owed = guarantee_waits(self.desk)
        return self._owed

    def _take_one_more(self, leaf: Seat, job: Job) -> bool:
        desk = self.desk
        if gates.refusal(leaf, job, job.gpus) is not None or not gates.held_within_limit(leaf, job.gpus):
            return False
        started = desk.started.get(job.id)
        grown = desk.grown.get(job.id)
        held = started[1] if started is not None else grown[1] if grown is not None else job.placement
        parts = placement.find_beside(self.state.pool, job, held)
        if parts is None:
            return False
        more = workers_of(parts, len(held))
        desk.occupy(leaf, job, more)
        if started is not None:
            desk.started[job.id] = (job, held + more, started[2])
        else:
            desk.grown[job.id] = (job, held + more)
            desk.fixed.add(job.id)
        self._roomiest = self.state.pool.roomiest
        return len(held) + 1 < job.workers
