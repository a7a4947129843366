"""Requests of people for changes, as the API asks for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine.requests import change_requests
from springtide.scheduler.engine.requests.change_requests import RequestContext
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.observed import ObservedNodes
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.store.tables import ChangeRequestRecord

Members = Mapping[str, Sequence[str]]
Change = Callable[[Callable[[Transaction], Any]], Awaitable[Any]]


class ChangeRequests:
    """The requests of a running pool. All methods but `listed` raise `Refusal`."""

    def __init__(
        self,
        state: State,
        nodes: ObservedNodes,
        change: Change,
        clock: Callable[[], float],
        settings: EngineSettings,
    ) -> None:
        self._state = state
        self._nodes = nodes
        self._change = change
        self._clock = clock
        self._settings = settings

    def listed(self, members: Members) -> list[wire.ChangeRequestView]:
        """Return all requests: the pending ones, the oldest first, then the others, the latest decision first."""
        transaction = Transaction(self._state, self._nodes, self._clock())
        found = sorted(self._state.change_requests.values(), key=_rank)
        return [change_requests.view(transaction, each, self._context(members)) for each in found]

    def pending(self, number: int) -> ChangeRequestRecord:
        """Return a pending request."""
        return change_requests.pending_request(self._state.change_requests, number)

    async def make(self, request: wire.NewChangeRequest, user: str, members: Members) -> int:
        """Accept the request of a person, which is on disk when this returns; return its number."""
        number: int = await self._change(
            lambda transaction: change_requests.ask(transaction, request, user, self._context(members))
        )
        return number

    async def withdraw(self, number: int, by: str) -> None:
        """Take a request back."""
        await self._change(lambda transaction: change_requests.withdraw(transaction, number, by))

    async def refuse(self, number: int, refusal: wire.ChangeRefusal, by: str) -> None:
        """Refuse a request with a reason."""
        await self._change(lambda transaction: change_requests.refuse(transaction, number, refusal, by))

    async def approve(self, number: int, approval: wire.ChangeApproval, by: str, members: Members) -> None:
        """Make the change of a request, in the same commit as its approval; a membership is made in the hub."""
        await self._change(
            lambda transaction: change_requests.approve(transaction, number, approval, by, self._context(members))
        )

    def _context(self, members: Members) -> RequestContext:
        return RequestContext(members, self._settings)


def _rank(record: ChangeRequestRecord) -> tuple[bool, float]:
    return not record.pending, record.at if record.decided is None else -record.decided
