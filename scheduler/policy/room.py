"""Makes room for waiting jobs: by moving others, by reclaiming and by preempting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from springtide.scheduler.model import Drop, Job, Move, Order, Pause
from springtide.scheduler.policy import gates, placement, reasons
from springtide.scheduler.policy.claims import Preempt, Reclaim
from springtide.scheduler.policy.consolidation import Found, Moved, find_moves, take_and_move, worth_clearing
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.growing import may_grow, one_more
from springtide.scheduler.policy.lines import Shape, Where, shape_of
from springtide.scheduler.policy.placement import Parts
from springtide.scheduler.policy.pool import workers_of
from springtide.scheduler.policy.promising import is_promise
from springtide.scheduler.policy.tree import Seat
from springtide.scheduler.policy.turns import AFTER_ALL_STEPS, Claim, Turns
from springtide.scheduler.policy.victims import Search
from springtide.scheduler.policy.walk import Hopeful, Walk

ROTATIONS = 128
"""How many jobs at most are rotated at once: nothing is urgent about it, and each of them has to save."""

AGAIN = 1.0
"""Seconds until the next look if more jobs were to be rotated."""


class Room:
    """The second part of a cycle. GPUs of attempts that are stopping count as free from here on."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.state = desk.state
        self._unmoved: set[Where] = set()
        self._unclaimed: set[tuple[str, Where, bool]] = set()
        self._wakes: dict[str, list[float]] = {}
        self._helped: set[str] = set()
        self._gangs: set[str] = set()
        self._free = 0
        self._roomiest = 0
        self._rotated = 0
        self._slots: dict[Where, int] = {}

    def run(self) -> None:
        """Make room in order, by the gentlest means first."""
        state = self.state
        for job in state.pausing.values():
            state.pool.let_go(job.id, job.placement)
        self._free = state.pool.free
        self._roomiest = state.pool.roomiest
        waiting = [leaf for name, leaf in state.tree.leaves.items() if state.lines[name].by_shape]
        self._each(
            (leaf for leaf in waiting if state.lines[leaf.name].smallest <= self._free),
            self._may_consolidate,
            self._consolidate,
        )
        self._redeem()
        self._each((leaf for leaf in waiting if self._under(leaf)), self._may_reclaim, self._reclaim)
        self._grow_into_quotas()
        self._rotate()

    def _each(
        self, leaves: Iterable[Seat], hopeful: Hopeful, attempt: Callable[[Seat, Claim], list[Seat] | None]
    ) -> None:
        """Try for one waiting job after the other; an attempt returns the projects that gave way, or None."""
        walk = Walk(self.desk, hopeful)
        turns = Turns(leaves, walk.head)
        while (turn := turns.top()) is not None:
            leaf, claim = turn
            gave_way = attempt(leaf, claim) if hopeful(leaf, claim.shape) else None
            if gave_way is None:
                walk.give_up(leaf, claim)
            for other in gave_way or ():
                turns.moved(other)
            turns.refresh(leaf)

    # ---------- moving

    def _may_consolidate(self, _leaf: Seat, shape: Shape) -> bool:
        return shape.need <= self._free and shape.where not in self._unmoved

    def _consolidate(self, leaf: Seat, claim: Claim) -> list[Seat] | None:
        """Move jobs so that this one fits; only if every one of them lands again in the same step."""
        if gates.refusal(leaf, claim.job, claim.need) is not None:
            return None
        found = self._find_moves(claim)
        if found is None or not found[1]:
            self._unmoved.add(claim.shape.where)
            return None
        parts, moves = found
        self._decide_moves(claim.job, moves)
        why = reasons.room_was_made(claim.job, [each.job for each in moves])
        self.desk.reserve(leaf, claim.job, workers_of(parts), why)
        self._free = self.state.pool.free
        return []

    def _find_moves(self, claim: Claim) -> Found | None:
        """Look for jobs that can be moved, unless that was in vain and nothing that matters has happened since."""
        desk, pool, denials = self.desk, self.state.pool, self.state.denials
        where = claim.shape.where
        candidates = worth_clearing(desk, claim.job)
        known = denials.stays(where, candidates, pool.all & ~pool.buckets[0], desk.changed, desk.now)
        if known is not None:
            desk.wake.append(known.until)
            return None
        wake, desk.wake = desk.wake, []
        found = find_moves(desk, claim.job)
        if found is None and not desk.changed:
            denials.stay(where, candidates, min(desk.wake, default=inf))
        desk.wake = [*wake, *desk.wake]
        return found

    def _decide_moves(self, job: Job, moves: list[Moved]) -> None:
        pool = self.state.pool
        for each in moves:
            pool.let_go(each.job.id, each.taken)
            pool.reserve(each.landed)
            self.desk.changed |= pool.nodes_of(each.job.placement)
            self.desk.decide(each.job, Move(each.job.id, each.whole, job.id, reasons.makes_room(each.job, job)))

    # ---------- reclaiming

    def _redeem(self) -> None:
        """Make room for those who were promised a start once others have ended, if that can be done by now."""
        state = self.state
        for job in sorted(state.awaiting.values(), key=lambda each: each.id):
            leaf = state.tree.leaves.get(job.project)
            if leaf is None or job.id in self.desk.fixed or not is_promise(state, job):
                continue
            gpus = len(job.reserved) * job.gpus
            pool_mark, tree_mark = state.pool.mark(), state.tree.mark()
            state.pool.unreserve(job.reserved)
            state.tree.count(leaf, claimed=-gpus, firm=0 if job.preemptible else -gpus)
            if self._find_room(leaf, Claim((0, 0, job.submitted, job.id), job, shape_of(job))):
                self.desk.decided.append(Drop(job.id, reasons.better_came(job)))
                self.desk.changed |= state.pool.nodes_of(job.reserved)
            else:
                state.pool.back_to(pool_mark)
                state.tree.back_to(tree_mark)

    def _find_room(self, leaf: Seat, claim: Claim) -> bool:
        """Whether others could be moved or had to give way, so that the job has its GPUs reserved now."""
        self._free = self.state.pool.free
        if self._may_consolidate(leaf, claim.shape) and self._consolidate(leaf, claim) is not None:
            return True
        allowed = self._may_reclaim(leaf, claim.shape) and not gates.over_limit(leaf, 0)
        return allowed and self._reclaim(leaf, claim) is not None

    def _under(self, leaf: Seat) -> bool:
        return leaf.claimed + self.state.lines[leaf.name].smallest <= leaf.entitled

    def _may_reclaim(self, leaf: Seat, shape: Shape) -> bool:
        tried = (leaf.name, shape.where, shape.preemptible) in self._unclaimed
        return not tried and leaf.claimed + shape.need <= leaf.entitled

    def _reclaim(self, leaf: Seat, claim: Claim) -> list[Seat] | None:
        found = self._reclaim_for(leaf, claim)
        if found is None:
            self._unclaimed.add((leaf.name, claim.shape.where, claim.shape.preemptible))
        return found

    def _reclaim_for(self, leaf: Seat, claim: Claim) -> list[Seat] | None:
        if gates.beyond_quota(leaf, claim.job, claim.need) is not None:
            return None
        rule = Reclaim(self.state, leaf, claim.need)
        near_limit = gates.over_limit(leaf, claim.need) is not None
        if claim.job.min_workers > 1 or near_limit:
            found = self._attempt(leaf, claim, Search(self.desk, leaf, claim.job, rule))
        else:
            found = self._reclaim_one(leaf, claim, rule, self.state.pool.all)
        if found is None and leaf.claimed + claim.need <= leaf.quota:
            rule.look_again()
            return self._attempt(leaf, claim, Search(self.desk, leaf, claim.job, rule), moving=True)
        return found

    def _reclaim_one(self, leaf: Seat, claim: Claim, rule: Reclaim, within: int) -> list[Seat] | None:
        """Reclaim for one worker on some nodes: look only where a search in vain before has not looked."""
        denials, desk = self.state.denials, self.desk
        kind = (claim.shape.where, claim.job.preemptible)
        search = Search(desk, leaf, claim.job, rule)
        slack = search.givers.all_open()
        everywhere = not search.nodes & ~within
        search.nodes &= within
        until = inf
        if (known := denials.find(kind, leaf.name, slack, desk.now)) is not None:
            denial, more = known
            until = denial.until
            search.nodes &= denials.since(denial) | desk.changed | self._nodes_of(more)
        wake, desk.wake = desk.wake, []
        found = self._attempt(leaf, claim, search) if search.nodes else None
        until = min(until, *desk.wake, until)
        if found is None and everywhere and not search.found and not desk.changed:
            denials.deny(kind, leaf.name, slack, until)
        desk.wake = [*wake, *desk.wake, until]
        return found

    def _grow_into_quotas(self) -> None:
        """Reclaim more workers for elastic jobs as far as their projects' quotas reach: these are guaranteed.

        Growing costs a restart, so nobody is restarted for what is only borrowed.
        """
        for name, growing in sorted(self.state.growing.items()):
            leaf = self.state.tree.leaves[name]
            jobs = [self.state.jobs[job_id] for job_id in growing]
            for job in sorted(jobs, key=lambda each: (-each.priority, each.submitted, each.id)):
                if self._owns(leaf, job.gpus) and may_grow(self.desk, job):
                    self._grow_into_quota(leaf, job)

    def _grow_into_quota(self, leaf: Seat, job: Job) -> None:
        held = job.placement
        while len(held) < job.workers and self._owns(leaf, job.gpus):
            asks, nodes = one_more(self.desk, job, held)
            claim = Claim(
                (-job.priority, AFTER_ALL_STEPS, job.submitted, job.id), asks, shape_of(asks), grows=True
            )
            rule = Reclaim(self.state, leaf, job.gpus)
            if gates.over_limit(leaf, job.gpus) is not None or self._reclaim_one(leaf, claim, rule, nodes) is None:
                return
            held = self.desk.grown[job.id][1]

    def _owns(self, leaf: Seat, need: int) -> bool:
        """Whether so many more GPUs are within the project's quota, and those above it can honour that."""
        return leaf.claimed + need <= leaf.quota and gates.within_entitlement(leaf, need)

    def _nodes_of(self, projects: Iterable[str]) -> int:
        """The nodes where jobs of these projects run that may give way."""
        nodes = 0
        for project in projects:
            nodes |= self.state.runners[project].nodes
        return nodes

    # ---------- preempting

    def _rotate(self) -> None:
        """Preempt and rotate, in those projects where something may be done."""
        state, desk = self.state, self.desk
        state.stir_nodes(state.quiet.take_nodes() | desk.changed)
        outranked = [state.tree.leaves[name] for name in sorted(state.quiet.loud) if self._outranked(name)]
        wake, desk.wake = desk.wake, []
        for leaf in outranked:
            self._wakes[leaf.name] = []
        self._each(outranked, self._may_preempt, self._preempt)
        for leaf in outranked:
            self._note_quiet(leaf)
            wake.extend(self._wakes[leaf.name])
        desk.wake = [*wake, state.quiet.next_time()]

    def _outranked(self, project: str) -> bool:
        """Whether a running job of the project may have to give way to a waiting one; if not, that is noted."""
        state, runners = self.state, self.state.runners[project]
        leaf = state.tree.leaves[project]
        lowest = runners.lowest_priority()
        all_heads = state.lines[project].heads()
        heads = [head for head in all_heads if self._might_fit(leaf, head[1].where)]
        if heads and lowest is not None:
            if -heads[0][0][0] > lowest:
                return True
            if state.settings.order is Order.LEAST_SERVED:
                ripe = runners.ripening.first(min(shape.step for _, shape in heads))
                if ripe is not None and ripe <= self.desk.now:
                    return True
        state.get_quiet(project, self._next_ripe(project), depends=len(heads) < len(all_heads))
        return False

    def _next_ripe(self, project: str) -> float:
        """When the next running job of the project may have to give way to an equal one that waits."""
        state = self.state
        if state.settings.order is not Order.LEAST_SERVED:
            return inf
        steps = {shape.step for _, shape in state.lines[project].heads()}
        ripening = state.runners[project].ripening
        times = (ripening.after(step, self.desk.now) for step in steps)
        return min((at for at in times if at is not None), default=inf)

    def _might_fit(self, leaf: Seat, where: Where) -> bool:
        """Whether jobs of this kind might fit if all preemptible ones of the project were gone."""
        instead = self.state.runners[leaf.name].slots(where.gpus, self._roomiest)
        return instead > 0 and instead + self._slots_for(where) >= where.min_workers

    def _fits_soon(self, where: Where) -> bool:
        """Whether there is room once those are gone who are stopping: until then others may take it."""
        return self._slots_for(where) >= where.min_workers

    def _slots_for(self, where: Where) -> int:
        """How many workers of this kind fit on free GPUs."""
        if where not in self._slots:
            self._slots[where] = self.state.pool.slots(where.gpus, self.state.pool.all)
        return self._slots[where]

    def _may_preempt(self, leaf: Seat, shape: Shape) -> bool:
        """Whether anybody in the project is less urgent than the first in this line, or had more service."""
        state, runners = self.state, self.state.runners[leaf.name]
        lowest = runners.lowest_priority()
        if lowest is None or not self._might_fit(leaf, shape.where):
            return False
        if -state.lines[leaf.name].by_shape[shape][0][0] > lowest:
            return True
        ripe = runners.ripening.first(shape.step) if state.settings.order is Order.LEAST_SERVED else None
        return ripe is not None and ripe <= self.desk.now

    def _preempt(self, leaf: Seat, claim: Claim) -> list[Seat] | None:
        if gates.beyond_quota(leaf, claim.job, claim.need) is not None:
            return None
        rotates = self._rotated < ROTATIONS
        rule = Preempt(self.state, leaf, claim.job, self.desk.now, rotates=rotates)
        if not rotates:
            self._helped.add(leaf.name)
            self._wakes[leaf.name].append(self.desk.now + AGAIN)
        if not rule.only:
            return None
        search = Search(self.desk, leaf, claim.job, rule)
        found = self._attempt(leaf, claim, search)
        self._wakes[leaf.name].extend(self.desk.wake)
        self.desk.wake.clear()
        if search.found:
            self._helped.add(leaf.name)
        elif claim.job.min_workers > 1:
            self._gangs.add(leaf.name)
        return found

    def _note_quiet(self, leaf: Seat) -> None:
        """Remember the projects where nothing could be done, and when the next of their jobs is ripe."""
        state = self.state
        heads = state.lines[leaf.name].heads()
        until = min([*self._wakes[leaf.name], self._next_ripe(leaf.name)])
        if leaf.name in self._helped or any(self._fits_soon(shape.where) for _, shape in heads):
            self._wakes[leaf.name].append(until)
        else:
            state.get_quiet(leaf.name, until, depends=leaf.name in self._gangs)

    # ---------- one attempt

    def _attempt(self, leaf: Seat, claim: Claim, search: Search, *, moving: bool = False) -> list[Seat] | None:
        """Search, check, decide; or leave all as it was. What is guaranteed is worth ``moving`` others."""
        desk, state, job = self.desk, self.state, claim.job
        pool_mark, tree_mark, left = state.pool.mark(), state.tree.mark(), dict(desk.left)
        rule = search.rule
        moves: list[Moved] = []
        parts: Parts | None = None
        if not moving:
            parts = search.solve()
        elif (way := take_and_move(search)) is not None:
            parts, moves = way
        enough = parts is not None and (search.taken or isinstance(rule, Reclaim))
        victims = [state.jobs[job_id] for job_id in dict.fromkeys(unit.job.id for unit in search.taken)]
        fair = isinstance(rule, Preempt) or rule.balanced(victims)
        if enough and fair and parts is not None and gates.over_limit(leaf, claim.need) is None:
            self._decide_pauses(leaf, job, victims, rule)
            self._decide_moves(job, moves)
            if claim.grows:
                desk.grow(leaf, state.jobs[job.id], workers_of(parts))
            else:
                why = reasons.room_was_made(job, [*victims, *(each.job for each in moves)])
                desk.reserve(leaf, job, workers_of(parts), why)
            if isinstance(rule, Preempt):
                for unit in search.taken:
                    state.pool.reserve(unit.taken)
            return [state.leaf_of(victim) for victim in victims]
        state.pool.back_to(pool_mark)
        state.tree.back_to(tree_mark)
        desk.left = left
        return None

    def _decide_pauses(self, leaf: Seat, job: Job, victims: list[Job], rule: Reclaim | Preempt) -> None:
        for victim in victims:
            self.desk.changed |= self.state.pool.nodes_of(victim.placement)
            rest = self.desk.left.get(victim.id, ())
            theirs, kind = self.state.leaf_of(victim), rule.kind(victim)
            why = reasons.made_way(victim, theirs, job, leaf, kind=kind, keeps=len(rest))
            self._rotated += kind == "rotated"
            if rest:
                self.desk.shrunk[victim.id] = Move(victim.id, placement.ranked(rest), job.id, why)
            else:
                self.desk.decide(victim, Pause(victim.id, job.id, why))
