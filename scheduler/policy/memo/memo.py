"""All that is remembered from plan to plan, and its twin that remembers nothing.

`Memo` and `NoMemo` give the same plans; the property tests compare the two on random histories.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import inf

from springtide.scheduler.model import Job
from springtide.scheduler.policy.memo.failed_searches import FailedSearches, Kind
from springtide.scheduler.policy.memo.fair_orders import FairOrders
from springtide.scheduler.policy.memo.idle_projects import IdleProjects
from springtide.scheduler.policy.ordering.fair_order import FairOrder, NextRequest
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.job_queues import PlacementConstraints
from springtide.scheduler.policy.state.nodes import bits
from springtide.scheduler.policy.state.projects import ProjectNode

EVERYWHERE = -1
"""Mask of all nodes."""


class NoMemo:
    """Remembers nothing, so that every plan starts from scratch; also the interface of `Memo`.

    Times are seconds, sets of nodes are bit masks.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._next_activation = inf

    # ---------- observing the state

    def job_changed(self, job: Job, *, removed: bool) -> None:
        """Take note of a job that was added or is being removed."""

    def queue_changed(self, leaf: ProjectNode) -> None:
        """Take note of a change of the project's queues."""

    def usage_changed(self, project: ProjectNode) -> None:
        """Take note of a change of what the project holds or is entitled to."""

    def reservation_released(self, nodes: int) -> None:
        """Take note that a plan released GPUs of these nodes that running jobs may still hold."""

    def begin_plan(self, now: float) -> None:
        """Prepare for a plan."""
        self._next_activation = inf

    def end_plan(self, *, empty: bool) -> None:
        """Take note of the end of a plan, and of whether it decided nothing."""

    # ---------- answering

    def order_of_waiting(
        self, fitting: Hashable, next_request: NextRequest, stale: list[ProjectNode], *, pristine: bool
    ) -> FairOrder:
        """Return the order of the projects with a request that may fit on free GPUs.

        ``next_request`` gives equal answers for an equal ``fitting``, except for the ``stale`` projects. The plan
        is ``pristine`` as long as nothing was decided.
        """
        return FairOrder(self.state.tree.leaves.values(), next_request)

    def entitled_projects(self) -> list[ProjectNode]:
        """Return the projects that are entitled to their smallest waiting job, in the order of the tree."""
        return [leaf for leaf in self.state.tree.leaves.values() if self._is_entitled(leaf)]

    def _is_entitled(self, leaf: ProjectNode) -> bool:
        smallest = self.state.queues[leaf.name].smallest
        return 0 < smallest <= leaf.entitled - leaf.claimed

    def projects_to_search(self, changed_nodes: int) -> list[str]:
        """Return the projects whose own running jobs may have to make room; the plan changed these nodes."""
        return sorted(self.state.tree.leaves)

    def mark_idle(self, project: str, until: float, *, depends: bool) -> None:
        """Skip the project in `projects_to_search` until that time or an event that may change the result.

        ``depends`` tells that events of other projects may do so.
        """
        self._next_activation = min(self._next_activation, until)

    def next_activation(self) -> float:
        """Return the earliest time at which a project that is skipped has to be searched again, or infinity."""
        return self._next_activation

    def nodes_to_search(
        self, kind: Kind, project: str, slack: Mapping[str, int], changed: int, now: float
    ) -> tuple[int, float]:
        """Return the nodes where a search for victims may succeed, and until when it is known to fail elsewhere.

        ``slack`` is what projects may give; the plan ``changed`` these nodes.
        """
        return EVERYWHERE, inf

    def record_failed_search(self, kind: Kind, project: str, slack: Mapping[str, int], until: float) -> None:
        """Take note of a search for victims on all nodes that failed, and will fail until then."""

    def move_fails_until(
        self, constraints: PlacementConstraints, candidates: tuple[int, ...], changed: int, now: float
    ) -> float | None:
        """Return until when moving jobs away from these nodes is known to fail, or None."""
        return None

    def record_failed_move(
        self, constraints: PlacementConstraints, candidates: tuple[int, ...], until: float
    ) -> None:
        """Take note of a search for jobs to move that failed."""


