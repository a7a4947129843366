"""Fair orders over all projects, kept from plan to plan."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable

from springtide.scheduler.policy.ordering.fair_order import FairOrder, NextRequest
from springtide.scheduler.policy.state.projects import ProjectNode, ProjectTree

MAX_ORDERS = 16
"""Maximum number of orders kept: about one for each number of GPUs that can be free on a node."""


class FairOrders:
    """The latest few orders. Changes have to be reported with `mark_stale`; all else is taken as unchanged."""

    def __init__(self, tree: ProjectTree) -> None:
        self._tree = tree
        self._orders: OrderedDict[Hashable, FairOrder] = OrderedDict()

    def mark_stale(self, project: ProjectNode) -> None:
        """Report that the queues, usage or entitlement of a project have changed."""
        for order in self._orders.values():
            order.stale[id(project)] = project

    def order(self, key: Hashable, next_request: NextRequest, stale: Iterable[ProjectNode]) -> FairOrder:
        """Return the order by ``next_request``, which is the same function for an equal ``key``.

        The ``stale`` projects are those that differ only for now.
        """
        order = self._orders.get(key)
        temporary = {id(project): project for project in stale}
        if order is None or order.fragmented:
            order = self._orders[key] = FairOrder(self._tree.leaves.values(), next_request)
        else:
            order.stale |= temporary
            order.renew(next_request)
        order.stale |= temporary
        self._orders.move_to_end(key)
        if len(self._orders) > MAX_ORDERS:
            self._orders.popitem(last=False)
        return order
