"""Which running jobs make room for a waiting one: a search over nodes, the cheapest victims first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy import gates, placement
from springtide.scheduler.policy.claims import Preempt, Reclaim
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.givers import Givers
from springtide.scheduler.policy.placement import Parts
from springtide.scheduler.policy.pool import Place, bits, mask_of, workers_of
from springtide.scheduler.policy.runners import work_lost
from springtide.scheduler.policy.tree import Seat
from springtide.scheduler.policy.units import Option, Unit, at_work, fit, on, score, without_surplus

LOOK_AT = 48
"""How many more nodes are compared once one is known to do. More finds closer fits, and takes longer."""

FEW = 8
"""So few nodes are all looked at, without asking first where the cheapest victims are."""

IN_VAIN = 24
"""After so many nodes that do not do it is worth while to work out which might."""


class Search:
    """Looks for victims on behalf of one waiting job. Pool, tree and desk are changed; the caller rolls back."""

    def __init__(self, desk: Desk, leaf: Seat, job: Job, rule: Reclaim | Preempt) -> None:
        self.desk = desk
        self.state = desk.state
        self.leaf = leaf
        self.job = job
        self.rule = rule
        self.givers = Givers(desk, job, rule)
        self.need = job.gpus * job.min_workers
        self.nodes = self.state.pool.mask_for(job.gpu_types)
        self.within = 0
        self._narrowed = False
        self.found = False
        self.taken: list[Unit] = []
        self._lifts = isinstance(rule, Reclaim) and leaf.claimed + self.need <= leaf.quota
        self._options: list[Option] = []
        self._seen = 0
        self._last: Place | None = None

    # ---------- the search

    def solve(self) -> Parts | None:
        """Take units until the job fits; spare those that turn out not to be needed."""
        if self.job.gpus > self.state.pool.largest:
            return None
        if self.job.require in self.state.pool.levels:
            return self._solve_in_domains(str(self.job.require))
        return self._solve_within(self.nodes)

    def _solve_in_domains(self, level: str) -> Parts | None:
        pool = self.state.pool
        domains = [nodes & self.nodes for _, nodes in sorted(pool.levels[level].items())]
        for nodes in sorted(domains, key=lambda each: -pool.slots(self.job.gpus, each)):
            mark, tree_mark, left = pool.mark(), self.state.tree.mark(), dict(self.desk.left)
            parts = self._solve_within(nodes)
            if parts is not None:
                return parts
            pool.back_to(mark)
            self.state.tree.back_to(tree_mark)
            self.desk.left = left
            self._restart()
        return None

    def _restart(self) -> None:
        self.taken = []
        self.rule.look_again()
        self._begin_again()

    def _begin_again(self) -> None:
        self._options, self._seen, self._last = [], 0, None
        self.givers.restart()

    def _solve_within(self, nodes: int) -> Parts | None:
        while True:
            self.within, self._narrowed = nodes & self.givers.nodes(), False
            parts = self._take_within(nodes)
            if parts is not None or not self._lift():
                return parts

    def _take_within(self, nodes: int) -> Parts | None:
        while True:
            limited = gates.over_limit(self.leaf, self.need)
            parts = placement.find(self.state.pool, self.job, self.job.min_workers, nodes)
            if parts is not None and limited is None:
                self.found = True
                self.spare(workers_of(parts))
                return parts
            units = self._next_units() if parts is None else self._next_below(limited)
            if units is None:
                return None
            for unit in units:
                self._take(unit)

    def _take(self, unit: Unit) -> None:
        self._count(unit, -1)
        self.state.pool.let_go(unit.job.id, unit.taken)
        self.desk.left[unit.job.id] = unit.left
        self.taken.append(unit)

    def _count(self, unit: Unit, sign: int) -> None:
        leaf = self.state.leaf_of(unit.job)
        gpus = sign * unit.gpus
        self.state.tree.count(leaf, claimed=gpus, firm=0 if unit.job.preemptible else gpus)
        self.givers.changed()

    def _lift(self) -> bool:
        """Let those below the barrier give until it is lifted: whoever is within a quota may claim it from all.

        They give although their GPUs may be of no use to the job. False if there is no barrier, or nobody gives.
        """
        if not self._lifts or self.rule.barrier is None:
            return False
        if not self.rule.look_again():
            if not self._take_one():
                return False
            self.rule.look_again()
        self._begin_again()
        return True

    def take_cheapest(self) -> bool:
        """Take the next unit in the victims' order, wherever it is; false if there is none."""
        if self._take_one():
            return True
        if not self._lifts or not self.rule.look_again():
            return False
        self._begin_again()
        return self._take_one()

    def _take_one(self) -> bool:
        for _, job in self.givers.cheapest():
            unit = self._unit(job.id, None, None)
            if unit is not None:
                self._take(unit)
                return True
        return False

    def spare(self, needed_gpus: Placement) -> None:
        """Give back what is not needed, the dearest first."""
        used: dict[str, int] = {}
        for worker in needed_gpus:
            used[worker.node] = used.get(worker.node, 0) | mask_of(worker.gpus)
        bound: set[str] = set()
        for unit in reversed(tuple(self.taken)):
            used_here = any(mask_of(worker.gpus) & used.get(worker.node, 0) for worker in unit.taken)
            if unit.job.id in bound or used_here or not self._can_do_without(unit):
                bound.add(unit.job.id)
                continue
            self.taken.remove(unit)
            self.state.pool.hold(unit.job.id, unit.taken)
            whole = unit.left + unit.taken
            if len(whole) == len(unit.job.placement):
                self.desk.left.pop(unit.job.id, None)
            else:
                self.desk.left[unit.job.id] = whole

    def _can_do_without(self, unit: Unit) -> bool:
        """Whether the limits and the barrier allow the rest if the unit is not taken; if so, it counts again."""
        self._count(unit, 1)
        if gates.over_limit(self.leaf, self.need) is None and self._reaches_without(unit):
            return True
        self._count(unit, -1)
        return False

    def _reaches_without(self, spared: Unit) -> bool:
        """Whether all others may still be asked to give if this unit is not taken."""
        if not self._lifts:
            return True
        self.rule.look_again()
        return self.rule.reaches(unit.job for unit in self.taken if unit is not spared)

    # ---------- choosing units

    def _next_units(self) -> list[Unit] | None:
        """The best set of units that frees room for one more worker, among the nodes worth a look."""
        if self._last is not None and (option := self._option_on(self._last)) is not None:
            heappush(self._options, option)
        self._look()
        while self._options:
            option = heappop(self._options)
            self._last = self.state.pool.places[option.rank]
            again = self._option_on(self._last)
            if again is None:
                continue
            if again.score <= option.score or not self._options or again.score <= self._options[0].score:
                return again.units
            heappush(self._options, again)
        return None

    def _look(self) -> None:
        """Look at nodes until the best option cannot be beaten, or enough were seen.

        All that might do, if they are few; else those of the cheapest victims first.
        """
        if self._look_at_few(FEW):
            return
        if self.job.min_workers > 1 or 2 * self.within.bit_count() < self.state.pool.all.bit_count():
            self._narrow()
            if self._look_at_few():
                return
        found = vain = 0
        for lost, job in self.givers.cheapest():
            if self._options and (found >= LOOK_AT or self._unbeatable(lost)):
                return
            for place in self._unseen(job):
                if self._see(place):
                    found += 1
                else:
                    vain += 1
            if vain >= IN_VAIN and not self._narrowed:
                self._narrow()
                if self._look_at_few():
                    return

    def _narrow(self) -> None:
        """Leave out the nodes that cannot do."""
        if not self._narrowed and self.need > 1:
            self._narrowed = True
            self.within = self.givers.hopeful(self.within)

    def _look_at_few(self, few: int = LOOK_AT) -> bool:
        """If few nodes are left, look at all of them."""
        unseen = self.within & ~self._seen
        if unseen.bit_count() > few or (self.job.min_workers > 1 and not self._narrowed):
            return False
        for rank in bits(unseen):
            self._see(self.state.pool.places[rank])
        return True

    def _unseen(self, job: Job) -> Iterator[Place]:
        for worker in self.desk.held(job):
            place = self.state.pool.by_name.get(worker.node)
            if place is not None and self.within >> place.rank & 1 and not self._seen >> place.rank & 1:
                yield place

    def _see(self, place: Place) -> bool:
        """Note what the node offers, if it offers anything."""
        self._seen |= 1 << place.rank
        option = self._option_on(place)
        if option is not None:
            heappush(self._options, option)
        return option is not None

    def _unbeatable(self, next_lost: float) -> bool:
        beyond, lost = self._options[0].score[:2]
        return beyond == 0 and isinstance(lost, float) and lost <= next_lost

    def _option_on(self, place: Place) -> Option | None:
        gpus = self.job.gpus
        free = place.free.bit_count()
        short = gpus - free % gpus
        if free + short > place.usable.bit_count():
            return None
        units = self._units_on(place, short)
        if units is None:
            return None
        best = self._option(place, short, self._gather(place, short, list(units), by_size=False))
        if best is not None and best.score[0] == 0:
            return best
        closest = self._option(place, short, self._gather(place, short, units, by_size=True))
        return min((option for option in (best, closest) if option is not None), default=None)

    def _option(self, place: Place, short: int, units: list[Unit] | None) -> Option | None:
        return None if units is None else Option((*score(units, short), place.rank), place.rank, units)

    def _units_on(self, place: Place, short: int) -> list[Unit] | None:
        """What each job on the node can give first; None if all of them together do not give enough."""
        units: list[Unit] = []
        most = 0
        only = self.rule.only
        for job_id, mask in place.jobs.items():
            if only is not None and job_id not in only:
                continue
            unit = self._unit(job_id, place.name, None)
            if unit is not None:
                units.append(unit)
                most += (mask & place.usable & ~place.reserved).bit_count()
        return units if most >= short else None

    def _gather(self, place: Place, short: int, units: list[Unit], *, by_size: bool) -> list[Unit] | None:
        """Units that free ``short`` GPUs of a node: by the victims' order, or by how closely they fit."""
        mark = self.state.tree.mark()
        chosen: list[Unit] = []
        freed = 0
        while freed < short and units:
            missing = short - freed
            unit = min(units, key=lambda each: fit(each, place, missing)) if by_size else min(units)
            units.remove(unit)
            if not self.givers.open(unit.job.project):
                continue
            chosen.append(unit)
            freed += on(unit, place)
            if freed < short:
                self.state.tree.count(self.state.leaf_of(unit.job), claimed=-unit.gpus)
                self.givers.tried()
                more = self._unit(unit.job.id, place.name, unit.left) if unit.left else None
                if more is not None:
                    units.append(more)
        if self.state.tree.mark() > mark:
            self.state.tree.back_to(mark)
            self.givers.tried()
        return without_surplus(chosen, place, freed - short) if freed >= short else None

    def _next_below(self, limited: Seat | None) -> list[Unit] | None:
        """The first unit of the projects that share the limit that is in the way."""
        for _, job in self.givers.cheapest():
            if limited in self.state.leaf_of(job).path and (unit := self._unit(job.id, None, None)) is not None:
                return [unit]
        return None

    def _unit(self, job_id: str, node: str | None, held: Placement | None) -> Unit | None:
        """What the job, as far as it is ``held``, can give on this node or anywhere, if it may give anything."""
        job = self.state.jobs[job_id]
        if held is None:
            held = self.desk.held(job)
        if not held or not self.givers.may_give(job):
            return None
        given: Placement = held
        left: Placement = ()
        if len(held) > job.min_workers:
            last = next((worker for worker in reversed(held) if node in (None, worker.node)), None)
            if last is None:
                return None
            rest = tuple(worker for worker in held if worker is not last)
            if self.state.pool.keepable(rest):
                given, left = (last,), rest
        lost = work_lost(job, self.desk.now)
        return Unit((lost, *self.givers.order(job)), job, given, left, lost, at_work(job, self.desk.now))
