"""What one cycle has decided so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from springtide.scheduler.model import Decision, Drop, Job, Move, Placement, Reason, Reserve, Start
from springtide.scheduler.policy import reasons
from springtide.scheduler.policy.pool import bits
from springtide.scheduler.policy.state import State
from springtide.scheduler.policy.tree import Seat


@dataclass(slots=True)
class Desk:
    """The decisions of a cycle, and the state as it will be once they are carried out.

    ``started`` and ``grown`` are jobs that get GPUs now, ``shrunk`` those that go on with fewer, from which
    more may be reclaimed. ``left`` are the workers that running jobs keep of which some were taken, ``fixed``
    the jobs that nothing more is decided about in this cycle. ``passed`` counts, per project and size, the
    jobs at the head of the victims' order that are all fixed. ``wake`` are times at which time alone may
    change the plan. ``hopeful`` are, per GPUs of a worker and what projects may give, the nodes that might
    hold one if these projects gave all they may. ``changed`` are the nodes where GPUs were taken from jobs
    that held or awaited them.
    """

    state: State
    now: float
    started: dict[str, tuple[Job, Placement, Reason]] = field(default_factory=dict)
    grown: dict[str, tuple[Job, Placement]] = field(default_factory=dict)
    shrunk: dict[str, Move] = field(default_factory=dict)
    decided: list[Decision] = field(default_factory=list)
    left: dict[str, Placement] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    passed: dict[tuple[str, int], int] = field(default_factory=dict)
    wake: list[float] = field(default_factory=list)
    hopeful: dict[int, list[tuple[Mapping[str, int], int]]] = field(default_factory=dict)
    changed: int = 0

    def held(self, job: Job) -> Placement:
        """The workers the job still has."""
        return self.left.get(job.id, job.placement)

    def settled(self, job: Job) -> bool:
        """Whether the job's minimum run time is over; if not, its end is a time to look again."""
        over = (job.started or 0.0) + self.state.settings.min_runtime
        if over > self.now and self.state.settings.min_runtime > 0:
            self.wake.append(over)
            return False
        return True

    def occupy(self, leaf: Seat, job: Job, placed: Placement) -> None:
        """The job takes these free GPUs now."""
        gpus = len(placed) * job.gpus
        self.state.pool.hold(job.id, placed)
        self.state.tree.count(leaf, held=gpus, claimed=gpus, firm=0 if job.preemptible else gpus)

    def start(self, leaf: Seat, job: Job, placed: Placement, why: Reason) -> None:
        """Decide to start the job on free GPUs."""
        self.occupy(leaf, job, placed)
        self.started[job.id] = (job, placed, why)
        self.fixed.add(job.id)

    def release(self, job: Job) -> None:
        """What was set aside for the job can be given to others."""
        self.state.pool.unreserve(job.reserved)
        nodes = self.state.pool.nodes_of(job.reserved)
        self.changed |= nodes
        for rank in bits(nodes):
            self.state.stir_on(self.state.pool.places[rank])

    def reserve(self, leaf: Seat, job: Job, placed: Placement, why: Reason) -> None:
        """Decide to set GPUs aside for the job."""
        gpus = len(placed) * job.gpus
        self.state.pool.reserve(placed)
        self.state.tree.count(leaf, claimed=gpus, firm=0 if job.preemptible else gpus)
        self.decided.append(Reserve(job.id, placed, why))
        self.fixed.add(job.id)

    def grow(self, leaf: Seat, job: Job, placed: Placement) -> None:
        """Decide that the job goes on with these workers too, once their GPUs are free."""
        gpus = len(placed) * job.gpus
        self.state.pool.reserve(placed)
        self.state.tree.count(leaf, claimed=gpus, firm=0 if job.preemptible else gpus)
        held = self.grown[job.id][1] if job.id in self.grown else job.placement
        first = len(held)
        self.grown[job.id] = (job, (*held, *(replace(each, rank=first + each.rank) for each in placed)))
        self.fixed.add(job.id)

    def decide(self, job: Job, decision: Decision) -> None:
        """Decide about a running job, once and for all in this cycle."""
        self.shrunk.pop(job.id, None)
        self.decided.append(decision)
        self.fixed.add(job.id)

    def decisions(self) -> tuple[Decision, ...]:
        """All that was decided: what is given up, what starts, what makes room."""
        starts = [Start(job.id, placed, why) for job, placed, why in self.started.values()]
        growth = [Move(job.id, placed, None, reasons.grows(job, placed)) for job, placed in self.grown.values()]
        drops = [decision for decision in self.decided if isinstance(decision, Drop)]
        rest = [decision for decision in self.decided if not isinstance(decision, Drop)]
        return (*drops, *starts, *growth, *self.shrunk.values(), *rest)
