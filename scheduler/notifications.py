"""Notifications of jobs, workspaces, GPUs and the pool for people: events, channels, choices and deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from springtide.scheduler.model import Reason


class NotificationEvent(StrEnum):
    """The events that people choose among: of their own jobs and workspaces, faults of GPUs, and the pool."""

    PAUSED = "paused"
    RESUMED = "resumed"
    ENDED = "ended"
    """It succeeded later than `SOON` after its submission, or another person cancelled it."""
    SUCCEEDED_SOON = "succeeded-soon"
    """It succeeded within `SOON` of its submission."""
    FAILED = "failed"
    """It failed, or an attempt failed and will be retried."""
    EDITED = "edited"
    """Another person changed what it asks for, or moved it to another project."""
    TIME_LIMIT = "time-limit"
    """It is about to reach its time limit."""
    FAULT = "fault"
    """A GPU of the pool was drained because of a fault, with or without a job on it, or launching has stopped."""
    WORKSPACE = "workspace"
    """A workspace of the person does not use its GPUs, or was stopped because of that; or an admin asks why."""
    NEEDS = "needs"
    """Something in the pool needs an administrator; only `NotificationSettings.fault_recipients` are notified."""
    BUDGET = "budget"
    """A project that the person leads, or any of the pool for its admins, has spent most or all of its budget."""
    REQUEST = "request"
    """A request that the person may grant as a lead was made, or a request of the person's own was decided."""
    REPORT = "report"
    """The report of a month: of the pool for its admins, of their projects for leads."""


SOON: Final = 60.0
"""The time in which a person still waits for a job that was just submitted, in seconds."""

Channel: TypeAlias = str
"""The name of a channel by which notifications reach a person."""
BROWSER: Final[Channel] = "browser"
"""The pool's open pages."""
JUPYTERLAB: Final[Channel] = "jupyterlab"
"""A person's open JupyterLab."""
ON_PAGES: Final[frozenset[Channel]] = frozenset({BROWSER, JUPYTERLAB})
"""The channels of pages that follow the event stream. To all others notifications are delivered."""
EVENT_KIND = "notification"
"""Kind of notifications among the events of the stream."""

Events = frozenset[NotificationEvent]
ChannelEvents = Mapping[Channel, Events]
"""The events of which a person is notified, by channel."""


def chosen_channels(event: NotificationEvent, chosen: ChannelEvents) -> tuple[Channel, ...]:
    """Return the channels for which an event was chosen."""
    return tuple(channel for channel, events in chosen.items() if event in events)


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """The channels that are set up, and the events of which people are notified who have not chosen for a channel.

    People enter an address for the channels ``with_address``. ``fault_recipients`` are notified of faults and of
    what needs administrators as well, through the other channels.
    """

    channels: tuple[Channel, ...] = (BROWSER, JUPYTERLAB)
    with_address: frozenset[Channel] = frozenset()
    defaults: ChannelEvents = field(default_factory=dict)
    fault_recipients: frozenset[str] = frozenset()

    def events_of(self, choice: NotificationChoice, channel: Channel) -> Events:
        """Return the events that a person gets through a channel: the chosen ones, else the defaults."""
        if channel in choice.events:
            return choice.events[channel]
        administers = choice.user in self.fault_recipients and channel not in self.with_address
        return self.defaults.get(channel, frozenset()) | (OF_ADMINISTRATORS if administers else frozenset())

    def usable(self, choice: NotificationChoice) -> dict[Channel, Events]:
        """Return the events by channel, of channels that are set up and have the address they need."""
        return {
            channel: events
            for channel in self.channels
            if (events := self.events_of(choice, channel))
            and (channel not in self.with_address or choice.addresses.get(channel))
        }


@dataclass(frozen=True, slots=True)
class NotificationChoice:
    """The events that a person chose, by channel; a channel that is left out has its defaults.

    ``addresses`` are secrets: whoever has one can write there.
    """

    user: str
    events: ChannelEvents = field(default_factory=dict)
    addresses: Mapping[Channel, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One notification. ``title`` and ``text`` are whole sentences; ``id`` is unique.

    ``job`` is the id of its job, empty if it concerns none; ``month`` is that of its report, such as 2026-10.
    """

    id: str
    user: str
    job: str
    event: NotificationEvent
    title: str
    text: str
    channels: tuple[Channel, ...]
    month: str = ""


OF_ADMINISTRATORS: Final = frozenset({NotificationEvent.FAULT, NotificationEvent.NEEDS})
"""The events of which the `NotificationSettings.fault_recipients` are notified unless they choose otherwise."""


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
        """The person who is notified."""
        return self.notification.user
