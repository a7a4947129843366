"""The policy: the state of the pool in indexes, and the plan that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
from springtide.scheduler.policy.memo.memo import Memo, NoMemo
from springtide.scheduler.policy.state.cluster_state import ClusterState


class Planner:
    """Plans for one pool. Deterministic: equal facts and equal times give equal plans.

    ``make_memo`` makes the memory between plans; `NoMemo` gives the same plans, slower.
    """

    def __init__(self, snapshot: Snapshot, make_memo: Callable[[ClusterState], NoMemo] = Memo) -> None:
        self._make_memo = make_memo
        self._index(snapshot.nodes, snapshot.projects, snapshot.jobs, snapshot.settings)

    def _index(
        self, nodes: Iterable[Node], projects: Iterable[Project], jobs: Iterable[Job], settings: Settings
    ) -> None:
        self._state = ClusterState(nodes, projects, jobs, settings)
        self._memo = self._state.observer = self._make_memo(self._state)

    def apply(self, change: Change) -> None:
        """Take note of a change. A changed job costs the same however many jobs wait."""
        state = self._state
        match change:
            case JobChanged(job):
                state.upsert_job(job)
            case JobRemoved(job_id):
                state.remove_job(job_id)
            case ProjectsChanged(projects):
                self._index(state.nodes, projects, state.jobs.values(), state.settings)
            case NodesChanged(nodes):
                self._index(nodes, state.projects, state.jobs.values(), state.settings)
            case SettingsChanged(settings):
                self._index(state.nodes, state.projects, state.jobs.values(), settings)

    def plan(self, now: float) -> Plan:
        """Return what to do at ``now``, in seconds. It changes no job."""
        return cycle.plan(self._state, self._memo, now)

    def reason(self, job_id: str, now: float) -> Reason:
        """Return why a job waits. Raises `KeyError` for an unknown job."""
        self._state.pass_time(now)
        return diagnosis.reason(self._state, self._state.jobs[job_id], now)

    def position(self, job_id: str) -> int | None:
        """Return the job's position in the queue of its project, counted from 1; None if it does not wait."""
        job = self._state.jobs.get(job_id)
        if job is None or job.phase is not Phase.WAITING:
            return None
        return self._state.queue_position(job)

    def standing(self) -> Mapping[str, Standing]:
        """Return what every project holds, requests and is entitled to, in GPUs."""
        self._state.update_shares()
        return self._state.tree.standing()
