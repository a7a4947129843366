"""Notifications about jobs and GPUs: their events, channels and deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from springtide.scheduler.model import Reason


class NotificationEvent(StrEnum):
    """Events that people may be notified about: of their own jobs and workspaces, and faults of GPUs."""

    PAUSED = "paused"
    RESUMED = "resumed"
    ENDED = "ended"
    """It succeeded, or another person cancelled it."""
    FAILED = "failed"
    """It failed, or an attempt failed and will be retried."""
    TIME_LIMIT = "time-limit"
    """It is about to reach its time limit."""
    FAULT = "fault"
    """A GPU of the pool was drained because of a fault, with or without a job on it, or launching has stopped."""
    WORKSPACE = "workspace"
    """A workspace of the person does not use its GPUs, or was stopped because of that."""


class Channel(StrEnum):
    """A way to deliver notifications."""

    BROWSER = "browser"
    """The pool's pages, while they are open."""
    EMAIL = "email"
    WEBHOOK = "webhook"


FAULT_CHANNELS = frozenset({Channel.BROWSER, Channel.EMAIL})
"""The channels of faults for `fault_recipients`; a webhook needs an address first."""
EVENT_KIND = "notification"
"""Kind of notifications among the events of the stream."""

Events = frozenset[NotificationEvent]
ChannelEvents = Mapping[Channel, Events]
"""The chosen events, by channel."""


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """The available channels, and the default choice of people without their own.

    ``fault_recipients`` are names of people who also get notifications of faults, through the channels of
    `FAULT_CHANNELS`.
    """

    channels: frozenset[Channel] = frozenset({Channel.BROWSER})
    defaults: ChannelEvents = field(default_factory=dict)
    fault_recipients: frozenset[str] = frozenset()

    def choice_of(self, user: str) -> NotificationChoice:
        """Return the default choice of a person."""
        events = dict(self.defaults)
        if user in self.fault_recipients:
            for channel in FAULT_CHANNELS & self.channels:
                events[channel] = events.get(channel, frozenset()) | {NotificationEvent.FAULT}
        return NotificationChoice(user, events)


@dataclass(frozen=True, slots=True)
class NotificationChoice:
    """A person's choice of notifications. ``webhook`` is a secret: whoever has the address can write there."""

    user: str
    events: ChannelEvents = field(default_factory=dict)
    webhook: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One notification. ``title`` and ``text`` are whole sentences; ``id`` is unique.

    ``job`` is the id of its job, empty if it concerns none.
    """

    id: str
    user: str
    job: str
    event: NotificationEvent
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
        """Whether the delivery has ended."""
        return self not in OPEN


OPEN = frozenset({DeliveryState.WAITING, DeliveryState.SENDING})


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification on its way through one channel. ``why`` is the reason why it has not arrived, or never will.

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
        """The name of the recipient."""
        return self.notification.user
