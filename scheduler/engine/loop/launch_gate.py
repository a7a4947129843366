"""The order in which launches begin."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field


@dataclass(order=True, slots=True)
class Ticket:
    """A launch that waits: those that borrow nothing come first, then the older. ``admitted`` tells its turn."""

    borrows: bool
    number: int
    admitted: asyncio.Future[bool] = field(compare=False)


class LaunchGate:
    """Admits at most ``places`` launches at a time, in the order of their tickets."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._number = 0
        self._waiting: list[Ticket] = []

    def request(self, *, borrows: bool) -> Ticket:
        """Return a ticket: its ``admitted`` becomes true when the launch may begin. Call `leave` after that."""
        self._number += 1
        ticket = Ticket(borrows, self._number, asyncio.get_running_loop().create_future())
        heapq.heappush(self._waiting, ticket)
        self._admit()
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Give up a launch that waits: its ``admitted`` becomes false. One that was admitted stays so."""
        if not ticket.admitted.done():
            ticket.admitted.set_result(False)

    def leave(self) -> None:
        """Free the place of a launch that was admitted."""
        self._free += 1
        self._admit()

    def _admit(self) -> None:
        while self._free and self._waiting:
            ticket = heapq.heappop(self._waiting)
            if not ticket.admitted.done():
                self._free -= 1
                ticket.admitted.set_result(True)
