"""The text of a message, from one notification or several; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from types import MappingProxyType
from typing import Final

from springtide.scheduler import sentences
from springtide.scheduler.budgets import days_of, month_named
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import Notification, NotificationEvent

LISTED: Final = 20
"""Maximum number of notifications that one message spells out."""

PAGES: Final[Mapping[NotificationEvent, str]] = MappingProxyType(
    {
        NotificationEvent.FAULT: "pool",
        NotificationEvent.WORKSPACE: "workspaces",
        NotificationEvent.NEEDS: "home",
        NotificationEvent.BUDGET: "admin",
        NotificationEvent.REQUEST: "pool",
    }
)
"""The pages that say more about events of no job."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file of text with a message; ``kind`` is its subtype, such as csv."""

    name: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message in plain text: one line for its subject, others for its content.

    ``html`` is the content for channels that show pages, if it has one for them; ``attachments`` are for those
    that take files.
    """

    title: str
    lines: tuple[str, ...]
    html: str = field(default="", repr=False)
    attachments: tuple[Attachment, ...] = field(default=(), repr=False)


def message_of(notifications: Sequence[Notification], pages_url: str = "") -> Message:
    """Return the message with these notifications; ``pages_url`` is the address of the pool's pages, if known."""
    if len(notifications) == 1:
        only = notifications[0]
        return Message(plain(only.title), tuple(filter(None, (plain(only.text), _link(only, pages_url)))))
    lines = [
        plain(" ".join(filter(None, (notification.title, notification.text, _link(notification, pages_url)))))
        for notification in notifications[:LISTED]
    ]
    left = len(notifications) - LISTED
    more = [sentences.text(Reason("notify-more", {"count": left}))] if left > 0 else []
    counts = Counter(notification.event.value for notification in notifications)
    title = sentences.text(Reason("notify-many", {"count": len(notifications), **counts}))
    return Message(title, (*lines, *more, *([pages_url] if pages_url else [])))


def _link(notification: Notification, pages_url: str) -> str:
    """Return the address of a notification's page, empty if there is none."""
    if not pages_url:
        return ""
    if notification.job:
        return f"{pages_url}jobs/{notification.job}"
    if notification.month:
        first, last = days_of(month_named(notification.month, UTC), UTC)
        return report_page(pages_url, first.isoformat(), last.isoformat())
    page = PAGES.get(notification.event)
    return f"{pages_url}{page}" if page else ""


def report_page(pages_url: str, start: str, end: str) -> str:
    """Return the address of the page with the report of some days, empty if the pool's address is not known."""
    return f"{pages_url}report?start={start}&end={end}" if pages_url else ""


def trial_notification(user: str, channel: str) -> Notification:
    """Return the notification with which a person tries a channel."""
    title, *texts = (sentence.text for sentence in sentences.render(Reason("notify-test")))
    return Notification(
        id="test",
        user=user,
        job="",
        event=NotificationEvent.ENDED,
        title=title,
        text=" ".join(texts),
        channels=(channel,),
    )


def plain(text: str) -> str:
    """Return a text on one line without control, direction and other invisible characters."""
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))
