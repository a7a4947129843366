"""The channels that leave the pool's pages, as an administrator set them up."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from springtide.hub_extension.notifications import mail, webhook
from springtide.hub_extension.notifications.failure import NotDelivered
from springtide.hub_extension.notifications.mail import MailSettings
from springtide.hub_extension.notifications.message import message_of
from springtide.hub_extension.notifications.webhook import WebhookRules
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import (
    Channel,
    DeliveryState,
    Notification,
    NotificationChoice,
    NotificationEvent,
    NotificationSettings,
)

trusted = cache(ssl.create_default_context)
"""TLS with the authorities that this machine trusts; they are read when the first message is sent."""


@dataclass(frozen=True, slots=True)
class Channels:
    """E-mail if ``mail`` is set, and webhooks. ``pages_url`` is the address of the pool's pages, for links.

    ``tls`` has the authorities to trust; None stands for those of this machine.

    ``mail_defaults`` are the events that people are told by e-mail who have not chosen, ``fault_recipients`` the
    people who are told of faults of GPUs unless they chose otherwise.
    """

    mail: MailSettings | None = None
    webhooks: WebhookRules = field(default_factory=WebhookRules)
    mail_defaults: frozenset[NotificationEvent] = frozenset()
    fault_recipients: frozenset[str] = frozenset()
    pages_url: str = ""
    tls: ssl.SSLContext | None = None

    @property
    def settings(self) -> NotificationSettings:
        """What the engine has to know: the channels that there are, and the defaults."""
        there = {Channel.BROWSER}
        if self.mail is not None:
            there.add(Channel.EMAIL)
        if self.webhooks.hosts:
            there.add(Channel.WEBHOOK)
        defaults = {Channel.EMAIL: self.mail_defaults} if self.mail is not None else {}
        return NotificationSettings(frozenset(there), defaults, self.fault_recipients)

    def missing(self, channel: Channel, user: str) -> Reason | None:
        """Return why a person cannot use a channel, None if she can."""
        if channel is Channel.EMAIL and self.mail is None:
            return Reason("delivery-no-mail")
        if channel is Channel.EMAIL and self.address_of(user) is None:
            return Reason("delivery-no-address")
        if channel is Channel.WEBHOOK and not self.webhooks.hosts:
            return Reason("delivery-no-webhooks")
        return None

    def address_of(self, user: str) -> str | None:
        """Return the e-mail address of a person, None if there is none."""
        return None if self.mail is None else self.mail.address_of(user)

    async def send(
        self, channel: Channel, choice: NotificationChoice, notifications: Sequence[Notification]
    ) -> None:
        """Send notifications to a person as one message. Raises `NotDelivered`."""
        message = message_of(notifications, self.pages_url)
        missing = self.missing(channel, choice.user)
        if missing is not None:
            raise NotDelivered(DeliveryState.FAILED, missing.code)
        if channel is Channel.EMAIL and self.mail is not None:
            await mail.send(message, choice.user, self.mail, self.tls or trusted())
        elif channel is Channel.WEBHOOK:
            if not choice.webhook:
                raise NotDelivered(DeliveryState.FAILED, "delivery-no-webhook")
            await webhook.post(choice.webhook, message, self.webhooks, self.tls or trusted())
