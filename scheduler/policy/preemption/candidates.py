"""The running jobs that may be evicted for a waiting one, the cheapest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from math import inf

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.preemption.eviction_units import EvictionUnit, order_among_siblings
from springtide.scheduler.policy.preemption.rules import Rule
from springtide.scheduler.policy.state.nodes import mask_of
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.running_jobs import least_lost, work_lost
from springtide.scheduler.policy.state.service import has_waited_since

Key = tuple[float, tuple[object, ...]]
"""Position of a job among the victims: work lost in GPU-seconds, then `VictimCandidates.order`.

Of the order only the part of the topmost project is computed until more is needed.
"""

HeapEntry = tuple[Key, int, str, int, int, str]
"""The next job of a project and size: key, tie-breaker, project, GPUs, position and id.

An entry with 0 GPUs stands for all jobs of a project, whose sizes are not looked at until one of them may be next.
"""


NOTHING_LOST = 1.0
"""Service in GPU-seconds below which the pause of an attempt costs nothing."""

MAX_DOUBLINGS = 16
"""Maximum number of times that a job's minimum run time doubles."""


class SearchCache:
    """What searches of one plan have in common; only valid until the plan is carried out.

    ``passed`` counts, by project and GPUs, the jobs at the head of the eviction order that are all decided.
    ``least_lost`` is the least work that a pause of any job loses, by project, in GPU-seconds.
    ``promising_nodes`` holds, by GPUs of a worker, the nodes that may hold one if projects give as much.
    """

    def __init__(self) -> None:
        self.passed: dict[tuple[str, int], int] = {}
        self.least_lost: dict[str, float] = {}
        self.promising_nodes: dict[int, list[tuple[Mapping[str, int], int]]] = {}


