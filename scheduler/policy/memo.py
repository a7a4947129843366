"""The memory between plans: fair orders, entitled and idle projects."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from springtide.scheduler.model import Job
from springtide.scheduler.policy.ordering.fair_order import FairOrder, NextRequest
from springtide.scheduler.policy.state.cluster_state import ClusterState
from springtide.scheduler.policy.state.nodes import bits
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.sorted_index import SortedIndex

MAX_ORDERS = 16
"""Maximum number of fair orders kept: about one for each number of GPUs that can be free on a node."""


class Memo:
    """Results that stay valid until changes of the state, or times, make them expire.

    Times are seconds, sets of nodes are bit masks. In an idle project no running job has to make room for a
    waiting one. Three events end that: a change of the project; the end of its idle time; GPUs that stay free on
    one of its nodes, or on any node if the project depends on others.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._forget()

    def _forget(self) -> None:
        self._forget_changes()
        self._orders: dict[Hashable, FairOrder] = {}
        self._place = {leaf: at for at, leaf in enumerate(self.state.tree.leaves.values())}
        self._entitled = set(filter(self._is_entitled, self._place))
        self._active: set[str] = set(self.state.tree.leaves)
        self._idle_until = SortedIndex()
        self._dependent: set[str] = set()
        self._changed_nodes = 0

    def _forget_changes(self) -> None:
        self.state.changed_jobs.clear()
        self.state.changed_projects.clear()
        self.state.renewed_projects.clear()

    def begin_plan(self, now: float) -> None:
        """Expire the results that changes since the last plan concern, and past idle times."""
        for job in self.state.changed_jobs:
            self._expire(job)
        self._activate(*self.state.renewed_projects)
        changed = self.state.changed_projects
        for order in self._orders.values():
            order.stale |= changed
        self._entitled = (self._entitled - changed) | set(filter(self._is_entitled, changed))
        self._forget_changes()
        self._activate(*self._idle_until.take_up_to(now))

    def _expire(self, job: Job) -> None:
        """Expire the results that depend on the job, its project or its nodes."""
        self._activate(job.project)
        if not job.placement and not job.reserved:
            return
        nodes = self.state.pool.nodes_of((*job.placement, *job.reserved))
        self._changed_nodes |= nodes
        if nodes and not job.preemptible:
            self._activate(*self._dependent)
        self._activate_projects_of(self.state.pool.holders(job.reserved))

    def reservation_released(self, job: Job) -> None:
        """Activate the projects that run on the nodes of the reservation: they have more to give."""
        for node, _ in self.state.pool.known(job.reserved):
            self._activate_projects_of(node.jobs)

    def order_of_waiting(
        self, fitting: Hashable, next_request: NextRequest, changed: Iterable[ProjectNode]
    ) -> FairOrder:
        """Return the order of the projects with a request that may fit on free GPUs.

        ``next_request`` gives equal answers for an equal ``fitting``, except for the ``changed`` projects.
        """
        order = self._orders.pop(fitting, None) or FairOrder(self.state.tree.leaves.values(), next_request)
        temporary = {*self.state.tree.changed, *changed}
        order.stale |= temporary
        order.renew(next_request)
        order.stale |= temporary
        self._orders[fitting] = order
        if len(self._orders) > MAX_ORDERS:
            del self._orders[next(iter(self._orders))]
        return order

    def entitled_projects(self) -> list[ProjectNode]:
        """Return the projects that are entitled to their smallest waiting job, in the order of the tree."""
        touched = self.state.tree.changed
        entitled = (self._entitled - touched) | set(filter(self._is_entitled, touched))
        return sorted(entitled, key=self._place.__getitem__)

    def _is_entitled(self, project: ProjectNode) -> bool:
        smallest = 0 if project.children else self.state.queues[project.name].smallest
        return 0 < smallest <= project.entitled - project.claimed

    def projects_to_search(self, changed_nodes: int) -> list[str]:
        """Return the projects that are not idle; the plan changed these nodes."""
        changed_nodes, self._changed_nodes = self._changed_nodes | changed_nodes, 0
        for index in bits(changed_nodes):
            node = self.state.pool.node_states[index]
            if node.free:
                self._activate(*self._dependent)
                self._activate_projects_of(node.jobs)
        return sorted(self._active)

    def mark_idle(self, project: str, until: float, *, depends: bool) -> None:
        """Skip the project in `projects_to_search` until that time or an event that may change the result.

        ``depends``: free GPUs on any node, or fewer jobs that cannot be paused, may do so.
        """
        self._active.discard(project)
        self._idle_until.set(project, until)
        if depends:
            self._dependent.add(project)

    def next_activation(self) -> float:
        """Return when the idle time of a project ends first, or infinity."""
        return self._idle_until.first()

    def _activate(self, *projects: str) -> None:
        for project in projects:
            if project in self.state.tree.leaves:
                self._active.add(project)
                self._idle_until.discard(project)
                self._dependent.discard(project)

    def _activate_projects_of(self, job_ids: Iterable[str]) -> None:
        self._activate(*(self.state.jobs[job_id].project for job_id in job_ids if job_id in self.state.jobs))


class NoMemo(Memo):
    """Forgets everything before each plan. The plans are the same; property tests compare the two."""

    def begin_plan(self, now: float) -> None:
        """Forget all results."""
        self._forget()
