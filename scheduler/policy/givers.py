"""The running jobs that may give way to a waiting one, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace

from springtide.scheduler.model import Job, Phase
from springtide.scheduler.policy.claims import Reclaim, Rule
from springtide.scheduler.policy.desk import Desk
from springtide.scheduler.policy.runners import least_lost, work_lost
from springtide.scheduler.policy.tree import Seat
from springtide.scheduler.policy.units import order_among_siblings

Key = tuple[float, tuple[object, ...]]
"""Where a job stands among the victims: the work lost, and the order of those that lose as much.

Of that order only the first part is worked out, that of the topmost project, until more is needed.
"""

Entry = tuple[Key, int, str, int, int, str]
"""The next job of a project and size: key, a number to tell equals apart, project, GPUs, place in line and id."""


class Givers:
    """Those who may give way by one rule, as things stand; it has to be told when these change."""

    def __init__(self, desk: Desk, asks: Job, rule: Rule) -> None:
        self.desk = desk
        self.state = desk.state
        self.rule = rule
        self._asks = asks
        self._stream: list[Entry] | None = None
        self._slack: dict[str, int] = {}
        self._all_open: dict[str, int] | None = None
        self._orders: dict[Seat, tuple[object, ...]] = {}

    def changed(self) -> None:
        """What projects hold is not what it was."""
        self.tried()
        self._orders.clear()

    def tried(self) -> None:
        """What projects hold is not what it was, but only to try something: their order stays."""
        self._slack.clear()
        self._all_open = None

    def restart(self) -> None:
        """Begin anew with the cheapest."""
        self._stream = None
        self.changed()

    # ---------- who

    def open(self, project: str) -> bool:
        """Whether the project has to give anything."""
        slack = self._slack.get(project)
        if slack is None:
            slack = self._slack[project] = self.rule.slack(self.state.tree.leaves[project])
        return slack > 0

    def all_open(self) -> dict[str, int]:
        """All projects that have to give something, and how much."""
        if self._all_open is None:
            self._all_open = {
                leaf.name: slack for leaf in self.rule.leaves() if (slack := self.rule.slack(leaf)) > 0
            }
        return self._all_open

    def may_give(self, job: Job) -> bool:
        """Whether the job may be taken from now."""
        if not job.preemptible or job.id in self.desk.fixed or job.project not in self.state.tree.leaves:
            return False
        if job.phase is not Phase.RUNNING or not self.open(job.project):
            return False
        if job.id in self.desk.shrunk and not isinstance(self.rule, Reclaim):
            return False
        return not self._asks.preemptible or self.desk.settled(job)

    def nodes(self) -> int:
        """The nodes where those are who may give way, if they are known one by one; else all."""
        only, pool = self.rule.only, self.state.pool
        if only is None:
            return pool.all
        nodes = 0
        for job_id in only:
            nodes |= pool.nodes_of(self.desk.held(self.state.jobs[job_id]))
        return nodes

    def hopeful(self, nodes: int) -> int:
        """The nodes that might hold a worker if all that may give way did; none if they are too few."""
        pool, gpus = self.state.pool, self._asks.gpus
        given_by = self.all_open()
        shared = self._asks.min_workers == 1 and self.rule.only is None
        if shared:
            for known, mask in self.desk.hopeful.get(gpus, ()):
                if all(slack <= known.get(name, 0) for name, slack in given_by.items()):
                    return nodes & mask
        mask, slots = 0, pool.slots(gpus, nodes)
        for rank, given in self._giveable(given_by).items():
            free = pool.places[rank].free.bit_count()
            more = (free + given) // gpus - free // gpus
            if more > 0:
                mask |= 1 << rank
                slots += more if nodes >> rank & 1 else 0
        if shared:
            self.desk.hopeful.setdefault(gpus, []).append((given_by, mask))
        return nodes & mask if slots >= self._asks.min_workers else 0

    def _giveable(self, given_by: dict[str, int]) -> dict[int, int]:
        """The most GPUs of each node that can be given, of each project no more than its slack and last job."""
        giveable: dict[int, int] = {}
        if self.rule.only is not None:
            for job_id in self.rule.only:
                for worker in self.desk.held(self.state.jobs[job_id]):
                    place = self.state.pool.by_name.get(worker.node)
                    if place is not None:
                        giveable[place.rank] = giveable.get(place.rank, 0) + len(worker.gpus)
            return giveable
        for name, slack in given_by.items():
            runners = self.state.runners[name]
            if runners.by_gpus:
                most = slack - 1 + max(runners.by_gpus)
                for rank, held in runners.on_node.items():
                    giveable[rank] = giveable.get(rank, 0) + min(held, most)
        return giveable

    # ---------- in order

    def order(self, job: Job) -> tuple[object, ...]:
        """The order of those that lose as much work: of projects, then lower priority, then most recent."""
        projects = self._order_of(self.state.tree.leaves[job.project])
        return (*projects, job.priority, -(job.started or 0.0), -job.submitted, job.id)

    def _order_of(self, seat: Seat) -> tuple[object, ...]:
        """The order of projects as victims: that of turns, backwards, from the top down."""
        order = self._orders.get(seat)
        if order is None:
            above = () if seat.parent is None else self._order_of(seat.parent)
            order = self._orders[seat] = (*above, order_among_siblings(seat))
        return order

    def cheapest(self) -> Iterator[tuple[float, Job]]:
        """The jobs that may give way and the work each loses; continues where it was left."""
        if self.rule.only is not None:
            yield from self._chosen(self.rule.only)
            return
        if self._stream is None:
            self._stream = self._heads()
        stream, now = self._stream, self.desk.now
        while stream:
            key, count, project, gpus, at, job_id = stream[0]
            job = self.state.jobs[job_id]
            current = (work_lost(job, now), self.order(job))
            if current != key:
                heapreplace(stream, (current, count, project, gpus, at, job_id))
                continue
            if self.open(project) and self.may_give(job):
                yield current[0], job
            following = self._entry(count, project, gpus, at + 1)
            if following is None:
                heappop(stream)
            else:
                heapreplace(stream, following)

    def _chosen(self, only: frozenset[str]) -> Iterator[tuple[float, Job]]:
        jobs = [self.state.jobs[job_id] for job_id in only]
        for job in sorted(jobs, key=lambda each: (work_lost(each, self.desk.now), self.order(each))):
            if self.may_give(job):
                yield work_lost(job, self.desk.now), job

    def _heads(self) -> list[Entry]:
        """The first job of each size of each project that may have to give."""
        stream: list[Entry] = []
        fixed, now, leaves, runners = self.desk.fixed, self.desk.now, self.state.tree.leaves, self.state.runners
        for name in self.all_open():
            top = self._order_of(leaves[name].path[-1])
            for gpus, first in runners[name].firsts():
                if first[4] not in fixed:
                    stream.append(((least_lost(first, gpus, now), top), len(stream), name, gpus, 0, first[4]))
                elif entry := self._entry(len(stream), name, gpus, self.desk.passed.get((name, gpus), 0)):
                    stream.append(entry)
        heapify(stream)
        return stream

    def _entry(self, count: int, project: str, gpus: int, at: int) -> Entry | None:
        """The project's next job of this size that is not fixed yet, from a place in line on."""
        desk, ranks = self.desk, self.state.runners[project].by_gpus[gpus]
        while at < len(ranks):
            rank = ranks[at]
            if rank[4] not in desk.fixed:
                top = self._order_of(self.state.tree.leaves[project].path[-1])
                return ((least_lost(rank, gpus, desk.now), top), count, project, gpus, at, rank[4])
            if at == desk.passed.get((project, gpus), 0):
                desk.passed[project, gpus] = at + 1
            at += 1
        return None
