"""The channels by which notifications reach people, as an administrator set them up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from springtide.hub_extension.notifications.channel import Channel, MessageChannel, NotDelivered
from springtide.hub_extension.notifications.mail import Mail
from springtide.hub_extension.notifications.message import Message
from springtide.hub_extension.notifications.pages import Browser, JupyterLab
from springtide.hub_extension.notifications.webhook import Webhook
from springtide.scheduler.notifications import (
    DeliveryState,
    NotificationChoice,
    NotificationSettings,
)
from springtide.scheduler.settings import SettingError, read, setting
from springtide.scheduler.wording import LONG_GIVEN, given

KINDS: Final[tuple[type[Channel], ...]] = (Browser, JupyterLab, Mail, Webhook)
"""All channels, in the order of the page of notifications."""
PUBLIC_URL_ENV: Final = "JUPYTERHUB_PUBLIC_URL"


@dataclass(frozen=True, slots=True)
class MessageSettings:
    """Settings of all channels."""

    fault_recipients: tuple[str, ...] = setting(
        (),
        "The users who are notified of faults of GPUs and of what needs an administrator, in their browsers and "
        "by the channels that need no address, unless they choose otherwise; the monthly report of the whole pool "
        "is sent to those of them who choose it. By default the hub's Authenticator.admin_users, if it runs "
        "the service or is the chart's.",
    )
    pages_url: str = setting(
        "",
        "The address of the pool's pages for links in messages, such as "
        "https://hub.example.org/services/springtide/. By default it follows from the hub's public_url.",
    )


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels, and the settings of all. ``pages_url`` is the address of the pool's pages, for links."""

    channels: tuple[Channel, ...] = tuple(kind() for kind in KINDS)
    fault_recipients: frozenset[str] = frozenset()
    pages_url: str = ""

    @classmethod
    def of(cls, settings: MessageSettings, values: Mapping[str, Any]) -> Channels:
        """Return the channels with the ``values`` of their settings. Raises `SettingError`."""
        url = settings.pages_url or os.environ.get(PUBLIC_URL_ENV, "")
        if url and not url.startswith(("https://", "http://")):
            shown = given(url, LONG_GIVEN)
            raise SettingError(f"Springtide.pages_url is {shown}, which is no address: it begins with https://.")
        return cls(
            tuple(read(kind, values).ready() for kind in KINDS),
            frozenset(settings.fault_recipients),
            url if not url or url.endswith("/") else f"{url}/",
        )

    @property
    def settings(self) -> NotificationSettings:
        """The channels that are set up, and the defaults, for the engine."""
        usable = [channel for channel in self.channels if channel.unavailable() is None]
        return NotificationSettings(
            channels=tuple(channel.name for channel in usable),
            with_address=frozenset(channel.name for channel in usable if channel.address_hint is not None),
            defaults={channel.name: channel.defaults for channel in usable if channel.defaults},
            fault_recipients=self.fault_recipients,
        )

    def named(self, name: str) -> Channel | None:
        """Return the channel with a name, None if there is none."""
        return next((channel for channel in self.channels if channel.name == name), None)

    async def send(self, name: str, choice: NotificationChoice, message: Message) -> None:
        """Send a message to a person. Raises `NotDelivered`."""
        channel = self.named(name)
        if not isinstance(channel, MessageChannel):
            raise NotDelivered(DeliveryState.FAILED, "delivery-no-channel")
        missing = channel.missing(choice.user)
        if missing is not None:
            raise NotDelivered(DeliveryState.FAILED, missing.code)
        address = choice.addresses.get(name, "")
        if channel.address_hint is not None and not address:
            raise NotDelivered(DeliveryState.FAILED, "delivery-address-removed")
        await channel.send(message, choice.user, address)
