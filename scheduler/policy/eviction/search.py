"""The search for victims: which running jobs to evict for a waiting one, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop, heappush

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy import gang_placement
from springtide.scheduler.policy.eviction.candidates import EvictionUnit, Key, VictimCandidates
from springtide.scheduler.policy.eviction.consolidation import MoveSearch
from springtide.scheduler.policy.eviction.rules import Rule
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.plan_builder import Eviction, PlanBuilder, Proposal
from springtide.scheduler.policy.state.nodes import NodeState, bits, gpus_of, workers_of
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.running_jobs import work_lost

MAX_NODES = 48
"""Maximum number of nodes compared once one of them suffices; more gives closer fits and takes longer."""

MAX_VICTIMS = 256
"""Maximum number of evictions for each worker."""

TRY_EACH_UNTIL = 8
"""Number of evictions up to which moves are tried after each one; then after each growth by this fraction."""

MAX_FRUITLESS_NODES = 24
"""Number of nodes without an option after which the promising nodes are computed."""

Score = tuple[int, float, list[Key], int]
"""GPUs at work paused beyond the need, work lost in GPU-seconds, the victims' order, and the node's index."""

Option = tuple[Score, list[EvictionUnit]]
"""Units that free enough GPUs of one node for one more worker; the smaller the score the better."""


# VictimSearch is a greedy heuristic: it makes room for one worker of the waiting job after the other, by nodes.
# - Nodes: all suitable ones up to MAX_NODES; on larger pools those of the cheapest victims first, until MAX_NODES
#   suffice or no later victim can be cheaper. After MAX_FRUITLESS_NODES without a solution it skips nodes that
#   would gain no room with all candidates evicted. If a topology level is required, its roomiest domain is first.
# - Victims of a node: the cheapest first (least work lost, projects beyond their shares, lower priority, most
#   recent start), or else the closest fit. The set pausing fewer GPUs beyond the need wins, then less work lost.
# - End: the job is placed within all limits, there are no further candidates, or it took MAX_VICTIMS evictions for
#   each worker. Evictions that the placement turns out not to need are undone, the last ones first.
# - Good enough: the best set of victims over all nodes would take exponential time. Every eviction obeys the rule
#   (quota, share, priority), and victims resume from their last checkpoint: a poorer set repeats some more work.


class VictimSearch:
    """A search for victims on behalf of one waiting job, on ``nodes``. It leaves the state as it was.

    With ``ahead`` it also finds victims whose minimum run times are not over yet.
    """

    def __init__(
        self, builder: PlanBuilder, leaf: ProjectNode, job: Job, rule: Rule, *, ahead: bool = False
    ) -> None:
        self.builder = builder
        self.state = builder.state
        self.leaf = leaf
        self.job = job
        self.rule = rule
        self.nodes = self.state.pool.suitable(job.gpu_types, job.per_gpu, job.avoid)
        self._need = job.need
        self._candidates = VictimCandidates(builder, job, rule, ahead=ahead)
        self._units: list[EvictionUnit] = []
        self._dropped: list[Job] = []
        self._unseen = 0
        self._options: list[Option] = []
        self._victims: Iterator[Job] = iter(())

    @property
    def retry_at(self) -> float:
        """The earliest end of a minimum run time that prevented an eviction, in seconds."""
        return self._candidates.retry_at

    # ---------- the search

    def solve(self) -> Proposal | None:
        """Find cheap evictions that make the job fit, in one domain of its required level, if it has one."""
        pool, job = self.state.pool, self.job
        if job.gpus > max(pool.sizes(job.per_gpu, job.avoid), default=0) or self._is_hopeless():
            return None
        required = pool.levels.get(job.require or "", {"": pool.all})
        domains = [nodes & self.nodes for _, nodes in sorted(required.items())]
        for nodes in sorted(domains, key=lambda domain: -pool.slots(job.gpus, domain)):
            if (proposal := self._evict_until(self._placed, self._take_best, nodes)) is not None:
                return proposal
        return None

    def _is_hopeless(self) -> bool:
        """Return whether all GPUs that evictions may free are too few, now and later.

        A guaranteed request is never hopeless, nor one that can move its barrier: its search goes on beyond the
        first subtrees.
        """
        missing = self._need - self.state.pool.free
        if missing <= 0 or self.rule.guaranteed:
            return False
        given = self._candidates.most_given()
        if given >= missing or self.rule.moves_barrier(given):
            return False
        return not self._candidates.may_be_protected()

    def solve_with_moves(self) -> Proposal | None:
        """Find evictions in the victims' order, on any node, that make the job fit once other jobs have moved."""
        return self._evict_until(self._placed_by_moves, self._take_cheapest, self.nodes)

    def _evict_until(
        self, placed: Callable[[int], Proposal | None], take: Callable[[], bool], nodes: int
    ) -> Proposal | None:
        """Evict until the job is placed on these nodes, within the limits of its project."""
        with self.state.undo.trial():
            self._units, self._dropped = [], []
            self._start_looking(nodes)
            while len(self._units) <= MAX_VICTIMS * self.job.min_workers:
                over = admission.over_limit(self.leaf, self._need)
                proposal = placed(nodes)
                if proposal is not None and over is None:
                    return self._finish(proposal, nodes)
                taken = take() if proposal is None else self._take_cheapest(over)
                if not taken and not self._widen(nodes):
                    break
        return None

    def _placed(self, nodes: int) -> Proposal | None:
        allocation = gang_placement.place_gang(self.state.pool, self.job, self.job.min_workers, nodes)
        return None if allocation is None else Proposal(self.job, workers_of(allocation), later=True)

    def _placed_by_moves(self, nodes: int) -> Proposal | None:
        """Place the job by moving others, after each of the first evictions and then after several more."""
        count = len(self._units)
        if not count or count % (1 + count // TRY_EACH_UNTIL) or self.state.pool.free < self._need:
            return None
        search = MoveSearch(self.builder, self.job)
        proposal = search.solve()
        self._candidates.retry_at = min(self._candidates.retry_at, search.retry_at)
        return proposal

    def _finish(self, proposal: Proposal, nodes: int) -> Proposal | None:
        """Add the evictions that the proposal needs; return None if the rule forbids them."""
        proposal = self._give_back(proposal, nodes)
        taken: dict[str, Placement] = {}
        for unit in self._units:
            taken[unit.job.id] = taken.get(unit.job.id, ()) + unit.taken
        victims = [self.state.jobs[job_id] for job_id in taken]
        if not all(self.rule.permits(victim) for victim in victims):
            return None
        left, code, spared = self.builder.workers_planned, self.rule.reason_code, self._candidates.spared
        evictions = tuple(Eviction(job, taken[job.id], left(job), code(job), spared(job)) for job in victims)
        return replace(proposal, evictions=evictions, dropped=tuple(self._dropped))

    def _give_back(self, proposal: Proposal, nodes: int) -> Proposal:
        """Undo the evictions that the job, limits and barrier do not need, the last ones of the search first.

        The last eviction of a job is undone first; evictions of jobs that move stay. Restore the reservations that
        do not conflict. The proposal has other GPUs than before if these spare an eviction.
        """
        bound = {move.job.id for move in proposal.relocations}
        for unit in reversed(tuple(self._units)):
            if unit.job.id not in bound:
                without = self._without(unit, proposal, nodes)
                if without is None:
                    bound.add(unit.job.id)
                proposal = without or proposal
        used = _gpus_used(proposal)
        for job in [job for job in self._dropped if used.isdisjoint(gpus_of(job.reserved))]:
            self.state.restore(job)
            if self._is_allowed(self._units):
                self._dropped.remove(job)
            else:
                self.state.release(job)
        return proposal

    def _without(self, unit: EvictionUnit, proposal: Proposal, nodes: int) -> Proposal | None:
        """Undo an eviction and return the proposal that is left; None, with nothing undone, if it is needed."""
        mark = self.state.undo.mark()
        self.builder.give_back(unit.job, unit.taken)
        others = [other for other in self._units if other is not unit]
        left: Proposal | None = proposal
        if not self._is_allowed(others):
            left = None
        elif not _gpus_used(proposal).isdisjoint(gpus_of(unit.taken)):
            left = None if proposal.relocations else self._placed(nodes)
        if left is None:
            self.state.undo.roll_back(mark)
        else:
            self._units = others
        return left

    def _is_allowed(self, units: list[EvictionUnit]) -> bool:
        """Return whether these evictions are enough for the limits, and permitted on both sides of the barrier."""
        within = admission.over_limit(self.leaf, self._need) is None
        return within and self.rule.covers(unit.job for unit in units)

    # ---------- evicting

    def _take(self, unit: EvictionUnit) -> None:
        self.builder.take(unit.job, unit.taken, unit.left)
        self._candidates.usage_changed()
        self._units.append(unit)

    def _take_cheapest(self, below: ProjectNode | None = None) -> bool:
        """Evict the next unit in the victims' order, ``below`` a project if given; return False without one."""
        unit = next(self._candidates.units_in_order(below), None)
        if unit is not None:
            self._take(unit)
        return unit is not None

    def _widen(self, nodes: int) -> bool:
        """Extend the search to further projects; return whether it can continue.

        Evictions below the barrier remove it eventually, even if the job cannot use these GPUs.
        """
        if not self.rule.refresh_barrier():
            dropped = self.rule.guaranteed and self._drop_one()
            if not dropped and (self.rule.barrier is None or not self._take_cheapest()):
                return False
            self.rule.refresh_barrier()
        self._start_looking(nodes)
        return True

    def _drop_one(self) -> bool:
        """Release the last reservation in the open projects; return False if there is none.

        Its job may be a stopping one that awaits a restart with other workers.
        """
        jobs = (*self.state.awaiting.values(), *self.state.pausing.values())
        reserved = [
            job
            for leaf, job in self.builder.undecided(job for job in jobs if job.reserved and job.preemptible)
            if job not in self._dropped and self._candidates.is_open(leaf)
        ]
        if not reserved:
            return False
        last = max(reserved, key=lambda job: (-job.priority, job.submitted, job.id))
        self.state.release(last)
        self._candidates.usage_changed()
        self._dropped.append(last)
        return True

    # ---------- choosing nodes

    def _start_looking(self, nodes: int) -> None:
        """Forget the examined nodes, and start again with the cheapest candidates."""
        self.rule.refresh_barrier()
        self._candidates.usage_changed()
        self._unseen = nodes if self.job.min_workers == 1 else self._promising(nodes)
        self._options = []
        self._victims = self._candidates.in_order()

    def _take_best(self) -> bool:
        """Evict the best units that make room for one more worker on an examined node; return False if none do."""
        self._look()
        while self._options:
            score, _ = heappop(self._options)
            node = self.state.pool.node_states[score[-1]]
            again = self._option_on(node)
            if again is not None and self._options and again[0] > max(score, self._options[0][0]):
                heappush(self._options, again)
            elif again is not None:
                for unit in again[1]:
                    self._take(unit)
                if self.job.min_workers > 1 or self.job.require is not None:
                    self._see(node)
                return True
        return False

    def _look(self) -> None:
        """Examine nodes until the best option cannot be beaten, or enough have an option.

        Examine all if they are few, else those of the cheapest victims first.
        """
        found = vain = 0
        narrowed = self._need == 1 or self.job.min_workers > 1
        least = max(1, self.job.gpus - self.state.pool.max_free)
        while self._unseen.bit_count() > MAX_NODES:
            job = next(self._victims, None)
            if job is None:
                return
            for node, _ in self.state.pool.known(self.builder.workers_planned(job)):
                if self._unseen >> node.index & 1:
                    seen = self._see(node)
                    found += seen
                    vain += not seen
            unbeaten = (0, least * work_lost(job, self.builder.now))
            if self._options and (found >= MAX_NODES or self._options[0][0][:2] <= unbeaten):
                return
            if vain >= MAX_FRUITLESS_NODES and not narrowed:
                narrowed = True
                self._unseen = self._promising(self._unseen)
        for index in bits(self._unseen):
            self._see(self.state.pool.node_states[index])

    def _promising(self, nodes: int) -> int:
        return self._candidates.promising_nodes(self.job.gpus, self.job.min_workers, nodes)

    def _see(self, node: NodeState) -> bool:
        """Keep the option that the node offers; return whether there is one."""
        self._unseen &= ~(1 << node.index)
        option = self._option_on(node)
        if option is not None:
            heappush(self._options, option)
        return option is not None

    def _option_on(self, node: NodeState) -> Option | None:
        """Return the better of two sets of units: the cheapest, or the closest fit."""
        free = node.free.bit_count()
        short = self.job.gpus - free % self.job.gpus
        if free + short > node.allocatable.bit_count():
            return None
        units = self._candidates.units_on(node, short)
        if not units:
            return None
        alone = len(units) == 1
        cheapest = self._gather(node, short, list(units), by_size=False)
        if alone or (cheapest is not None and cheapest[0][0] == 0):
            return cheapest
        closest = self._gather(node, short, units, by_size=True)
        return min((option for option in (cheapest, closest) if option is not None), default=None)

    def _gather(self, node: NodeState, short: int, units: list[EvictionUnit], *, by_size: bool) -> Option | None:
        """Return units that free ``short`` GPUs of a node, in the victims' order or the closest fit first."""
        with self.state.undo.trial(), self._candidates.trial():
            chosen = self._chosen(node, short, units, by_size=by_size)
        if chosen is None:
            return None
        beyond = max(0, sum(unit.gpus_at_work for unit in chosen) - short)
        lost = float(sum(unit.lost for unit in chosen))
        return (beyond, lost, [unit.key for unit in chosen], node.index), chosen

    def _chosen(
        self, node: NodeState, short: int, units: list[EvictionUnit], *, by_size: bool
    ) -> list[EvictionUnit] | None:
        """Evict units of a node one after the other until ``short`` GPUs are free; None if there are too few."""
        chosen: list[EvictionUnit] = []
        missing = short
        frees = {unit.job.id: unit.frees_on(node) for unit in units}

        def closeness(unit: EvictionUnit) -> tuple[object, ...]:
            here = frees[unit.job.id]
            return (here < missing, abs(here - missing), unit)

        while units:
            unit = min(units, key=closeness) if by_size else min(units)
            units.remove(unit)
            if not self._candidates.is_open(self.state.leaf_of(unit.job)):
                continue
            chosen.append(unit)
            missing -= frees[unit.job.id]
            if missing <= 0:
                return chosen
            self.builder.take(unit.job, unit.taken, unit.left)
            self._candidates.tried()
            if (more := self._candidates.unit(unit.job, node.name)) is not None:
                units.append(more)
                frees[unit.job.id] = more.frees_on(node)
        return None


def _gpus_used(proposal: Proposal) -> set[tuple[str, int]]:
    """Return the GPUs that the job and those that move for it get."""
    landed = (worker for move in proposal.relocations for worker in move.landed)
    return gpus_of((*proposal.placement, *landed))