class VictimCandidates:
    """The jobs that a rule allows to evict. Changes of usage have to be reported.

    ``retry_at`` is the earliest end of a minimum run time that prevented an eviction so far, in seconds;
    ``extended`` tells that one was extended, for the job that ``asks`` or for another one, which depends on their
    waiting times; ``excluded`` are jobs that are no candidates.
    """

    def __init__(self, builder: PlanBuilder, asks: Job | None, rule: Rule, cache: SearchCache) -> None:
        self.retry_at = inf
        self.extended = False
        self.excluded = frozenset[str]()
        self._builder = builder
        self._state = builder.state
        self._asks = asks
        self._rule = rule
        self._cache = cache
        self._stream: list[HeapEntry] | None = None
        self._slack: dict[str, int] = {}
        self._all_open: dict[str, int] | None = None
        self._orders: dict[ProjectNode, tuple[object, ...]] = {}

    def usage_changed(self, *, briefly: bool = False) -> None:
        """Compute slack again; and the order of projects, unless the change is undone at once."""
        self._slack.clear()
        self._all_open = None
        if not briefly:
            self._orders.clear()

    def restart(self) -> None:
        """Start again with the cheapest candidate."""
        self._stream = None
        self.usage_changed()

    # ---------- who

    def is_open(self, project: str) -> bool:
        """Tell whether the project has to give up anything."""
        if self._all_open is not None:
            return project in self._all_open
        if project not in self._slack:
            self._slack[project] = self._rule.slack(self._state.tree.leaves[project])
        return self._slack[project] > 0

    def open_projects(self) -> dict[str, int]:
        """Return all projects that have to give up anything, and how many GPUs."""
        if self._all_open is None:
            self._all_open = {leaf.name: slack for leaf, slack in self._rule.open_leaves() if slack > 0}
        return self._all_open

    def may_give(self, job_id: str) -> bool:
        """Tell whether the job may be evicted, now or after its minimum run time."""
        only, job = self._rule.candidate_ids, self._state.jobs[job_id]
        if job_id in self.excluded or (only is not None and job_id not in only):
            return False
        return self._builder.may_stop(job) and self.is_open(job.project)

    def consider(self, job: Job) -> bool:
        """Return whether the job may be evicted now; if only its minimum run time prevents it, keep its end.

        What a guaranteed request waits for is not evicted for others before.
        """
        if not self.may_give(job.id):
            return False
        protected = self._protected_until(job)
        if protected > self._builder.now:
            self.retry_at = min(self.retry_at, protected)
            return False
        if not self._rule.guaranteed and job.id in self._builder.awaited:
            self.extended = True
            return False
        return True

    def nodes(self) -> int:
        """Return the nodes of the candidates, if these are known one by one; else all nodes."""
        return self._state.pool.all if self._rule.candidate_ids is None else mask_of(self._giveable({}))

    def promising_nodes(self, nodes: int) -> int:
        """Return which nodes may hold a worker if all candidates are evicted; none if they are too few."""
        asks = self._asks
        assert asks is not None
        pool, gpus = self._state.pool, asks.gpus
        given_by = self.open_projects()
        shared = asks.min_workers == 1 and self._rule.candidate_ids is None
        if shared:
            for known, mask in self._cache.promising_nodes.get(gpus, ()):
                if all(slack <= known.get(name, 0) for name, slack in given_by.items()):
                    return nodes & mask
        mask, slots = 0, pool.slots(gpus, nodes)
        for index, given in self._giveable(given_by).items():
            free = pool.node_states[index].free.bit_count()
            more = (free + given) // gpus - free // gpus
            if more > 0:
                mask |= 1 << index
                slots += more if nodes >> index & 1 else 0
        if shared:
            self._cache.promising_nodes.setdefault(gpus, []).append((given_by, mask))
        return nodes & mask if slots >= asks.min_workers else 0

    def _giveable(self, given_by: dict[str, int]) -> dict[int, int]:
        """Return the most GPUs per node that can be freed, per project at most its slack and one job more."""
        giveable: defaultdict[int, int] = defaultdict(int)
        for job_id in self._rule.candidate_ids or ():
            for node, mask in self._state.pool.known(self._builder.workers_left(self._state.jobs[job_id])):
                giveable[node.index] += mask.bit_count()
        if self._rule.candidate_ids is not None:
            return giveable
        for name, slack in given_by.items():
            running = self._state.running[name]
            if running.by_gpus:
                most = slack - 1 + max(running.by_gpus)
                for index, held in running.on_node.items():
                    giveable[index] += min(most, held)
        return giveable

    def unit(self, job_id: str, node: str | None = None) -> EvictionUnit | None:
        """Return the next unit of a job, on this node or any; None if there is none."""
        job = self._state.jobs[job_id]
        held = self._builder.workers_left(job)
        if not held or not self.consider(job):
            return None
        given: Placement = held
        left: Placement = ()
        if len(held) > job.min_workers:
            last = next((worker for worker in reversed(held) if node in (None, worker.node)), None)
            if last is None:
                return None
            rest = tuple(worker for worker in held if worker is not last)
            if self._state.pool.can_stay(rest):
                given, left = (last,), rest
        now = self._builder.now
        lost = work_lost(job, now)
        at_work = job.held_gpus * (now - (job.started or 0.0)) > NOTHING_LOST
        gpus = len(given) * job.gpus if at_work else 0
        return EvictionUnit((lost, *self.order(job)), job, given, left, lost, gpus)

    def next_unit(self, below: ProjectNode | None = None) -> EvictionUnit | None:
        """Return the next unit in the victims' order, wherever it is, or None; ``below`` a project, if given."""
        for _, job in self.in_eviction_order(lambda job: below is None or below in self._state.leaf_of(job).path):
            if (unit := self.unit(job.id)) is not None:
                return unit
        return None

    def _protected_until(self, job: Job) -> float:
        """Return until when the job must not be evicted, in seconds; minus infinity if it may be.

        The minimum run time doubles with each attempt of the job, so that short requests that are withdrawn again
        and again do not keep pausing it. The guarantee's deadline stays: a job waits one minimum run time at
        most.
        """
        if self._asks is not None and not self._asks.preemptible:
            return -inf
        usual, least = self._builder.protected_until(job), self._state.settings.min_runtime
        if self._asks is None or least <= 0 or not self._rule.guaranteed:
            return usual
        doubled = (job.started or 0.0) + least * 2.0 ** min(job.attempts - 1, MAX_DOUBLINGS)
        extended = min(doubled, has_waited_since(self._asks) + least)
        if extended > max(usual, self._builder.now):
            self.extended = True
            self._builder.awaited.add(job.id)
        return max(usual, extended)

    # ---------- in order

    def order(self, job: Job) -> tuple[object, ...]:
        """Return the order among jobs with equal lost work: by project, lower priority, then most recent."""
        projects = self._order_of(self._state.tree.leaves[job.project])
        return (*projects, job.priority, -(job.started or 0.0), -job.submitted, job.id)

    def _order_of(self, project: ProjectNode) -> tuple[object, ...]:
        """Return the order of projects as victims: the fair order, reversed, from the root down."""
        order = self._orders.get(project)
        if order is None:
            above = () if project.parent is None else self._order_of(project.parent)
            order = self._orders[project] = (*above, order_among_siblings(project))
        return order

    def in_eviction_order(self, wanted: Callable[[Job], object]) -> Iterator[tuple[float, Job]]:
        """Yield wanted candidates and the work each loses, in GPU-seconds; go on where the last call stopped."""
        if self._rule.candidate_ids is not None:
            yield from self._chosen(self._rule.candidate_ids, wanted)
            return
        if self._stream is None:
            self._stream = self._heads()
        stream, now = self._stream, self._builder.now
        while stream:
            key, count, project, gpus, at, job_id = stream[0]
            if not gpus:
                self._refine(stream)
                continue
            job = self._state.jobs[job_id]
            if self.is_open(project) and wanted(job):
                current = (work_lost(job, now), self.order(job))
                if current != key and any(current > rival[0] for rival in stream[1:3]):
                    heapreplace(stream, (current, count, project, gpus, at, job_id))
                    continue
                if self.consider(job):
                    yield current[0], job
            following = self._entry(count, project, gpus, at + 1)
            if following is None:
                heappop(stream)
            else:
                heapreplace(stream, following)

    def _chosen(self, only: frozenset[str], wanted: Callable[[Job], object]) -> Iterator[tuple[float, Job]]:
        jobs = [self._state.jobs[job_id] for job_id in only]
        for job in sorted(jobs, key=lambda each: (work_lost(each, self._builder.now), self.order(each))):
            if wanted(job) and self.consider(job):
                yield work_lost(job, self._builder.now), job

    def _heads(self) -> list[HeapEntry]:
        """Return an entry for each open project with running jobs."""
        stream: list[HeapEntry] = []
        leaves, running, least = self._state.tree.leaves, self._state.running, self._cache.least_lost
        for name in self.open_projects():
            if not (sizes := running[name].by_gpus):
                continue
            if name not in least:
                least[name] = min(least_lost(keys[0], gpus, self._builder.now) for gpus, keys in sizes.items())
            top = self._order_of(leaves[name].path[-1])
            stream.append(((least[name], top), len(stream), name, 0, 0, ""))
        heapify(stream)
        return stream

    def _refine(self, stream: list[HeapEntry]) -> None:
        """Complete the order of the first entry, which stands for a project, or replace it by its sizes."""
        (lost, known), count, project, *_ = stream[0]
        order = self._order_of(self._state.tree.leaves[project])
        if known != order:
            heapreplace(stream, ((lost, order), count, project, 0, 0, ""))
            return
        heappop(stream)
        for gpus in self._state.running[project].by_gpus:
            entry = self._entry(count, project, gpus, self._cache.passed.get((project, gpus), 0))
            if entry is not None:
                heappush(stream, entry)

    def _entry(self, count: int, project: str, gpus: int, at: int) -> HeapEntry | None:
        """Return the project's next job of this size that is not decided, from a position on."""
        builder, cache, keys = self._builder, self._cache, self._state.running[project].by_gpus[gpus]
        while at < len(keys):
            key = keys[at]
            if key[4] not in builder.decided:
                top = self._order_of(self._state.tree.leaves[project].path[-1])
                return ((least_lost(key, gpus, builder.now), top), count, project, gpus, at, key[4])
            if at == cache.passed.get((project, gpus), 0):
                cache.passed[project, gpus] = at + 1
            at += 1
        return None
