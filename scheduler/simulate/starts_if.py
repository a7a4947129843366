"""Changes of the pool that let a waiting job start, each checked by planning with it.

Candidates come from the usage and the requests of jobs, the likeliest first. A candidate becomes an alternative if
the job runs once the pool with that change is at rest, from every origin: the scenario as written and its stable
state, or the live pool. One plan answers for all waiting jobs, so plans are kept. An effort bounds the planning;
beyond it, only alternatives that need no plan remain.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from msgspec import structs

from springtide.scheduler.gpu_types import accepted_types, as_table, limit_of, pool_types, quota_of
from springtide.scheduler.model import (
    Alternative,
    Amount,
    Job,
    JobChanged,
    JobRemoved,
    Node,
    Phase,
    Project,
    Snapshot,
    StartsIf,
)
from springtide.scheduler.policy import Planner
from springtide.scheduler.policy.state.demand import Cause
from springtide.scheduler.simulate.settle import settle

MOST_ALTERNATIVES = 3

EFFORT = 40_000
"""Bound of the planning for the alternatives of a pool: jobs and nodes indexed anew, plus jobs decided about."""

PLAN_EFFORT = 20
"""Effort of one plan, whatever it decides."""

JOBS_COPIED = 40
"""Number of jobs whose copy takes an effort of 1."""

MOST_SINGLE_REMOVALS = 64
"""Maximum number of jobs whose end is tried alone for one waiting job."""

REFUSALS = frozenset({Cause.LIMIT, Cause.QUOTA})
"""Causes for which a job can never run that end with another limit or quota."""

FIRST, LAST = "!", "~"
"""Prefixes of names that sort before and after those of all nodes."""

NODE_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of new nodes that are tried."""


@dataclass(slots=True)
class Budget:
    """The remaining effort."""

    left: int


