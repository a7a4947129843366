"""Notifications: what a person is told of the own jobs, through which channels, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from springtide.scheduler.model import Reason


class JobEvent(StrEnum):
    """What happens to a job and its user may want to be told."""

    PAUSED = "paused"
    RESUMED = "resumed"
    ENDED = "ended"
    """It succeeded, or somebody else cancelled it."""
    FAILED = "failed"
    """It failed, or an attempt of it did and it is tried again."""
    TIME_LIMIT = "time-limit"
    """It is about to reach its time limit."""


class Channel(StrEnum):
    """A way on which notifications reach a person."""

    BROWSER = "browser"
    """The pool's pages, where they are open."""
    EMAIL = "email"
    WEBHOOK = "webhook"


EVENT_KIND = "notification"
"""Kind of the events of the stream that are notifications."""

Events = frozenset[JobEvent]
ChannelEvents = Mapping[Channel, Events]
"""The events that a person is told, by channel."""


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """The channels that there are, and what people are told who have not chosen yet."""

    channels: frozenset[Channel] = frozenset({Channel.BROWSER})
    defaults: ChannelEvents = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotificationChoice:
    """What a person wants to be told. ``webhook`` is a secret: whoever has the address can write there."""

    user: str
    events: ChannelEvents = field(default_factory=dict)
    webhook: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One notification. ``title`` and ``text`` are whole sentences; ``id`` is unique."""

    id: str
    user: str
    job: str
    event: JobEvent
    title: str
    text: str
    channels: tuple[Channel, ...]


class DeliveryState(StrEnum):
    """States of a delivery; all but the first two are final."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It may have arrived; it is not sent again."""

    @property
    def final(self) -> bool:
        """Whether nothing more is done."""
        return self not in OPEN


OPEN = frozenset({DeliveryState.WAITING, DeliveryState.SENDING})


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification on its way through one channel. ``why`` says why it did not arrive so far, or at all.

    ``event`` is the id of the recorded event of the notification, ``at`` the time of its latest change, in seconds
    since the epoch.
    """

    event: int
    channel: Channel
    at: float
    notification: Notification
    state: DeliveryState = DeliveryState.WAITING
    why: Reason | None = None

    @property
    def user(self) -> str:
        """Who is told."""
        return self.notification.user
