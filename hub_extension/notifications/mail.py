"""Messages by e-mail, to addresses that follow from the names of the hub's users."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, make_msgid
from typing import Final, Literal

import aiosmtplib

from springtide.hub_extension.notifications.failure import NotDelivered
from springtide.hub_extension.notifications.message import Message
from springtide.scheduler.notifications import DeliveryState

USER: Final = "{user}"
"""Stands for the user's name in the template of addresses."""
TIMEOUT_S: Final = 15.0
"""Maximum time of one step with the mail server, in seconds."""
LONGEST_TITLE: Final = 200
_ADDRESS = re.compile(r"[A-Za-z0-9._+-]{1,64}@(?=.{1,253}\Z)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")

Security = Literal["starttls", "tls", "none"]


@dataclass(frozen=True, slots=True)
class MailSettings:
    """The mail server, and who is written to. ``address`` is a template with ``{user}``."""

    host: str
    port: int
    sender: str
    address: str
    security: Security = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)

    def address_of(self, user: str) -> str | None:
        """Return the address of a user, None if the name makes none."""
        address = self.address.replace(USER, user)
        return address if is_address(address) else None


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
    return mail


async def send(message: Message, user: str, settings: MailSettings, tls: ssl.SSLContext) -> None:
    """Send a message to a user. Raises `NotDelivered`."""
    recipient = settings.address_of(user)
    if recipient is None:
        raise NotDelivered(DeliveryState.FAILED, "delivery-no-address")
    mail = mail_of(message, settings.sender, recipient)
    server = aiosmtplib.SMTP(
        hostname=settings.host,
        port=settings.port,
        use_tls=settings.security == "tls",
        start_tls=settings.security == "starttls",
        tls_context=None if settings.security == "none" else tls,
        timeout=TIMEOUT_S,
    )
    try:
        await _connect(server, settings)
        await _hand_over(server, mail, settings)
    finally:
        server.close()


async def _connect(server: aiosmtplib.SMTP, settings: MailSettings) -> None:
    try:
        await server.connect()
        if settings.user:
            await server.login(settings.user, settings.password)
    except aiosmtplib.SMTPAuthenticationError:
        raise NotDelivered(DeliveryState.WAITING, "delivery-login") from None
    except (aiosmtplib.SMTPException, OSError) as error:
        bad = "certificate" in str(error).lower()
        code = "delivery-certificate" if bad else "delivery-unreachable"
        raise NotDelivered(DeliveryState.WAITING, code, host=settings.host) from None


async def _hand_over(server: aiosmtplib.SMTP, mail: EmailMessage, settings: MailSettings) -> None:
    try:
        await server.send_message(mail)
    except aiosmtplib.SMTPRecipientsRefused as error:
        raise _refused(max(each.code for each in error.recipients)) from None
    except aiosmtplib.SMTPResponseException as error:
        raise _refused(error.code) from None
    except (aiosmtplib.SMTPException, OSError):
        raise NotDelivered(DeliveryState.UNKNOWN, "delivery-unconfirmed", host=settings.host) from None


def _refused(code: int) -> NotDelivered:
    """Return the outcome of a refusal; codes below 500 say that it is for now."""
    state = DeliveryState.WAITING if code < 500 else DeliveryState.FAILED
    return NotDelivered(state, "delivery-refused", code=code)