class Origin:
    """A pool from which changes are planned to rest.

    ``opened`` sets the times of a changed snapshot if they depend on its jobs. ``decisions`` is the number of
    decisions after which the unchanged pool is at rest.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        opened: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot,
        decisions: int = 0,
    ) -> None:
        self.snapshot = snapshot
        self._opened = opened
        self._jobs = {job.id: job for job in snapshot.jobs}
        self._indexing = len(snapshot.jobs) + len(snapshot.nodes)
        self._copying = len(snapshot.jobs) // JOBS_COPIED
        self._decisions = decisions
        self._planner: Planner | None = None

    def effort(self, *, removal: bool) -> int:
        """Return the effort of planning a change; the removal of jobs takes the least."""
        return (
            self._decisions
            + self._copying
            + PLAN_EFFORT
            + (0 if removal and self._planner is not None else self._indexing)
        )

    def running_with(self, change: Alternative, like: Node | None, budget: Budget) -> frozenset[str] | None:
        """Return the jobs that run once the changed pool rests; None if that is beyond the budget.

        New nodes are copies of ``like``.
        """
        after = self._opened(changed(self.snapshot, change, like))
        removal = bool(change.remove_jobs) and after.now == self.snapshot.now
        if self.effort(removal=removal) > budget.left:
            return None
        budget.left -= self._copying
        if removal:
            return self._without(change.remove_jobs, after, budget)
        budget.left -= self._indexing
        return _at_rest(Planner(after), after, budget)[0]

    def _without(self, removed: Sequence[str], after: Snapshot, budget: Budget) -> frozenset[str]:
        """Plan without some jobs, with the planner of the unchanged pool, and put everything back."""
        if self._planner is None:
            self._planner = Planner(self.snapshot)
            budget.left -= self._indexing
        for job_id in removed:
            self._planner.apply(JobRemoved(job_id))
        running, decided = _at_rest(self._planner, after, budget)
        for job_id in decided:
            self._planner.apply(JobRemoved(job_id))
        for job_id in (*removed, *decided):
            self._planner.apply(JobChanged(self._jobs[job_id]))
        return running


def _at_rest(planner: Planner, snapshot: Snapshot, budget: Budget) -> tuple[frozenset[str], list[str]]:
    """Return the jobs that run at rest, none if the pool does not come to rest; and those decided about."""
    before = {job.id: job for job in snapshot.jobs}
    rest = settle(snapshot, planner)
    decided = [job.id for job in rest.jobs.values() if job is not before[job.id]]
    budget.left -= PLAN_EFFORT * (1 + rest.rounds) + len(decided)
    running = (job.id for job in rest.jobs.values() if job.placement)
    return frozenset(running if rest.stable else ()), decided


def changed(snapshot: Snapshot, change: Alternative, like: Node | None = None) -> Snapshot:
    """Return the snapshot with a change; new nodes are copies of ``like``, named after it."""
    removed = set(change.remove_jobs)
    projects = tuple(
        replace(
            project,
            quota=change.quota.get(project.name, project.quota),
            limit=change.limit.get(project.name, project.limit),
        )
        for project in snapshot.projects
    )
    names = [] if like is None else [f"{like.name}-{at:04}" for at in range(change.add_nodes)]
    new = [structs.replace(like, name=name, closed=()) for name in names] if like is not None else []
    jobs = tuple(job for job in snapshot.jobs if job.id not in removed) if removed else snapshot.jobs
    return replace(snapshot, nodes=(*snapshot.nodes, *new), projects=projects, jobs=jobs)


class Diagnosis:
    """Finds the changes that let the waiting jobs of a pool start.

    ``rest`` is the pool at rest, the state of ``planner``. Changes are planned from the ``origins``.
    """

    def __init__(self, rest: Snapshot, planner: Planner, origins: Sequence[Origin], effort: int = EFFORT) -> None:
        self._planner = planner
        self._origins = origins
        self._budget = Budget(effort)
        self._pool = _Numbers(rest, planner)
        self._jobs = {job.id: job for job in rest.jobs}
        self._outcomes: dict[tuple[str, int, int], frozenset[str]] = {}

    def starts_if(self, job_id: str) -> StartsIf:
        """Return the changes that let a job start; none for a job not waiting, or waiting by a hold or delay."""
        job = self._jobs[job_id]
        if job.phase is not Phase.WAITING or job.project not in self._pool.projects:
            return StartsIf()
        causes = self._planner.impossible(job_id)
        if causes and not REFUSALS & set(causes):
            return StartsIf(impossible=True)
        refused = bool(causes)
        found = sorted(self._checked(job, refused=refused), key=lambda alternative: alternative.size)
        if not found and not refused and (ample := self._pool.ample(job)) is not None:
            found = [ample]
        return StartsIf(tuple(found[:MOST_ALTERNATIVES]), impossible=refused and not found)

    def _checked(self, job: Job, *, refused: bool) -> Iterator[Alternative]:
        """Yield an alternative of each kind with which the job starts; ``refused`` if it could not run alone."""
        if any(origin.effort(removal=True) > self._budget.left for origin in self._origins):
            return
        kinds = (
            None if refused else self._removal(job),
            self._first(job, self._pool.limits(job)),
            self._first(job, self._pool.quotas(job)),
            None if refused else self._nodes(job),
        )
        yield from (alternative for alternative in kinds if alternative is not None)

    # ---------- checking

    def _starts(self, job: Job, change: Alternative) -> bool | None:
        """Return whether the job runs after the change, from each origin; None if that is beyond the effort."""
        likes: Sequence[Node | None] = self._pool.largest(job) if change.add_nodes else (None,)
        for like in likes:
            for number, origin in enumerate(self._origins):
                running = self._running(change, like, number, origin)
                if running is None or job.id not in running:
                    return None if running is None else False
        return bool(likes)

    def _running(
        self, change: Alternative, like: Node | None, number: int, origin: Origin
    ) -> frozenset[str] | None:
        key = (json.dumps(structs.asdict(change), sort_keys=True), 0 if like is None else id(like), number)
        if key not in self._outcomes:
            running = origin.running_with(change, like, self._budget)
            if running is None:
                return None
            self._outcomes[key] = running
        return self._outcomes[key]

    def _first(self, job: Job, changes: Iterable[Alternative]) -> Alternative | None:
        """Return the first change with which the job starts."""
        for change in changes:
            starts = self._starts(job, change)
            if starts is None:
                return None
            if starts:
                return change
        return None

    # ---------- jobs and nodes

    def _removal(self, job: Job) -> Alternative | None:
        """Return the job, or the least jobs found, without which the job starts."""
        others = self._pool.in_the_way(job)
        single = self._first(job, (Alternative((other,)) for other in others[:MOST_SINGLE_REMOVALS]))
        if single is not None:
            return single
        count = 2
        while not (starts := self._starts(job, Alternative(tuple(others[:count])))):
            if starts is None or count >= len(others):
                return None
            count *= 2
        return Alternative(tuple(self._least(job, others[:count])))

    def _least(self, job: Job, removed: Sequence[str]) -> Sequence[str]:
        """Return those of the removed jobs that suffice; leave out halves, quarters, and so on to single ones."""
        step = len(removed) // 2
        while step:
            for at in range(len(removed) - step, -1, -step):
                fewer = [*removed[:at], *removed[at + step :]]
                if fewer and self._starts(job, Alternative(tuple(fewer))):
                    removed = fewer
            step //= 2
        return removed

    def _nodes(self, job: Job) -> Alternative | None:
        """Return the least number of new nodes found with which the job starts."""
        most = self._pool.most_nodes
        counts = [number for number in NODE_COUNTS if number < most]
        return self._first(job, (Alternative(add_nodes=number) for number in (*counts, most)))


class _Numbers:
    """Usage, claims and requests of projects at rest, by GPU type, and the changes proposed from them."""

    def __init__(self, rest: Snapshot, planner: Planner) -> None:
        self.projects = {project.name: project for project in rest.projects}
        self._planner = planner
        self._types = pool_types(rest.nodes, rest.settings.gpu_types)
        self._nodes = rest.nodes
        self._jobs = rest.jobs
        self._type_of = {node.name: node.gpu_type for node in rest.nodes}
        self._total = Counter[str]()
        for node in rest.nodes:
            self._total[node.gpu_type] += (node.gpus - len(node.taken)) * node.available
        self._children: defaultdict[str | None, list[Project]] = defaultdict(list)
        for each in rest.projects:
            self._children[each.parent if each.parent in self.projects else None].append(each)
        self._paths = {name: self._path(name) for name in self.projects}
        self._claimed, self._firm = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self._own, self._own_firm = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self._wanted, self._wanted_firm = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for job in rest.jobs:
            self._count(job)

    def _path(self, name: str) -> tuple[Project, ...]:
        """Return a project and its ancestors."""
        path = [self.projects[name]]
        while (above := path[-1].parent) in self.projects:
            assert above is not None
            path.append(self.projects[above])
        return tuple(path)

    def _count(self, job: Job) -> None:
        if job.project not in self.projects or job.phase is Phase.HELD:
            return
        types = self.types_of(job)
        claimed = max(len(job.placement), len(job.reserved)) * job.gpus
        for kind in types:
            for project in self._paths[job.project]:
                key = (project.name, kind)
                self._claimed[key] += claimed
                self._wanted[key] += job.workers * job.gpus
                if not job.preemptible:
                    self._firm[key] += claimed
                    self._wanted_firm[key] += job.workers * job.gpus
            self._own[job.project, kind] += claimed
            self._own_firm[job.project, kind] += 0 if job.preemptible else claimed

    def types_of(self, job: Job) -> Sequence[str]:
        """Return the type of a job's held or reserved GPUs; without any, all types that it accepts."""
        for worker in (*job.placement, *job.reserved):
            if worker.node in self._type_of:
                return (self._type_of[worker.node],)
        return accepted_types(job.gpu_types, self._types)

    # ---------- nodes

    def largest(self, job: Job) -> Sequence[Node]:
        """Return the models for new nodes: the largest available nodes of each type that the job accepts.

        None of a type if a node as large is not available. If the largest differ, the first and the last of them,
        as listed and by name. As names decide between equal nodes, each comes with names before, among and after
        those of the others.
        """
        largest = [self._largest[kind] for kind in accepted_types(job.gpu_types, self._types)]
        return [like for likes in largest for like in likes] if all(largest) else ()

    @cached_property
    def _largest(self) -> Mapping[str, Sequence[Node]]:
        found: dict[str, Sequence[Node]] = {}
        for kind in self._types:
            nodes = [node for node in self._nodes if node.gpu_type == kind]
            most = max((node.gpus for node in nodes), default=0)
            largest = [node for node in nodes if node.gpus == most]
            by_name = sorted(largest, key=lambda node: node.name)
            different: list[Node] = []
            for node in (largest[0], largest[-1], by_name[0], by_name[-1]) if largest else ():
                if all(structs.replace(node, name=model.name) != model for model in different):
                    different.append(node)
            available = all(node.available for node in largest)
            names = (FIRST, LAST)
            likes = [(model, *(structs.replace(model, name=name) for name in names)) for model in different]
            found[kind] = [like for some in likes for like in some] if available else ()
        return found

    @cached_property
    def most_nodes(self) -> int:
        """The number of nodes that suffices for all jobs: one for each worker."""
        return sum(job.workers for job in self._jobs)

    def ample(self, job: Job) -> Alternative | None:
        """Return as many nodes as let the job run beside all others, with a node for each worker.

        None if limits, the quota for non-preemptible jobs, or topology may still keep it waiting.
        """
        wide = [like for like in self.largest(job) if like.gpus >= job.gpus and like.per_gpu.holds(job.per_gpu)]
        if job.require is not None or not wide or len(wide) < len(self.largest(job)):
            return None
        for kind in self.types_of(job):
            for project in self._paths[job.project]:
                key = (project.name, kind)
                limit, quota = limit_of(project, kind, self._types), quota_of(project, kind, self._types)
                if limit is not None and self._wanted[key] > limit:
                    return None
                if not job.preemptible and quota is not None and self._wanted_firm[key] > quota:
                    return None
        if not job.preemptible and self._children[job.project]:
            return None
        return Alternative(add_nodes=self.most_nodes)

    # ---------- limits and quotas

    def limits(self, job: Job) -> Iterator[Alternative]:
        """Yield higher limits if a limit is in the way: as high as the job needs, then with those before it."""
        need, path = job.need, self._paths[job.project]
        for kind in self.types_of(job):
            limits = ((project.name, limit_of(project, kind, self._types)) for project in path)
            limited = {name: limit for name, limit in limits if limit is not None}
            claimed = {name: self._claimed[name, kind] for name in limited}
            for more in dict.fromkeys((need, need + self._before(job))):
                over = {name: claimed[name] + more for name in limited if claimed[name] + more > limited[name]}
                if over:
                    yield Alternative(limit=self._limits(over, kind))
            if any(claimed[name] + need > limited[name] for name in limited):
                yield Alternative(limit=self._limits(dict.fromkeys(limited), kind))

    def _limits(self, changed_: Mapping[str, int | None], kind: str) -> dict[str, Amount]:
        return {name: self._amount(self.projects[name].limit, kind, to, None) for name, to in changed_.items()}

    def quotas(self, job: Job) -> Iterator[Alternative]:
        """Yield higher quotas that the pool can keep: as high as the job needs, then with those before it."""
        need = job.need
        for kind in self.types_of(job):
            for more in dict.fromkeys((need, need + self._before(job))):
                if raised := self._raised(job, kind, more):
                    quotas = ((self.projects[name], to) for name, to in raised.items())
                    yield Alternative(
                        quota={project.name: self._amount(project.quota, kind, to, 0) for project, to in quotas}
                    )

    def _raised(self, job: Job, kind: str, more: int) -> dict[str, int] | None:
        """Return the quotas with which a project may hold ``more``; None if they exceed the pool."""
        raised: dict[str, int] = {}
        claimed, own = (self._claimed, self._own) if job.preemptible else (self._firm, self._own_firm)
        for project in self._paths[job.project]:
            quota = quota_of(project, kind, self._types)
            children = self._children[project.name]
            below = sum(raised.get(child.name, quota_of(child, kind, self._types) or 0) for child in children)
            own_jobs = own[job.project, kind] + more if project.name == job.project else 0
            wanted = max(claimed[project.name, kind] + more, below + own_jobs if children else 0)
            if quota is not None and quota < wanted:
                raised[project.name] = wanted
        top = sum(
            raised.get(child.name, quota_of(child, kind, self._types) or 0) for child in self._children[None]
        )
        return raised if top <= self._total[kind] else None

    def _amount(self, before: Amount, kind: str, to: int | None, missing: int | None) -> Amount:
        """Return an amount with another number for one type, a table on a pool with several types."""
        return to if len(self._types) == 1 else {**as_table(before, self._types, missing), kind: to}

    # ---------- other jobs

    def _before(self, job: Job) -> int:
        """Return the GPUs requested by the jobs before this one in the queue of its project."""
        line = self._lines[job.project]
        return sum(other.need for place, other in line if place < self._place(job))

    @cached_property
    def _lines(self) -> Mapping[str, Sequence[tuple[int, Job]]]:
        lines: defaultdict[str, list[tuple[int, Job]]] = defaultdict(list)
        for job in self._jobs:
            if job.phase is Phase.WAITING:
                lines[job.project].append((self._place(job), job))
        return lines

    def _place(self, job: Job) -> int:
        return self._planner.position(job.id) or 0

    def in_the_way(self, job: Job) -> Sequence[str]:
        """Return all other jobs, sorted by how likely their end lets the job start."""
        need, types = job.need, set(self.types_of(job))
        tight = self._tightest(job)
        place = self._place(job)

        def rank(other: Job) -> tuple[object, ...]:
            held = max(len(other.placement), len(other.reserved)) * other.gpus
            outside = other.project not in self._paths or tight not in self._paths[other.project]
            before = other.project == job.project and not held and self._place(other) < place
            return (
                not types & set(self.types_of(other)),
                tight is not None and outside,
                not held and not before,
                not held,
                held < need,
                other.project != job.project,
                held,
                -(other.started or 0.0),
                other.id,
            )

        return [other.id for other in sorted((other for other in self._jobs if other.id != job.id), key=rank)]

    def _tightest(self, job: Job) -> Project | None:
        """Return the lowest project whose limit, or whose quota for jobs that are not preemptible, is used up."""
        need = job.need
        for kind in self.types_of(job):
            for project in self._paths[job.project]:
                limit, quota = limit_of(project, kind, self._types), quota_of(project, kind, self._types)
                if limit is not None and self._claimed[project.name, kind] + need > limit:
                    return project
                if not job.preemptible and quota is not None and self._firm[project.name, kind] + need > quota:
                    return project
        return None
