"""Notifications on open pages, which the event stream has: those of the pool, and JupyterLab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from springtide.hub_extension.notifications.channel import Channel
from springtide.scheduler.notifications import BROWSER, JUPYTERLAB, Events, NotificationEvent

EXPECTED: Final = frozenset(
    {
        NotificationEvent.FAILED,
        NotificationEvent.ENDED,
        NotificationEvent.PAUSED,
        NotificationEvent.EDITED,
        NotificationEvent.BUDGET,
        NotificationEvent.REQUEST,
    }
)
"""The events of which people expect a notification before they have chosen any."""


@dataclass(frozen=True, slots=True)
class Browser(Channel):
    """Notifications of the browser, by the pool's pages that are open in it."""

    name = BROWSER
    title = "In this browser"
    about = "While a page of the pool is open in it."

    @property
    def defaults(self) -> Events:
        """See `Channel`."""
        return EXPECTED


@dataclass(frozen=True, slots=True)
class JupyterLab(Channel):
    """Notices in JupyterLab, by its extension."""

    name = JUPYTERLAB
    title = "In JupyterLab"
    about = "While JupyterLab is open."

    @property
    def defaults(self) -> Events:
        """See `Channel`."""
        return EXPECTED | {NotificationEvent.RESUMED}
