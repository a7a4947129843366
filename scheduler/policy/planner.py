"""The policy: the state of the pool in indexes, and the plan that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from springtide.scheduler.gpu_types import summed
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
    Settings,
    SettingsChanged,
    Snapshot,
    Standing,
)
from springtide.scheduler.policy import cycle, diagnosis
from springtide.scheduler.policy.memo.memo import Memo
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.pool_state import PoolState


class Planner:
    """Plans for one pool. Deterministic: equal facts and equal times give equal plans.

    ``make_memo`` makes the memory between plans; `NoMemo` gives the same plans, slower.
    """

    def __init__(self, snapshot: Snapshot, make_memo: Callable[[ClusterState], Memo] = Memo) -> None:
        self._make_memo = make_memo
        self._index(snapshot.nodes, snapshot.projects, snapshot.jobs, snapshot.settings)

    def _index(
        self, nodes: Iterable[Node], projects: Iterable[Project], jobs: Iterable[Job], settings: Settings
    ) -> None:
        self._pool = PoolState(nodes, projects, jobs, settings)
        self._memos = {state: self._make_memo(state) for state in self._pool.states}
        for state, memo in self._memos.items():
            state.observer = memo

    @property
    def types(self) -> tuple[str, ...]:
        """The GPU types of the pool, in its order."""
        return self._pool.types

    def apply(self, change: Change) -> None:
        """Take note of a change. A changed job costs the same however many jobs wait."""
        pool = self._pool
        match change:
            case JobChanged(job):
                pool.upsert_job(job)
            case JobRemoved(job_id):
                pool.remove_job(job_id)
            case ProjectsChanged(projects):
                self._index(pool.nodes, projects, pool.jobs.values(), pool.settings)
            case NodesChanged(nodes):
                self._index(nodes, pool.projects, pool.jobs.values(), pool.settings)
            case SettingsChanged(settings):
                self._index(pool.nodes, pool.projects, pool.jobs.values(), settings)

    def plan(self, now: float) -> Plan:
        """Return what to do at ``now``, in seconds. It changes no job."""
        return cycle.plan(tuple(self._memos.values()), now)

    def reason(self, job_id: str, now: float) -> Reason:
        """Return why a job waits. Raises `KeyError` for an unknown job."""
        job = self._pool.jobs[job_id]
        state = self._pool.home(job)
        state.pass_time(now)
        return diagnosis.reason(self._memos[state], job, now)

    def position(self, job_id: str) -> int | None:
        """Return the job's position in the queue of its project, counted from 1; None if it does not wait."""
        job = self._pool.jobs.get(job_id)
        if job is None or job.phase is not Phase.WAITING:
            return None
        return self._pool.home(job).queue_position(job)

    def standing(self) -> Mapping[str, Standing]:
        """Return what every project holds, requests and is entitled to, in GPUs."""
        by_type = {name: _standing(state) for name, state in self._pool.by_type.items()}
        if len(by_type) == 1:
            return by_type[self.types[0]]
        names = (project.name for project in self._pool.projects)
        return {name: summed({each: by_type[each][name] for each in self.types}) for name in names}


def _standing(state: ClusterState) -> Mapping[str, Standing]:
    state.update_shares()
    return state.tree.standing()
