"""Default projects: what people chose for their jobs that name no project."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.store.tables import DefaultProject


class DefaultProjects:
    """The default projects by user. One may have been deleted since, or its user may have left it."""

    def __init__(self, state: State, change: Callable[[Callable[[Transaction], None]], Awaitable[None]]) -> None:
        self._state = state
        self._change = change

    def of(self, user: str) -> str | None:
        """Return the project that a person chose, None if there is no choice."""
        choice = self._state.default_projects.get(user)
        return None if choice is None else choice.project

    async def choose(self, user: str, project: str | None) -> None:
        """Set a person's choice, None for no choice; on disk when this returns. Raises `Refusal`."""
        if project == self.of(user):
            return
        if project is None:
            await self._change(lambda transaction: transaction.default_projects.remove(user))
        else:
            await self._change(lambda transaction: transaction.default_projects.put(DefaultProject(user, project)))
