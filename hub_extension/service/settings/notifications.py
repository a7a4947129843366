"""Settings of the service for notifications: the mail server, and where webhooks may lead."""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, cast

from traitlets import Enum, HasTraits, List, Unicode, default

from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.notifications.mail import USER, MailSettings, Security, is_address
from springtide.hub_extension.notifications.webhook import WebhookRules
from springtide.scheduler.notifications import NotificationEvent
from springtide.scheduler.wording import LONG_GIVEN, given

PORTS: Final[dict[str, int]] = {"starttls": 587, "tls": 465, "none": 25}


class ChannelError(Exception):
    """A setting is wrong; the message begins with its name."""


class NotificationTraits(HasTraits):
    """The settings, as a part of those of the service."""

    smtp_server = Unicode(
        help="The mail server that sends notifications: mail.example.org or mail.example.org:25. Empty: no e-mail."
    ).tag(config=True)
    smtp_security = Enum(
        list(PORTS), "starttls", help="How the connection to the mail server is encrypted: starttls, tls, or none."
    ).tag(config=True)
    smtp_user = Unicode(help="The user to log in to the mail server as. Empty: no log-in.").tag(config=True)
    smtp_password_file = Unicode(help="The file with the password of that user.").tag(config=True)
    email_from = Unicode(help="The address that notifications come from.").tag(config=True)
    email_address = Unicode(
        help="The e-mail address of a user: {user}@example.org, or {user} where user names are addresses. Nobody "
        "chooses another."
    ).tag(config=True)
    email_events = List(
        Enum([event.value for event in NotificationEvent]),
        [NotificationEvent.FAILED.value, NotificationEvent.TIME_LIMIT.value, NotificationEvent.WORKSPACE.value],
        help="What people are told by e-mail who have not chosen: of paused, resumed, ended, failed, time-limit, "
        "fault, workspace.",
    ).tag(config=True)
    fault_recipients = List(
        Unicode(),
        help="The users who are told of faults of GPUs, in their browsers and by e-mail, unless they choose "
        "otherwise. By default the hub's Authenticator.admin_users, where the hub runs the service.",
    ).tag(config=True)
    webhook_hosts = List(
        Unicode(),
        ["hooks.slack.com"],
        help="The hosts that webhooks of users may lead to, by https: names, with :port unless it is 443; "
        ".example.org stands for the domain and its subdomains. Empty: no webhooks.",
    ).tag(config=True)
    webhook_networks = List(
        Unicode(),
        help="Private networks that webhooks may reach all the same, such as 10.1.2.0/24, for hosts inside.",
    ).tag(config=True)
    pages_url = Unicode(
        help="The address of the pool's pages for links in messages, such as "
        "https://hub.example.org/services/springtide/. By default it follows from the hub's public_url."
    ).tag(config=True)

    @default("pages_url")
    def _default_pages_url(self) -> str:
        return os.environ.get("JUPYTERHUB_PUBLIC_URL", "")

    def channels(self) -> Channels:
        """Return the channels that the settings describe. Raises `ChannelError`."""
        networks = []
        for text in self.webhook_networks:
            try:
                networks.append(ip_network(text))
            except ValueError as error:
                raise ChannelError(f"webhook_networks: {error}. A network is written 10.1.2.0/24.") from error
        url = str(self.pages_url)
        if url and not url.startswith(("https://", "http://")):
            raise ChannelError(
                f"pages_url is {given(url, LONG_GIVEN)}, which is no address: it begins with https://."
            )
        return Channels(
            mail=self._mail() if self.smtp_server else None,
            webhooks=WebhookRules(tuple(self.webhook_hosts), tuple(networks)),
            mail_defaults=frozenset(map(NotificationEvent, self.email_events)),
            fault_recipients=frozenset(self.fault_recipients),
            pages_url=url if not url or url.endswith("/") else f"{url}/",
        )

    def _mail(self) -> MailSettings:
        host, _, port = str(self.smtp_server).partition(":")
        if not host or not (port or "0").isdecimal():
            raise ChannelError(f"smtp_server is {given(self.smtp_server, LONG_GIVEN)}; write HOST or HOST:PORT.")
        if not is_address(self.email_from):
            raise ChannelError(
                f"email_from is {given(self.email_from, LONG_GIVEN)}; with smtp_server it has to be an e-mail "
                "address."
            )
        if USER not in self.email_address or not is_address(self.email_address.replace(USER, _any_user(self))):
            raise ChannelError(
                f"email_address is {given(self.email_address, LONG_GIVEN)}; with smtp_server it says what a "
                "user's address is, such as {user}@example.org, or {user} where user names are addresses."
            )
        if self.smtp_user and self.smtp_security == "none":
            raise ChannelError(
                "smtp_security is 'none': the password of smtp_user would be readable on the network."
            )
        return MailSettings(
            host=host,
            port=int(port or PORTS[self.smtp_security]),
            sender=self.email_from,
            address=self.email_address,
            security=cast("Security", self.smtp_security),
            user=self.smtp_user,
            password=self._password(),
        )

    def _password(self) -> str:
        if not self.smtp_user:
            return ""
        try:
            return Path(self.smtp_password_file).expanduser().read_text().strip()
        except OSError as error:
            raise ChannelError(
                f"smtp_password_file: {given(self.smtp_password_file, LONG_GIVEN)} cannot be read: "
                f"{error.strerror}."
            ) from error


def _any_user(settings: Any) -> str:
    """Return a name of a user for which a right template makes an address."""
    return "user@example.org" if settings.email_address == USER else "user"
