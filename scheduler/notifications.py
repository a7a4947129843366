"""Notifications: what a person is told of jobs and GPUs, through which channels, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from springtide.scheduler.model import Reason


class NotificationEvent(StrEnum):
    """What happens and a person may want to be told: of the own jobs and workspaces, and faults of GPUs."""

    PAUSED = "paused"
    RESUMED = "resumed"
    ENDED = "ended"
    """It succeeded, or somebody else cancelled it."""
    FAILED = "failed"
    """It failed, or an attempt of it did and it is tried again."""
    TIME_LIMIT = "time-limit"
    """It is about to reach its time limit."""
    FAULT = "fault"
    """A GPU of the pool was drained because of a fault, whoever held it, or launching has stopped."""
    WORKSPACE = "workspace"
    """A workspace of the person does not use its GPUs, or was stopped because of that."""


class Channel(StrEnum):
    """A way on which notifications reach a person."""

    BROWSER = "browser"
    """The pool's pages, where they are open."""
    EMAIL = "email"
    WEBHOOK = "webhook"


FAULT_CHANNELS = frozenset({Channel.BROWSER, Channel.EMAIL})
"""The channels through which `fault_recipients` are told of faults; a webhook needs an address first."""
EVENT_KIND = "notification"
"""Kind of the events of the stream that are notifications."""

Events = frozenset[NotificationEvent]
ChannelEvents = Mapping[Channel, Events]
"""The events that a person is told, by channel."""


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """The channels that there are, and what people are told who have not chosen yet.

    ``fault_recipients`` are names of people who are told of faults as well, through the channels of
    `FAULT_CHANNELS`.
    """

    channels: frozenset[Channel] = frozenset({Channel.BROWSER})
    defaults: ChannelEvents = field(default_factory=dict)
    fault_recipients: frozenset[str] = frozenset()

    def choice_of(self, user: str) -> NotificationChoice:
        """Return what a person is told who has not chosen yet."""
        events = dict(self.defaults)
        if user in self.fault_recipients:
            for channel in FAULT_CHANNELS & self.channels:
                events[channel] = events.get(channel, frozenset()) | {NotificationEvent.FAULT}
        return NotificationChoice(user, events)


@dataclass(frozen=True, slots=True)
class NotificationChoice:
    """What a person wants to be told. ``webhook`` is a secret: whoever has the address can write there."""

    user: str
    events: ChannelEvents = field(default_factory=dict)
    webhook: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One notification. ``title`` and ``text`` are whole sentences; ``id`` is unique.

    ``job`` is the id of the job that it is about, empty if it is about none.
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
