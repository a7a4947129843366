"""A channel by which notifications reach people: its settings, its words for them, and its messages.

A channel is a module with a subclass of `Channel`, a frozen dataclass whose fields are its settings, and an entry
in `channels.KINDS`. One that sends messages is a `MessageChannel`; all others are pages, which the event stream
has notifications for (`springtide.scheduler.notifications.ON_PAGES`).
"""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from functools import cache
from typing import ClassVar, Self

from springtide.hub_extension.notifications.message import Message
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import DeliveryState, Events

trusted = cache(ssl.create_default_context)
"""TLS with the authorities that this machine trusts; they are read when the first message is sent."""


class Channel:
    """A channel. ``name`` identifies it in the API, the store and people's choices.

    ``title`` and ``about`` describe it on the page of notifications.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]

    def ready(self) -> Self:
        """Return the channel, ready to send. Raises `SettingError` for settings that contradict each other."""
        return self

    @property
    def defaults(self) -> Events:
        """The events of which people who have not chosen are notified."""
        return frozenset()

    @property
    def address_hint(self) -> str | None:
        """A hint at the addresses that people may enter; None if they enter none."""
        return None

    def unavailable(self) -> Reason | None:
        """Return why the channel cannot be used, None if it is set up."""
        return None

    def missing(self, user: str) -> Reason | None:  # noqa: ARG002 - for channels that need something of a user
        """Return why a person cannot use the channel, None if she can."""
        return self.unavailable()

    def target(self, user: str, address: str) -> str:  # noqa: ARG002
        """Return the destination of messages to a person, for her page: no secret; empty without an address."""
        return "the address that you entered" if address else ""

    def checked(self, address: str) -> str:
        """Return an address that a person entered. Raises `Refusal` for one that is not allowed."""
        return address.strip()


class MessageChannel(Channel, ABC):
    """A channel that sends messages.

    ``pause`` is the minimum time between two messages to a person, in seconds; what happens in between is sent as
    one message.
    """

    pause: ClassVar[float] = 60.0

    @abstractmethod
    async def send(self, message: Message, user: str, address: str) -> None:
        """Send a message to a person, ``address`` being the one she entered. Raises `NotDelivered`."""


class NotDelivered(Exception):  # noqa: N818 - an outcome, not a program error
    """A message was not delivered; ``why`` says it in words for its recipient, without secrets.

    ``state`` is `DeliveryState.WAITING` if nothing has arrived and another attempt may succeed, at the earliest
    after ``wait`` seconds; ``FAILED`` if it would not; ``UNKNOWN`` if the message may have arrived.
    """

    def __init__(self, state: DeliveryState, reason: str, /, *, wait: float = 0.0, **params: str | int) -> None:
        super().__init__(reason)
        self.state = state
        self.why = Reason(reason, params)
        self.wait = wait
