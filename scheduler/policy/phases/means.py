"""The loop that serves requests in fair order, by one means after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from math import inf

from springtide.scheduler.policy.ordering.fair_order import FairOrder, PendingRequest, QueueCursor
from springtide.scheduler.policy.plan_builder import Answer, PlanBuilder, Proposal
from springtide.scheduler.policy.state.job_queues import SchedulingClass
from springtide.scheduler.policy.state.projects import ProjectNode


class Means(ABC):
    """One way to get GPUs for requests. Proposals change neither plan nor state until they are accepted.

    No class whose workers want more GPUs than ``largest`` is `promising`: they are passed over without a look.
    """

    largest: float = inf

    def __init__(self, builder: PlanBuilder) -> None:
        self.builder = builder
        self.state = builder.state
        self.cursor = QueueCursor(builder.state, builder.decided)

    def leaves(self) -> Iterable[ProjectNode]:
        """Return the projects that may have a request for this means."""
        return self.state.tree.leaves.values()

    @abstractmethod
    def promising(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        """Return whether a waiting job of this class may get GPUs; cheap, and without effect."""

    @abstractmethod
    def propose(self, request: PendingRequest) -> Answer:
        """Propose how the request gets its GPUs."""

    def next_request(self, leaf: ProjectNode) -> PendingRequest | None:
        """Return the project's next request that the plan considers and that may get GPUs, or None."""
        return self.cursor.next_request(leaf, self._considered, self.largest)

    def _considered(self, leaf: ProjectNode, scheduling_class: SchedulingClass) -> bool:
        return self.promising(leaf, scheduling_class) and self.builder.considers(leaf, scheduling_class)

    def exhausted(self) -> bool:
        """Return whether no further request can be served."""
        return False

    def accepted(self, request: PendingRequest, proposal: Proposal) -> None:  # noqa: B027
        """React to an accepted proposal."""

    def serve(self) -> None:
        """Serve the requests in fair order; one without a proposal is skipped with all of its class."""
        self.serve_in(FairOrder(self.leaves(), self.next_request))

    def serve_in(self, order: FairOrder) -> None:
        """Serve the requests of an order as `serve` does."""
        while not self.exhausted() and (request := order.top()) is not None:
            losing = self.serve_one(request)
            if losing is None:
                self.cursor.skip(request)
            for leaf in (*(losing or ()), request.leaf):
                order.refresh(leaf)

    def serve_one(self, request: PendingRequest) -> list[ProjectNode] | None:
        """Accept the proposal for a request; return the projects that lose GPUs, or None without a proposal."""
        proposal, retry_at = self.propose(request)
        self.builder.retry(retry_at)
        if proposal is None:
            return None
        losing = self.builder.accept(request.leaf, proposal)
        self.accepted(request, proposal)
        return losing
