"""Steps through the lines of the projects, and through the running jobs that want more workers."""

from __future__ import annotations

from collections.abc import Callable

from springtide.scheduler.model import Job
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.lines import Shape, Turn, shape_of
from springtide.scheduler.policy.tree import Seat
from springtide.scheduler.policy.turns import AFTER_ALL_STEPS, Claim

Hopeful = Callable[[Seat, Shape], bool]
"""Whether it makes sense to try for jobs of this shape in this project."""


class Walk:
    """Goes along each line from its head on, past jobs that are decided about and lines that are hopeless."""

    def __init__(self, desk: Desk, hopeful: Hopeful) -> None:
        self.desk = desk
        self.hopeful = hopeful
        self.growing: dict[str, list[Job]] = {}
        self._at: dict[tuple[str, Shape], int] = {}
        self._moved: set[str] = set()

    def head(self, leaf: Seat) -> Claim | None:
        """The project's next claim."""
        if leaf.name not in self._moved and leaf.name not in self.growing:
            return self._first(leaf)
        return self._next(leaf)

    def _first(self, leaf: Seat) -> Claim | None:
        """The first claim of a project whose lines were not touched so far."""
        for turn, shape in self.desk.state.lines[leaf.name].heads():
            if self.hopeful(leaf, shape):
                if turn[3] in self.desk.fixed:
                    return self._next(leaf)
                return Claim(turn, self.desk.state.jobs[turn[3]], shape)
        return None

    def _next(self, leaf: Seat) -> Claim | None:
        state = self.desk.state
        fixed = self.desk.fixed
        self._moved.add(leaf.name)
        best: Turn | None = None
        claim: Claim | None = None
        shape_of_best: Shape | None = None
        for shape, line in state.lines[leaf.name].by_shape.items():
            at = self._at.get((leaf.name, shape), 0)
            if at < 0 or not self.hopeful(leaf, shape):
                continue
            while at < len(line) and line[at][3] in fixed:
                at += 1
            if at:
                self._at[leaf.name, shape] = at
            if at < len(line) and (best is None or line[at] < best):
                best, shape_of_best = line[at], shape
        if best is not None and shape_of_best is not None:
            claim = Claim(best, state.jobs[best[3]], shape_of_best)
        for job in self.growing.get(leaf.name, ()):
            turn = (-job.priority, AFTER_ALL_STEPS, job.submitted, job.id)
            if claim is None or turn < claim.turn:
                claim = Claim(turn, job, shape_of(job), grows=True)
        return claim

    def give_up(self, leaf: Seat, claim: Claim) -> None:
        """Nothing can be done for this claim; nor for those in line behind it, which ask for the same."""
        if claim.grows:
            self.growing[leaf.name].remove(claim.job)
        else:
            self._moved.add(leaf.name)
            self._at[leaf.name, claim.shape] = -1

    def offer(self, leaf: Seat, job: Job) -> None:
        """A job may want more workers."""
        self.growing.setdefault(leaf.name, []).append(job)
