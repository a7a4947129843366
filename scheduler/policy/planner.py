"""The planner: indexed state of the pool, separate for each GPU type, and the plan that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from msgspec import structs

from springtide.scheduler import timetable
from springtide.scheduler.gpu_types import accepted_types, pool_types, project_of_type, summed
from springtide.scheduler.model import (
    Change,
    Job,
    JobChanged,
    JobRemoved,
    Node,
    NodesChanged,
    Phase,
    Plan,
    Project,
    ProjectsChanged,
    Reason,
    RecentUse,
    SettingsChanged,
    Snapshot,
    Standing,
    UseChanged,
    UseKey,
)
from springtide.scheduler.policy import cycle, diagnosis
from springtide.scheduler.policy.memo import Memo
from springtide.scheduler.policy.state import demand
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.demand import Cause


class Planner:
    """Plans for one pool. Deterministic: equal facts and equal times give equal plans.

    What changes by itself at known times, such as nodes that close, is taken in before each plan and reason.
    ``make_memo`` makes the memory between plans; `NoMemo` gives the same plans, slower. ``types`` are the GPU
    types of the pool, in its order.
    """

    def __init__(self, snapshot: Snapshot, make_memo: Callable[[ClusterState], Memo] = Memo) -> None:
        self._make_memo = make_memo
        self._nodes, self._projects = snapshot.nodes, snapshot.projects
        self._settings = snapshot.settings
        self._jobs = {job.id: job for job in snapshot.jobs}
        self._use = {use.key: use for use in snapshot.recent_use}
        self._index(snapshot.now)

    def _index(self, now: float) -> None:
        self._now = now
        self._changes_at = timetable.next_change(self._nodes, self._projects, now)
        self._timed = timetable.changes_itself(self._nodes, self._projects)
        self.types = pool_types(self._nodes, self._settings.gpu_types)
        self._type_of = {node.name: node.gpu_type for node in self._nodes}
        nodes, projects = (
            timetable.nodes_at(self._nodes, now),
            timetable.projects_at(self._projects, now),
        )
        self._states = {gpu_type: self._state(gpu_type, nodes, projects) for gpu_type in (*self.types, None)}
        self._places: dict[str, tuple[str | None, ...]] = {}
        for job in self._jobs.values():
            self._upsert(job)
        for use in self._use.values():
            self._set_use(use)
        self._memos = {gpu_type: self._make_memo(state) for gpu_type, state in self._states.items()}

    def _pass_time(self, now: float) -> None:
        """Take in changes by time alone, whichever way the clock went."""
        if self._timed and (now >= self._changes_at or now < self._now):
            self._index(now)
        self._now = now

    def _state(self, gpu_type: str | None, nodes: tuple[Node, ...], projects: tuple[Project, ...]) -> ClusterState:
        """Return the state of a type, without jobs; type None is for jobs that accept no type of the pool."""
        if gpu_type is None:
            return ClusterState((), projects, self._settings, now=self._now)
        return ClusterState(
            (node for node in nodes if node.gpu_type == gpu_type),
            (project_of_type(project, gpu_type, self.types) for project in projects),
            self._settings,
            gpu_type=gpu_type,
            types=self.types,
            now=self._now,
        )

    def apply(self, change: Change) -> None:
        """Apply a change. The cost of a changed job does not depend on the number of waiting jobs."""
        match change:
            case JobChanged(job):
                self._upsert(job)
                return
            case JobRemoved(job_id):
                self._remove(job_id)
                return
            case UseChanged(use):
                self._use[use.key] = use
                self._set_use(use)
                return
            case ProjectsChanged(projects):
                self._projects = projects
            case NodesChanged(nodes):
                self._nodes = nodes
            case SettingsChanged(settings):
                self._settings = settings
        self._index(self._now)

    def _set_use(self, use: RecentUse) -> None:
        if use.gpu_type in self.types:
            self._states[use.gpu_type].set_use(use)

    def take_borrowing(self) -> Mapping[UseKey, int]:
        """Return the borrowed GPUs of the projects whose jobs have changed since the last call."""
        borrowed: dict[UseKey, int] = {}
        for gpu_type in self.types:
            borrowed |= self._states[gpu_type].take_borrowing()
        return borrowed

    def _upsert(self, job: Job) -> None:
        places = self._types_for(job)
        if self._places.get(job.id, places) != places:
            self._remove(job.id)
        self._jobs[job.id] = job
        self._places[job.id] = places
        if len(self.types) > 1 and job.phase is Phase.WAITING and not job.reserved:
            job = structs.replace(job, gpu_types=tuple(gpu_type for gpu_type in places if gpu_type is not None))
        for gpu_type in places:
            self._states[gpu_type].upsert_job(job)

    def _remove(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)
        for gpu_type in self._places.pop(job_id, ()):
            self._states[gpu_type].remove_job(job_id)

    def _types_for(self, job: Job) -> tuple[str | None, ...]:
        """Return the type of the job's held or reserved GPUs; for a waiting job, all types that it could run on.

        A job that cannot run on any type gets the first one that it accepts, but no place in a queue there.
        """
        if len(self.types) == 1 and not job.gpu_types:
            return self.types
        for worker in (*job.placement, *job.reserved):
            if worker.node in self._type_of:
                return (self._type_of[worker.node],)
        accepted = accepted_types(job.gpu_types, self.types) or (self.types[0] if job.placement else None,)
        if job.phase is not Phase.WAITING or job.reserved:
            return accepted[:1]
        return tuple(gpu_type for gpu_type in accepted if self._states[gpu_type].could_run(job)) or accepted[:1]

    def plan(self, now: float) -> Plan:
        """Return the plan for ``now``, in seconds. It changes no job."""
        self._pass_time(now)
        plan = cycle.plan(tuple(self._memos.values()), now)
        if self._changes_at < inf and (plan.wake_at is None or plan.wake_at > self._changes_at):
            return replace(plan, wake_at=self._changes_at)
        return plan

    def reason(self, job_id: str, now: float) -> Reason:
        """Return why a job waits: of several GPU types, on the one where it is closest to a start.

        Raises `KeyError` for an unknown job.
        """
        self._pass_time(now)
        job = self._jobs[job_id]
        memo = self._memos[self._closest_type(job)]
        memo.state.pass_time(now)
        memo.state.update_shares()
        avoid = memo.state.jobs[job_id].avoid
        return diagnosis.reason(memo, structs.replace(job, avoid=avoid) if avoid else job, now)

    def _closest_type(self, job: Job) -> str | None:
        """Return the GPU type of a job, of several that it waits for the one on which it is closest to a start."""
        types = self._places[job.id]
        if len(types) == 1:
            return types[0]
        return max(types, key=lambda gpu_type: diagnosis.closeness(self._states[gpu_type], job))

    def impossible(self, job_id: str) -> tuple[Cause, ...]:
        """Return why a waiting job can never run on the pool as it is: a cause for each type that it accepts.

        Empty if it could run on one of them. Raises `KeyError` for an unknown job.
        """
        job = self._jobs[job_id]
        causes: list[Cause] = []
        for state in (self._states[gpu_type] for gpu_type in accepted_types(job.gpu_types, self.types) or (None,)):
            leaf = state.tree.leaves.get(job.project)
            never = None if leaf is None else demand.impossible(state.pool, leaf, job)
            if never is None:
                return ()
            causes.append(never.cause)
        return tuple(causes)

    def position(self, job_id: str) -> int | None:
        """Return the job's position in the queue of its project, counted from 1, for the GPU type of `reason`.

        None if it does not wait, or cannot run on the pool as it is.
        """
        job = self._jobs.get(job_id)
        if job is None or job.phase is not Phase.WAITING:
            return None
        return self._states[self._closest_type(job)].queue_position(job)

    def standing(self) -> Mapping[str, Standing]:
        """Return the held, requested and entitled GPUs of every project."""
        by_type: dict[str, Mapping[str, Standing]] = {}
        for gpu_type in self.types:
            self._states[gpu_type].update_shares()
            by_type[gpu_type] = self._states[gpu_type].tree.standing()
        if len(by_type) == 1:
            return by_type[self.types[0]]
        names = (project.name for project in self._projects)
        return {name: summed({gpu_type: by_type[gpu_type][name] for gpu_type in self.types}) for name in names}
