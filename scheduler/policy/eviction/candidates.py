"""Eviction candidates for a waiting job, the cheapest first (docs/policy.md, The rules and their places)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import merge
from math import inf
from typing import NamedTuple

from springtide.scheduler.model import Job, Placement
from springtide.scheduler.policy.eviction.rules import Rule
from springtide.scheduler.policy.plan_builder import PlanBuilder
from springtide.scheduler.policy.state.nodes import NodeState, mask_of
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.protection import turn_end
from springtide.scheduler.policy.state.running_jobs import start_step, work_lost

Key = tuple[object, ...]
"""Position of a job among the victims: seconds of work lost, project, priority, most recent start."""

NOTHING_LOST = 1.0
"""Service in GPU-seconds below which the pause of an attempt costs nothing."""


class EvictionUnit(NamedTuple):
    """The smallest eviction of a job: one spare worker, or else all workers.

    ``key`` is the job's place in the victims' order, ``lost`` the lost work in GPU-seconds. ``gpus_at_work``
    counts the evicted GPUs, 0 if the attempt has only just started.
    """

    key: Key
    job: Job
    taken: Placement
    left: Placement
    lost: float
    gpus_at_work: int

    def frees_on(self, node: NodeState) -> int:
        """Return how many GPUs of the node become free, without those reserved for other jobs."""
        mask = 0
        for worker in self.taken:
            if worker.node == node.name:
                mask |= mask_of(worker.gpus)
        return (mask & node.allocatable & ~node.reserved).bit_count()


class VictimCandidates:
    """The jobs that a rule allows to evict for the job ``asks``. The caller reports changes of usage.

    ``retry_at`` is the earliest end of a minimum run time that prevented an eviction so far, in seconds. With
    ``ahead``, evictions may wait for the end of minimum run times, so these prevent none.
    """

    def __init__(self, builder: PlanBuilder, asks: Job | None, rule: Rule, *, ahead: bool = False) -> None:
        self.retry_at = inf
        self._builder = builder
        self._state = builder.state
        self._asks = asks
        self._rule = rule
        self._ahead = ahead
        self._open: dict[ProjectNode, bool] = {}
        self._orders: dict[ProjectNode, Key] = {}
        self._protected: dict[str, Job] = {}

    def usage_changed(self) -> None:
        """Forget which projects are open, and their order."""
        self._open.clear()
        self._orders.clear()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Keep the usage of the projects for the end of a block, which undoes its changes of usage."""
        known = self._open
        try:
            yield
        finally:
            self._open = known

    def tried(self) -> None:
        """Forget which projects are open, within a `trial`; their order at its beginning stays."""
        self._open = {}

    # ---------- candidates

    def is_open(self, project: ProjectNode) -> bool:
        """Return whether the project, or one below it, may lose GPUs."""
        if project not in self._open:
            self._open[project] = project.claimed > 0 and self._rule.slack(project) > 0
        return self._open[project]

    def _open_leaves(self) -> Iterator[ProjectNode]:
        """Yield all projects with jobs that may lose GPUs."""
        projects = list(self._rule.subtrees())
        for project in projects:
            if self.is_open(project):
                projects.extend(project.children)
                if not project.children:
                    yield project

    def may_give(self, job_id: str) -> bool:
        """Return whether the job may be evicted, now or after its minimum run time."""
        only = self._rule.candidate_ids
        if only is not None and job_id not in only:
            return False
        job = self._state.jobs[job_id]
        return self._builder.may_stop(job) and self.is_open(self._state.leaf_of(job))

    def unit(self, job: Job, node: str | None = None) -> EvictionUnit | None:
        """Return the next unit of a job, on this node or any; None if there is none."""
        return self._unit(job, node) if self.may_give(job.id) else None

    def _unit(self, job: Job, node: str | None) -> EvictionUnit | None:
        """Return the next unit of a giving job, on this node or any."""
        held = self._builder.workers_planned(job)
        if not held or self._is_protected(job):
            return None
        given: Placement = held
        left: Placement = ()
        if len(held) > job.min_workers:
            last = next((worker for worker in reversed(held) if node in (None, worker.node)), None)
            if last is None:
                return None
            rest = tuple(worker for worker in held if worker is not last)
            if self._state.pool.can_stay(job, rest):
                given, left = (last,), rest
        if not self._rule.permits(job, len(given) * job.gpus):
            return None
        now = self._builder.now
        at_work = job.held_gpus * (now - (job.started or 0.0)) > NOTHING_LOST
        gpus = len(given) * job.gpus if at_work else 0
        return EvictionUnit(self._key(job), job, given, left, job.held_gpus * work_lost(job, now), gpus)

    def units_on(self, node: NodeState, short: int) -> list[EvictionUnit]:
        """Return the first unit of each job on the node; none if all of them together free too few GPUs."""
        usable = node.allocatable & ~node.reserved
        givers = [job_id for job_id in node.jobs if self.may_give(job_id)]
        if sum((node.jobs[job_id] & usable).bit_count() for job_id in givers) < short:
            return []
        units = (self._unit(self._state.jobs[job_id], node.name) for job_id in givers)
        return [unit for unit in units if unit is not None]

    def _is_protected(self, job: Job) -> bool:
        """Return whether its minimum run time prevents the job's eviction; keep its end."""
        if self._ahead or (self._asks is not None and not self._asks.preemptible):
            return False
        protected = self._builder.protected_until(job, self._asks if self._rule.guaranteed else None)
        if self._asks is not None and not self._rule.guaranteed:
            protected = max(protected, turn_end(job))
        if protected > self._builder.now:
            self.retry_at = min(self.retry_at, protected)
            self._protected[job.id] = job
            return True
        return False

    def spared(self, victim: Job) -> tuple[Job, ...]:
        """Return later jobs of the victim's project that only their minimum run times spared so far."""
        later = (job for job in self._protected.values() if job.project == victim.project)
        return tuple(job for job in later if start_step(job) > start_step(victim))

    # ---------- sums

    def most_given(self) -> float:
        """Return a bound on the GPUs that evictions may free.

        The last eviction in each of the open subtrees may exceed what the subtree may lose.
        """
        if self._rule.candidate_ids is not None:
            return sum(self._state.jobs[job_id].held_gpus for job_id in self._rule.candidate_ids)
        bound = 0.0
        open_leaves = list(self._open_leaves())
        for top in filter(self.is_open, self._rule.subtrees()):
            below = (self._state.running[leaf.name] for leaf in open_leaves if top in leaf.path)
            if largest := max((running.largest for running in below), default=0):
                bound += self._rule.most_lost(top) + largest - 1
        return bound

    def may_be_protected(self) -> bool:
        """Return whether minimum run times may prevent evictions for a request that no quota guarantees."""
        leaves, now = self._open_leaves(), self._builder.now
        return any(self._state.running[leaf.name].protected_until > now for leaf in leaves)

    # ---------- nodes

    def promising_nodes(self, gpus: int, workers: int, nodes: int) -> int:
        """Return which nodes may hold a worker if all candidates are evicted; none if too few workers fit."""
        pool = self._state.pool
        giveable: Counter[int] = Counter()
        for leaf in self._open_leaves():
            giveable.update(self._state.running[leaf.name].on_node)
        mask, slots = 0, pool.slots(gpus, nodes)
        for index, given in giveable.items():
            free = pool.node_states[index].free.bit_count()
            more = (free + given) // gpus - free // gpus
            if more > 0 and nodes >> index & 1:
                mask |= 1 << index
                slots += more
        return mask if slots >= workers else 0

    # ---------- in order

    def in_order(self, below: ProjectNode | None = None) -> Iterator[Job]:
        """Yield the candidates in the victims' order, only those ``below`` a project if given."""
        jobs, running = self._state.jobs, self._state.running
        leaves = [leaf for leaf in self._open_leaves() if below is None or below in leaf.path]
        streams = (map(jobs.__getitem__, running[leaf.name].in_order()) for leaf in leaves)
        for job in merge(*streams, key=self._key):
            if self.may_give(job.id):
                yield job

    def units_in_order(self, below: ProjectNode | None = None) -> Iterator[EvictionUnit]:
        """Yield units in the victims' order; the caller takes each before it asks for the next."""
        for job in self.in_order(below):
            while (unit := self.unit(job)) is not None:
                yield unit

    def _key(self, job: Job) -> Key:
        """Return the job's place in the victims' order: least work lost, project, lower priority, most recent."""
        projects = self._order_of(self._state.tree.leaves[job.project])
        lost = work_lost(job, self._builder.now)
        return (lost, projects, job.priority, -start_step(job), -job.submitted, job.id)

    def _order_of(self, project: ProjectNode) -> Key:
        """Return the project's place in the victims' order, from the root down: beyond its share first.

        Of equal projects the jobs decide, not the age of the projects.
        """
        order = self._orders.get(project)
        if order is None:
            above = () if project.parent is None else self._order_of(project.parent)
            entitled, claimed = project.entitled, project.claimed
            within = claimed <= entitled
            own = (entitled > 0, -claimed / max(entitled, 1), -project.use_rank)
            order = self._orders[project] = (*above, within, project.priority, *own)
        return order
