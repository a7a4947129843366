"""Messages by e-mail, to addresses that follow from the names of the hub's users."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, make_msgid
from pathlib import Path
from typing import Final, Literal, Self

import aiosmtplib

from springtide.hub_extension.notifications.channel import MessageChannel, NotDelivered, trusted
from springtide.hub_extension.notifications.message import Message
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import DeliveryState, Events, NotificationEvent
from springtide.scheduler.settings import SettingError, setting
from springtide.scheduler.wording import LONG_GIVEN, given

USER: Final = "{user}"
"""Placeholder of the user's name in the template of addresses."""
TIMEOUT_S: Final = 15.0
"""Maximum time of one step with the mail server, in seconds."""
LONGEST_TITLE: Final = 200
_ADDRESS = re.compile(r"[A-Za-z0-9._+-]{1,64}@(?=.{1,253}\Z)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")

Security = Literal["starttls", "tls", "none"]
PORTS: Final[dict[Security, int]] = {"starttls": 587, "tls": 465, "none": 25}


@dataclass(frozen=True, slots=True)
class Mail(MessageChannel):
    """The mail server, and the addresses of users. ``password`` is read from its file."""

    name = "email"
    title = "By e-mail"
    about = "At most one message a minute: what happens in between comes together."

    smtp_server: str = setting(
        "", "The mail server that sends notifications: mail.example.org or mail.example.org:25. Empty: no e-mail."
    )
    smtp_security: Security = setting("starttls", "The encryption of the connection to the mail server.")
    smtp_user: str = setting("", "The user to log in to the mail server as. Empty: no log-in.")
    smtp_password_file: str = setting("", "The file with the password of that user.")
    email_from: str = setting("", "The address that notifications come from.")
    email_address: str = setting(
        "",
        "The e-mail address of a user: {user}@example.org, or {user} if user names are addresses. People "
        "cannot choose another.",
    )
    email_events: frozenset[NotificationEvent] = setting(
        frozenset(
            {
                NotificationEvent.FAILED,
                NotificationEvent.TIME_LIMIT,
                NotificationEvent.WORKSPACE,
                NotificationEvent.BUDGET,
                NotificationEvent.REQUEST,
            }
        ),
        "The events of which people who have not chosen are notified by e-mail.",
    )
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None

    def ready(self) -> Self:
        """See `Channel`."""
        if not self.smtp_server:
            return self
        if not self._host or not (self._port or "0").isdecimal():
            shown = given(self.smtp_server, LONG_GIVEN)
            raise SettingError(f"Springtide.smtp_server is {shown}; write HOST or HOST:PORT.")
        if not is_address(self.email_from):
            raise SettingError(
                f"Springtide.email_from is {given(self.email_from, LONG_GIVEN)}; with smtp_server it has to be an "
                "e-mail address."
            )
        if USER not in self.email_address or self._address_of(self._any_user) is None:
            raise SettingError(
                f"Springtide.email_address is {given(self.email_address, LONG_GIVEN)}; with smtp_server it is the "
                "address of a user, such as {user}@example.org, or {user} if user names are addresses."
            )
        if self.smtp_user and self.smtp_security == "none":
            raise SettingError(
                "Springtide.smtp_security is 'none': the password of smtp_user would be readable on the network."
            )
        return replace(self, password=self._read_password()) if self.smtp_user else self

    @property
    def defaults(self) -> Events:
        """See `Channel`."""
        return self.email_events

    def unavailable(self) -> Reason | None:
        """See `Channel`."""
        return None if self.smtp_server else Reason("delivery-no-mail")

    def missing(self, user: str) -> Reason | None:
        """See `Channel`."""
        return self.unavailable() or (None if self._address_of(user) else Reason("delivery-no-address"))

    def target(self, user: str, address: str) -> str:  # noqa: ARG002 - users cannot choose another address
        """See `Channel`."""
        return (self._address_of(user) or "") if self.smtp_server else ""

    async def send(self, message: Message, user: str, address: str) -> None:  # noqa: ARG002
        """See `Channel`."""
        recipient = self._address_of(user)
        if recipient is None:
            raise NotDelivered(DeliveryState.FAILED, "delivery-no-address")
        mail = mail_of(message, self.email_from, recipient)
        server = aiosmtplib.SMTP(
            hostname=self._host,
            port=int(self._port or PORTS[self.smtp_security]),
            use_tls=self.smtp_security == "tls",
            start_tls=self.smtp_security == "starttls",
            tls_context=None if self.smtp_security == "none" else self.tls or trusted(),
            timeout=TIMEOUT_S,
        )
        try:
            await self._connect(server)
            await self._hand_over(server, mail)
        finally:
            server.close()

    @property
    def _host(self) -> str:
        return self.smtp_server.partition(":")[0]

    @property
    def _port(self) -> str:
        return self.smtp_server.partition(":")[2]

    @property
    def _any_user(self) -> str:
        """A user name from which a valid template makes an address."""
        return "user@example.org" if self.email_address == USER else "user"

    def _address_of(self, user: str) -> str | None:
        """Return the address of a user, None if the name makes none."""
        address = self.email_address.replace(USER, user)
        return address if is_address(address) else None

    def _read_password(self) -> str:
        try:
            return Path(self.smtp_password_file).expanduser().read_text().strip()
        except OSError as error:
            shown = given(self.smtp_password_file, LONG_GIVEN)
            raise SettingError(
                f"Springtide.smtp_password_file: {shown} cannot be read: {error.strerror}."
            ) from error

    async def _connect(self, server: aiosmtplib.SMTP) -> None:
        try:
            await server.connect()
            if self.smtp_user:
                await server.login(self.smtp_user, self.password)
        except aiosmtplib.SMTPAuthenticationError:
            raise NotDelivered(DeliveryState.WAITING, "delivery-login") from None
        except (aiosmtplib.SMTPException, OSError) as error:
            bad = "certificate" in str(error).lower()
            code = "delivery-certificate" if bad else "delivery-unreachable"
            raise NotDelivered(DeliveryState.WAITING, code, host=self._host) from None

    async def _hand_over(self, server: aiosmtplib.SMTP, mail: EmailMessage) -> None:
        try:
            await server.send_message(mail)
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise _refused(max(refusal.code for refusal in error.recipients)) from None
        except aiosmtplib.SMTPResponseException as error:
            raise _refused(error.code) from None
        except (aiosmtplib.SMTPException, OSError):
            raise NotDelivered(DeliveryState.UNKNOWN, "delivery-unconfirmed", host=self._host) from None


def is_address(text: str) -> bool:
    """Return whether a text is one plain e-mail address."""
    return _ADDRESS.fullmatch(text) is not None


def mail_of(message: Message, sender: str, recipient: str) -> EmailMessage:
    """Return the e-mail with a message. Raises `ValueError` for a header with a line break in it."""
    mail = EmailMessage(policy=SMTP_POLICY)
    mail["From"] = sender
    mail["To"] = recipient
    mail["Subject"] = message.title[:LONGEST_TITLE]
    mail["Date"] = format_datetime(datetime.now(UTC))
    mail["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n\n".join((message.title, *message.lines)))
    if message.html:
        mail.add_alternative(message.html, subtype="html")
    for file in message.attachments:
        mail.add_attachment(file.text, subtype=file.kind, filename=file.name)
    return mail


def _refused(code: int) -> NotDelivered:
    """Return the outcome of a refusal; codes below 500 say that it is for now."""
    state = DeliveryState.WAITING if code < 500 else DeliveryState.FAILED
    return NotDelivered(state, "delivery-refused", code=code)
