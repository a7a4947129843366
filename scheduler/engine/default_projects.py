"""Default projects: what people chose for their jobs that name no project."""

from __future__ import annotations

from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.store.tables import DefaultProject


def chosen(state: State, user: str) -> str | None:
    """Return the project that a person chose, None if there is no choice.

    It may have been deleted since, or the person may have left it.
    """
    choice = state.default_projects.get(user)
    return None if choice is None else choice.project


def choose(transaction: Transaction, user: str, project: str | None) -> None:
    """Set a person's choice, None for no choice."""
    if project is None:
        transaction.default_projects.remove(user)
    else:
        transaction.default_projects.put(DefaultProject(user, project))
