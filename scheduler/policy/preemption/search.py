"""Which running jobs to evict for a waiting one: a search over nodes, the cheapest victims first."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy.ordering import admission
from springtide.scheduler.policy.placement import gang_placement
from springtide.scheduler.policy.placement.gang_placement import Allocation
from springtide.scheduler.policy.plan_builder import Eviction, PlanBuilder, Proposal, Relocation
from springtide.scheduler.policy.preemption.candidates import SearchCache, VictimCandidates
from springtide.scheduler.policy.preemption.consolidation import MoveSearch
from springtide.scheduler.policy.preemption.eviction_units import (
    EvictionUnit,
    NodeOption,
    closeness,
    gpus_freed_on,
    option_of,
    without_surplus,
)
from springtide.scheduler.policy.preemption.rules import Rule
from springtide.scheduler.policy.state.nodes import NodeState, bits, gpus_of, workers_of
from springtide.scheduler.policy.state.projects import ProjectNode

MAX_NODES = 48
"""Maximum number of further nodes compared once one is known to do; more gives closer fits and takes longer."""

FEW_NODES = 8
"""Number of nodes up to which all are looked at, whatever the order of victims."""

MAX_FRUITLESS_NODES = 24
"""Number of nodes without an option after which the promising nodes are computed."""

MAX_VICTIMS = 256
"""Maximum number of evictions that make room for jobs to be moved."""

MAX_REFUSED = 16
"""Maximum number of victims that the rule does not permit before a search ends without a result."""

TRY_EACH_UNTIL = 8
"""Number of evictions up to which moves are tried after each one; then after each growth by this fraction."""


class VictimSearch:
    """A search for victims on behalf of one waiting job, on ``nodes``. It leaves the state as it was.

    ``fits`` tells whether a placement was found, even if the rule does not permit it; ``retry_at`` when a minimum
    run time ends that prevented an eviction, in seconds.
    """

    def __init__(
        self, builder: PlanBuilder, leaf: ProjectNode, job: Job, rule: Rule, cache: SearchCache | None = None
    ) -> None:
        self.builder = builder
        self.state = builder.state
        self.leaf = leaf
        self.job = job
        self.rule = rule
        self.nodes = self.state.pool.suitable(job.gpu_types, job.per_gpu)
        self.fits = False
        self._need = job.gpus * job.min_workers
        self._candidates = VictimCandidates(builder, job, rule, cache or SearchCache())
        self._units: list[EvictionUnit] = []
        self._dropped: list[Job] = []
        self._within = 0
        self._narrowed = False
        self._options: list[NodeOption] = []
        self._seen = 0
        self._last: NodeState | None = None

    @property
    def slack(self) -> dict[str, int]:
        """How many GPUs the open projects may lose."""
        return self._candidates.open_projects()

    @property
    def retry_at(self) -> float:
        """The earliest end of a minimum run time that was in the way."""
        return self._candidates.retry_at

    @property
    def is_general(self) -> bool:
        """Whether a failure holds for all jobs of this kind, whatever their waiting time."""
        return not self.fits and not self._candidates.extended

    # ---------- the search

    def solve(self) -> Proposal | None:
        """Find the cheapest evictions that make the job fit."""
        pool, job = self.state.pool, self.job
        if job.gpus > max(pool.sizes(job.per_gpu), default=0):
            return None
        required = pool.levels.get(job.require or "", {"": pool.all})
        domains = [nodes & self.nodes for _, nodes in sorted(required.items())]
        with self.state.undo.trial():
            for nodes in sorted(domains, key=lambda each: -pool.slots(job.gpus, each)):
                if (proposal := self._solve_within(nodes)) is not None:
                    return proposal
                self._start_anew()
        return None

    def solve_with_moves(self) -> Proposal | None:
        """Find evictions in the victims' order, on any node, that make the job fit once other jobs have moved."""
        count, next_try = 0, 1
        with self.state.undo.trial():
            while count < MAX_VICTIMS and (self._take_cheapest() or self._take_behind_barrier()):
                count += 1
                if count < next_try or self.state.pool.free < self._need or self._exceeds_limit():
                    continue
                search = MoveSearch(self.builder, self.job)
                found = search.solve()
                self._candidates.retry_at = min(self._candidates.retry_at, search.retry_at)
                if found is None:
                    next_try = count + max(1, count // TRY_EACH_UNTIL * TRY_EACH_UNTIL)
                    continue
                landed = (worker for each in found.relocations for worker in each.landed)
                self._give_back((*found.placement, *landed), {each.job.id for each in found.relocations})
                if (proposal := self._propose(found.placement, found.relocations)) is not None:
                    return proposal
        return None

    def _solve_within(self, nodes: int) -> Proposal | None:
        """Find evictions that make the job fit on these nodes, without victims that the rule does not permit."""
        while True:
            with self.state.undo.trial():
                allocation = self._evict_past_barrier(nodes)
                if allocation is None:
                    return None
                proposal = self._propose(workers_of(allocation))
                refused = frozenset(each.job.id for each in self._units if not self.rule.permits((each.job,)))
            self._candidates.excluded |= refused
            if proposal is not None or not refused or len(self._candidates.excluded) > MAX_REFUSED:
                return proposal
            self._start_anew()

    def _start_anew(self) -> None:
        """Start again once what was tried is taken back."""
        self._units, self._dropped = [], []
        self.rule.refresh_barrier()
        self._candidates.restart()

    def _evict_past_barrier(self, nodes: int) -> Allocation | None:
        while True:
            self._within, self._narrowed = nodes & self._candidates.nodes(), False
            self._options, self._seen, self._last = [], 0, None
            allocation = self._evict_until_it_fits(nodes)
            if allocation is not None or not self._lift_barrier():
                return allocation

    def _propose(self, placement: Placement, relocations: tuple[Relocation, ...] = ()) -> Proposal | None:
        """Return the proposal if the rule and the limits permit it."""
        taken: dict[str, Placement] = {}
        for unit in self._units:
            taken[unit.job.id] = taken.get(unit.job.id, ()) + unit.taken
        victims = [self.state.jobs[job_id] for job_id in taken]
        if not self.rule.permits(victims) or self._exceeds_limit():
            return None
        left, code = self.builder.workers_left, self.rule.reason_code
        evictions = tuple(Eviction(job, taken[job.id], left(job), code(job)) for job in victims)
        dropped = tuple(self._dropped)
        return Proposal(
            self.job, placement, later=True, evictions=evictions, relocations=relocations, dropped=dropped
        )

    def _evict_until_it_fits(self, nodes: int) -> Allocation | None:
        while True:
            limited = admission.over_limit(self.leaf, self._need)
            allocation = gang_placement.place_gang(self.state.pool, self.job, self.job.min_workers, nodes)
            if allocation is not None and limited is None:
                self.fits = True
                self._give_back(workers_of(allocation))
                return allocation
            if not (self._take_best() if allocation is None else self._take_cheapest(below=limited)):
                return None

    def _take(self, unit: EvictionUnit) -> None:
        self.builder.take(unit.job, unit.taken, unit.left)
        self._candidates.usage_changed()
        self._units.append(unit)

    def _take_cheapest(self, below: ProjectNode | None = None) -> bool:
        """Evict the next unit in the victims' order, ``below`` a project if given; return whether there is one."""
        unit = self._candidates.next_unit(below)
        if unit is not None:
            self._take(unit)
        return unit is not None

    def _take_behind_barrier(self) -> bool:
        """Evict the next unit if the evictions so far have moved the barrier; return whether there is one."""
        if not self.rule.guaranteed or not self.rule.refresh_barrier():
            return False
        self._candidates.restart()
        return self._take_cheapest()

    def _exceeds_limit(self) -> bool:
        return admission.over_limit(self.leaf, self._need) is not None

    def _lift_barrier(self) -> bool:
        """Evict below the barrier until it is lifted, although these GPUs may be of no use to the job.

        A guaranteed request may claim GPUs from all projects, reserved ones too. Return False without a candidate.
        """
        if not self.rule.guaranteed:
            return False
        if not self.rule.refresh_barrier():
            if not self._drop_one() and (self.rule.barrier is None or not self._take_cheapest()):
                return False
            self.rule.refresh_barrier()
        self._candidates.restart()
        return True

    def _drop_one(self) -> bool:
        """Release the last reservation of a project that has to give up GPUs; return False if there is none."""
        awaiting = [
            job
            for _, job in self.builder.undecided(self.state.awaiting.values())
            if job.preemptible and job not in self._dropped and self._candidates.is_open(job.project)
        ]
        if not awaiting:
            return False
        last = max(awaiting, key=lambda job: (-job.priority, job.submitted, job.id))
        self.state.release(last)
        self._candidates.usage_changed()
        self._dropped.append(last)
        return True

    def _give_back(self, needed: Placement, moved: Collection[str] = ()) -> None:
        """Undo the evictions that GPUs, limits and barrier do not need, the most expensive first.

        Of a job the last eviction is undone first; those of jobs that are ``moved`` stay. Restore the reservations
        that are not in the way.
        """
        used = gpus_of(needed)
        bound = set(moved)
        for unit in reversed(tuple(self._units)):
            if unit.job.id not in bound and used.isdisjoint(gpus_of(unit.taken)):
                mark = self.state.undo.mark()
                self.builder.give_back(unit.job, unit.taken)
                others = (each.job for each in self._units if each is not unit)
                if not self._exceeds_limit() and self.rule.covers(others):
                    self._units.remove(unit)
                    continue
                self.state.undo.roll_back(mark)
            bound.add(unit.job.id)
        for job in [each for each in self._dropped if used.isdisjoint(gpus_of(each.reserved))]:
            self.state.restore(job)
            self.rule.refresh_barrier()
            if self._exceeds_limit() or self.rule.barrier is not None:
                self.state.release(job)
            else:
                self._dropped.remove(job)
        self._candidates.usage_changed()

    # ---------- choosing units

    def _take_best(self) -> bool:
        """Evict the best units that free GPUs for one more worker, among the nodes looked at, if there are any."""
        if self._last is not None:
            self._see(self._last)
        self._look()
        while self._options:
            option = heappop(self._options)
            self._last = self.state.pool.node_states[option.node_index]
            again = self._option_on(self._last)
            if again is None:
                continue
            if again.score <= option.score or not self._options or again.score <= self._options[0].score:
                for unit in again.units:
                    self._take(unit)
                return True
            heappush(self._options, again)
        return False

    def _look(self) -> None:
        """Look at nodes until the best option cannot be beaten, or enough were seen.

        Look at all that may do if they are few, else at those of the cheapest victims first.
        """
        if self._look_at_few(FEW_NODES):
            return
        few = 2 * self._within.bit_count() < self.state.pool.all.bit_count()
        if (self.job.min_workers > 1 or few) and self._narrow():
            return
        found = vain = 0
        for lost, job in self._candidates.in_eviction_order(self._unseen):
            if self._options and (found >= MAX_NODES or self._options[0].score[:2] <= (0, lost)):
                return
            for node in self._unseen(job):
                if self._see(node):
                    found += 1
                else:
                    vain += 1
            if vain >= MAX_FRUITLESS_NODES and not self._narrowed and self._narrow():
                return

    def _narrow(self) -> bool:
        """Leave out the nodes that cannot hold a worker; look at the others if they are few."""
        if not self._narrowed and self._need > 1:
            self._narrowed = True
            self._within = self._candidates.promising_nodes(self._within)
        return self._look_at_few()

    def _look_at_few(self, few: int = MAX_NODES) -> bool:
        """Look at all nodes that are left, if they are few; return whether they were."""
        unseen = self._within & ~self._seen
        if unseen.bit_count() > few or (self.job.min_workers > 1 and not self._narrowed):
            return False
        for index in bits(unseen):
            self._see(self.state.pool.node_states[index])
        return True

    def _unseen(self, job: Job) -> Collection[NodeState]:
        """Return the nodes of the job that are still to be looked at."""
        names, unseen = self.state.pool.by_name, self._within & ~self._seen
        nodes = (names.get(worker.node) for worker in self.builder.workers_left(job))
        return dict.fromkeys(node for node in nodes if node is not None and unseen >> node.index & 1)

    def _see(self, node: NodeState) -> bool:
        """Keep the option that the node offers; return whether there is one."""
        self._seen |= 1 << node.index
        option = self._option_on(node)
        if option is not None:
            heappush(self._options, option)
        return option is not None

    def _option_on(self, node: NodeState) -> NodeOption | None:
        gpus = self.job.gpus
        free = node.free.bit_count()
        short = gpus - free % gpus
        if free + short > node.allocatable.bit_count():
            return None
        units = self._units_on(node, short)
        if units is None:
            return None
        best = self._gather(node, short, list(units), by_size=False)
        if best is not None and best.score[0] == 0:
            return best
        closest = self._gather(node, short, units, by_size=True)
        return min((option for option in (best, closest) if option is not None), default=None)

    def _units_on(self, node: NodeState, short: int) -> list[EvictionUnit] | None:
        """Return the first unit of each job on the node; None if all of them do not free enough GPUs."""
        usable = node.allocatable & ~node.reserved
        masks = {job_id: mask & usable for job_id, mask in node.jobs.items() if self._candidates.may_give(job_id)}
        if sum(mask.bit_count() for mask in masks.values()) < short:
            return None
        found = [unit for job_id in masks if (unit := self._candidates.unit(job_id, node.name)) is not None]
        most = sum(masks[unit.job.id].bit_count() for unit in found)
        return found if most >= short else None

    def _gather(
        self, node: NodeState, short: int, units: list[EvictionUnit], *, by_size: bool
    ) -> NodeOption | None:
        """Return units that free ``short`` GPUs of a node, in the victims' order or by how closely they fit."""
        mark = self.state.undo.mark()
        chosen: list[EvictionUnit] = []
        freed = 0
        while freed < short and units:
            missing = short - freed
            unit = min(units, key=lambda each: closeness(each, node, missing)) if by_size else min(units)
            units.remove(unit)
            if not self._candidates.is_open(unit.job.project):
                continue
            chosen.append(unit)
            freed += gpus_freed_on(unit, node)
            if freed < short:
                self.builder.take(unit.job, unit.taken, unit.left)
                self._candidates.usage_changed(briefly=True)
                if (more := self._candidates.unit(unit.job.id, node.name)) is not None:
                    units.append(more)
        if self.state.undo.mark() > mark:
            self.state.undo.roll_back(mark)
            self._candidates.usage_changed(briefly=True)
        if freed < short:
            return None
        return option_of(node, short, without_surplus(chosen, node, freed - short))
