"""All that is remembered from plan to plan: fair orders, entitled and idle projects, and failed searches."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from springtide.scheduler.model import Job
from springtide.scheduler.policy.memo.failed_searches import FailedSearches
from springtide.scheduler.policy.ordering.fair_order import FairOrder, NextRequest
from springtide.scheduler.policy.state.cluster_state import ClusterState, StateObserver
from springtide.scheduler.policy.state.nodes import bits
from springtide.scheduler.policy.state.projects import ProjectNode
from springtide.scheduler.policy.state.timers import Timers

MAX_ORDERS = 16
"""Maximum number of fair orders kept: about one for each number of GPUs that can be free on a node."""


class Memo(StateObserver):
    """Results that stay valid until changes of the state, which it observes, or times make them expire.

    Times are seconds, sets of nodes are bit masks. An idle project is one within which no running job has to make
    room for a waiting one. Events that may change that are: a change of the project; the end of its idle time;
    GPUs that stay free on a node where it runs, or on any node for a project that depends on others.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._forget()

    def _forget(self) -> None:
        leaves = self.state.tree.leaves
        self.failures = FailedSearches(self.state)
        self._orders: dict[Hashable, FairOrder] = {}
        self._place = {name: at for at, name in enumerate(leaves)}
        self._entitled: set[str] = set()
        self._unsure: set[str] = set(leaves)
        self._active: set[str] = set(leaves)
        self._idle_until = Timers()
        self._dependent: set[str] = set()
        self._changed_nodes = 0

    # ---------- observing the state

    def job_changed(self, job: Job) -> None:
        """Expire what depends on the job, its project and its nodes."""
        pool = self.state.pool
        nodes = pool.nodes_of((*job.placement, *job.reserved))
        self.failures.record_changes(nodes)
        self._changed_nodes |= nodes
        self._activate(job.project)
        if nodes and not job.preemptible:
            self._activate(*self._dependent)
        self._activate_projects_of(pool.holders(job.reserved))

    def queue_changed(self, leaf: ProjectNode) -> None:
        """Expire what depends on the waiting jobs of the project."""
        self._activate(leaf.name)
        self.usage_changed(leaf)

    def usage_changed(self, project: ProjectNode) -> None:
        """Expire what depends on what the project holds or is entitled to."""
        if project.name in self._place:
            self._unsure.add(project.name)
        for order in self._orders.values():
            order.stale.add(project)

    def reservation_released(self, job: Job) -> None:
        """Activate the projects that run on the nodes of the reservation: they have more to give."""
        for node, _ in self.state.pool.known(job.reserved):
            self._activate_projects_of(node.jobs)

    def begin_plan(self, now: float) -> None:
        """Activate projects whose idle time is over."""
        self._activate(*self._idle_until.due(now))

    # ---------- answering

    def order_of_waiting(
        self, fitting: Hashable, next_request: NextRequest, changed: Iterable[ProjectNode]
    ) -> FairOrder:
        """Return the order of the projects with a request that may fit on free GPUs.

        ``next_request`` gives equal answers for an equal ``fitting``, except for the ``changed`` projects.
        """
        order = self._orders.pop(fitting, None)
        temporary = {*self.state.tree.changed.values(), *changed}
        if order is None:
            order = FairOrder(self.state.tree.leaves.values(), next_request)
        else:
            order.stale |= temporary
            order.renew(next_request)
        order.stale |= temporary
        self._orders[fitting] = order
        if len(self._orders) > MAX_ORDERS:
            del self._orders[next(iter(self._orders))]
        return order

    def entitled_projects(self) -> list[ProjectNode]:
        """Return the projects that are entitled to their smallest waiting job, in the order of the tree.

        Only those that have changed are looked at.
        """
        leaves = self.state.tree.leaves
        touched = self.state.tree.changed.keys()
        sure = self._unsure - touched
        self._unsure -= sure
        self._entitled = (self._entitled - sure) | set(filter(self._is_entitled, sure))
        entitled = (self._entitled - touched) | set(filter(self._is_entitled, touched))
        return [leaves[name] for name in sorted(entitled, key=self._place.__getitem__)]

    def _is_entitled(self, name: str) -> bool:
        leaf = self.state.tree.leaves[name]
        return 0 < self.state.queues[name].smallest <= leaf.entitled - leaf.claimed

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

        ``depends`` tells that free GPUs on any node, or fewer jobs that cannot be paused, may do so.
        """
        self._active.discard(project)
        self._idle_until.set(project, until)
        if depends:
            self._dependent.add(project)

    def next_activation(self) -> float:
        """Return when the idle time of a project ends first, or infinity."""
        return self._idle_until.next_time()

    def _activate(self, *projects: str) -> None:
        for project in projects:
            if project in self._place:
                self._active.add(project)
                self._idle_until.discard(project)
                self._dependent.discard(project)

    def _activate_projects_of(self, job_ids: Iterable[str]) -> None:
        self._activate(*(self.state.jobs[job_id].project for job_id in job_ids if job_id in self.state.jobs))


class NoMemo(Memo):
    """Forgets everything before each plan. The plans are the same; property tests compare the two."""

    def begin_plan(self, now: float) -> None:
        """Forget all that is known."""
        self._forget()
