"""The policy: what is known of the pool, kept in indexes, and the plan that follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    SettingsChanged,
    Snapshot,
    Standing,
)
from springtide.scheduler.policy import cycle, waiting
from springtide.scheduler.policy.state import State


class Planner:
    """Plans for one pool. Deterministic: equal facts and equal times give equal plans."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._state = State(snapshot.nodes, snapshot.projects, snapshot.jobs, snapshot.settings)

    def apply(self, change: Change) -> None:
        """Take note of a change. Its cost does not grow with the number of jobs that wait."""
        state = self._state
        match change:
            case JobChanged(job):
                state.learn(job)
            case JobRemoved(job_id):
                state.forget(job_id)
            case ProjectsChanged(projects):
                self._again(projects=projects)
            case NodesChanged(nodes):
                self._again(nodes=nodes)
            case SettingsChanged(settings):
                self._state = State(state.nodes, state.projects, state.jobs.values(), settings)

    def _again(self, *, nodes: Iterable[Node] | None = None, projects: Iterable[Project] | None = None) -> None:
        state = self._state
        jobs: Iterable[Job] = state.jobs.values()
        self._state = State(
            state.nodes if nodes is None else tuple(nodes),
            state.projects if projects is None else tuple(projects),
            jobs,
            state.settings,
        )

    def plan(self, now: float) -> Plan:
        """What to do at ``now``, in seconds. Nothing that is known of jobs changes by it."""
        return cycle.plan(self._state, now)

    def reason(self, job_id: str, now: float) -> Reason:
        """Why a job waits. Raises `KeyError` for an unknown job."""
        self._state.pass_time(now)
        return waiting.reason(self._state, self._state.jobs[job_id], now)

    def place(self, job_id: str) -> int | None:
        """How the job stands in the line of its project, counted from 1; None if it does not wait."""
        job = self._state.jobs.get(job_id)
        if job is None or job.phase is not Phase.WAITING:
            return None
        return self._state.place_in_line(job)

    def standing(self) -> Mapping[str, Standing]:
        """How every project stands."""
        self._state.share_out()
        return self._state.tree.standing()