class Memo(NoMemo):
    """Remembers failed searches, idle projects and fair orders until changes of the state make them expire."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self._idle = IdleProjects(state.tree.leaves)
        self._failures = FailedSearches()
        self._orders = FairOrders(state.tree)
        self._changed_queues: set[str] = set()
        self._capacity_changed = True
        self._place = {name: at for at, name in enumerate(state.tree.leaves)}
        self._entitled: set[str] = set()
        self._unsure: set[str] = set(state.tree.leaves)

    # ---------- observing the state

    def job_changed(self, job: Job, *, removed: bool) -> None:
        """Expire what depends on the job, its project and its nodes."""
        pool = self.state.pool
        nodes = pool.nodes_of((*job.placement, *job.reserved))
        if removed and (job.placement or job.reserved):
            self._capacity_changed = True
        self._failures.record_changes(bits(nodes))
        self._idle.record_nodes(nodes)
        self._idle.activate(job.project)
        if nodes and not job.preemptible:
            self._idle.activate_dependent()
        self._activate(pool.holders(job.reserved))

    def queue_changed(self, leaf: ProjectNode) -> None:
        """Expire what depends on the waiting jobs of the project."""
        self._changed_queues.add(leaf.name)
        self._unsure.add(leaf.name)
        self._orders.mark_stale(leaf)
        self._idle.activate(leaf.name)

    def usage_changed(self, project: ProjectNode) -> None:
        """Expire what depends on what the project holds or is entitled to."""
        if project.name in self._place:
            self._unsure.add(project.name)
        self._orders.mark_stale(project)

    def reservation_released(self, nodes: int) -> None:
        """Activate the projects that run on these nodes: they have more to give."""
        for index in bits(nodes):
            self._activate(self.state.pool.node_states[index].jobs)

    def begin_plan(self, now: float) -> None:
        """Activate projects whose idle time is over."""
        self._idle.pass_time(now)

    def end_plan(self, *, empty: bool) -> None:
        """Remember that after an empty plan only changed queues can contain jobs that fit on free GPUs."""
        self._capacity_changed = not empty
        if empty:
            self._changed_queues.clear()

    # ---------- answering

    def order_of_waiting(
        self, fitting: Hashable, next_request: NextRequest, stale: list[ProjectNode], *, pristine: bool
    ) -> FairOrder:
        """Order the projects whose queues changed since the last empty plan if nothing else did; else all."""
        if pristine and not self._capacity_changed:
            tree, queues = self.state.tree, self.state.queues
            changed = [tree.leaves[name] for name in self._changed_queues if queues[name].by_class]
            return FairOrder([*changed, *stale], next_request)
        return self._orders.order(fitting, next_request, [*self.state.tree.changed_projects(), *stale])

    def entitled_projects(self) -> list[ProjectNode]:
        """Return the entitled projects; only those that have changed are looked at."""
        leaves = self.state.tree.leaves
        touched = {project.name for project in self.state.tree.changed_projects()}
        for name in self._unsure - touched:
            self._unsure.discard(name)
            self._set_entitled(self._entitled, name)
        entitled = self._entitled.copy()
        for name in touched & leaves.keys():
            self._set_entitled(entitled, name)
        return [leaves[name] for name in sorted(entitled, key=self._place.__getitem__)]

    def _set_entitled(self, entitled: set[str], name: str) -> None:
        (entitled.add if self._is_entitled(self.state.tree.leaves[name]) else entitled.discard)(name)

    def projects_to_search(self, changed_nodes: int) -> list[str]:
        """Return the active projects, with those activated by GPUs that stayed free on changed nodes."""
        pool = self.state.pool
        for index in bits(self._idle.take_changed_nodes() | changed_nodes):
            if pool.node_states[index].free:
                self._idle.activate_dependent()
                self._activate(pool.node_states[index].jobs)
        return sorted(self._idle.active)

    def mark_idle(self, project: str, until: float, *, depends: bool) -> None:
        """Skip the project until then or until a relevant event."""
        self._idle.mark_idle(project, until, depends=depends)

    def next_activation(self) -> float:
        """Return when the idle time of a project ends first."""
        return self._idle.next_time()

    def nodes_to_search(
        self, kind: Kind, project: str, slack: Mapping[str, int], changed: int, now: float
    ) -> tuple[int, float]:
        """Return the nodes changed since the closest failure, and those of projects that may give more."""
        found = self._failures.search(kind, project, slack, now)
        if found is None:
            return EVERYWHERE, inf
        failure, giving_more = found
        nodes = self._failures.nodes_changed_since(failure) | changed
        for name in giving_more:
            nodes |= self.state.running[name].nodes
        return nodes, failure.until

    def record_failed_search(self, kind: Kind, project: str, slack: Mapping[str, int], until: float) -> None:
        """Record a search for victims on all nodes that failed."""
        self._failures.record_search(kind, project, slack, until)

    def move_fails_until(
        self, constraints: PlacementConstraints, candidates: tuple[int, ...], changed: int, now: float
    ) -> float | None:
        """Return until when moving jobs away from these nodes is known to fail, or None."""
        pool = self.state.pool
        known = self._failures.move(constraints, candidates, pool.all & ~pool.buckets[0], changed, now)
        return None if known is None else known.until

    def record_failed_move(
        self, constraints: PlacementConstraints, candidates: tuple[int, ...], until: float
    ) -> None:
        """Record a search for jobs to move that failed."""
        self._failures.record_move(constraints, candidates, until)

    def _activate(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            if job_id in self.state.jobs:
                self._idle.activate(self.state.jobs[job_id].project)
