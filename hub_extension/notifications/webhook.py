"""Messages to webhooks, in Slack's format.

The address of a webhook is chosen by a user, so it is hostile: https only, a host that an administrator allows, no
redirect, and no address inside a private network. The address that was checked is the one that is connected to.
"""

from __future__ import annotations

import asyncio
import html
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

import httpx
import msgspec

from springtide.hub_extension.notifications.channel import MessageChannel, NotDelivered, trusted
from springtide.hub_extension.notifications.message import Message
from springtide.hub_extension.web.hosts import foreign
from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import DeliveryState
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.settings import SettingError, setting

HTTPS: Final = 443
TIMEOUT_S: Final = 10.0
"""Maximum time of one step of a request, in seconds."""
TOTAL_S: Final = 20.0
"""Maximum time of a whole request, the look-up of the name included, in seconds."""
NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
LONGEST: Final = 2_000
"""Maximum length of a webhook address."""
MAX_TEXT: Final = 12_000
"""Maximum number of characters of a message; Slack cuts texts at 40,000."""
TRY_AGAIN: Final = frozenset({408, 425, 429})

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Webhook(MessageChannel):
    """Webhooks of people to the hosts that an administrator allows."""

    name = "webhook"
    title = "To a webhook"
    about = "In the format of Slack, which Mattermost, Rocket.Chat and others take too."
    pause = 2.0

    webhook_hosts: tuple[str, ...] = setting(
        ("hooks.slack.com",),
        "The hosts that webhooks of users may lead to, by https: names, with :port unless it is 443; "
        ".example.org means the domain and its subdomains. Empty: no webhooks.",
    )
    webhook_networks: tuple[str, ...] = setting(
        (), "Private networks that webhooks may reach all the same, such as 10.1.2.0/24, for hosts inside."
    )
    tls: ssl.SSLContext | None = None

    def ready(self) -> Self:
        """See `Channel`."""
        try:
            self.networks()
        except ValueError as error:
            raise SettingError(
                f"Springtide.webhook_networks: {error}. A network is written 10.1.2.0/24."
            ) from error
        return self

    @property
    def address_hint(self) -> str:
        """See `Channel`."""
        return f"Allowed: https://{', https://'.join(self.webhook_hosts)}"

    def unavailable(self) -> Reason | None:
        """See `Channel`."""
        return None if self.webhook_hosts else Reason("delivery-not-set-up")

    def target(self, user: str, address: str) -> str:  # noqa: ARG002 - the address is of one person
        """See `Channel`."""
        return host_of_address(address)

    def checked(self, address: str) -> str:
        """Return the address of a webhook. Raises `Refusal` for one that is not allowed, without repeating it."""
        return str(self._url(address))

    def _url(self, address: str) -> httpx.URL:
        try:
            url = httpx.URL(address.strip()) if len(address) <= LONGEST else None
        except httpx.InvalidURL:
            url = None
        if url is None or url.scheme != "https" or not url.host or url.userinfo or url.fragment:
            raise Refusal(
                422,
                "webhook",
                "This is not the address of a webhook.",
                field="addresses",
                hint="It begins with https:// and has neither a password nor a # in it.",
            )
        if not self.allows(host_of(url), url.port or HTTPS):
            hosts = self.webhook_hosts
            allowed = f"Allowed are {', '.join(hosts)}." if hosts else "None are allowed here."
            raise Refusal(
                403,
                "webhook_host",
                f"Webhooks to {host_of(url)[:100]} are not allowed here.",
                field="addresses",
                hint=f"{allowed} An administrator of the pool can allow others.",
            )
        return url

    def allows(self, host: str, port: int) -> bool:
        """Return whether a webhook may lead to a host and port."""
        entries = (
            entry.rpartition(":") if re.search(r":\d+\Z", entry) else (entry, "", HTTPS)
            for entry in self.webhook_hosts
        )
        names = [name for name, _, of_port in entries if int(of_port) == port]
        return re.fullmatch(foreign(names), host.lower()) is None

    def networks(self) -> tuple[Network, ...]:
        """Return the private networks that webhooks may reach all the same. Raises `ValueError`."""
        return tuple(map(ip_network, self.webhook_networks))

    async def send(self, message: Message, user: str, address: str) -> None:  # noqa: ARG002
        """See `Channel`."""
        try:
            url = self._url(address)
        except Refusal as refusal:
            host = host_of_address(address) if refusal.code == "webhook_host" else ""
            raise NotDelivered(DeliveryState.FAILED, "delivery-not-allowed", host=host) from None
        host = host_of(url)
        try:
            async with asyncio.timeout(TOTAL_S):
                reached = await resolved(host, url.port or HTTPS, self.networks())
                status, wait = await _exchange(url, reached, body_of(message), self.tls or trusted())
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            bad = "certificate" in str(error).lower()
            code = "delivery-certificate" if bad else "delivery-unreachable"
            raise NotDelivered(DeliveryState.WAITING, code, host=host) from None
        except (httpx.HTTPError, TimeoutError):
            raise NotDelivered(DeliveryState.UNKNOWN, "delivery-unconfirmed", host=host) from None
        if not 200 <= status < 300:
            again = status >= 500 or status in TRY_AGAIN
            state = DeliveryState.WAITING if again else DeliveryState.FAILED
            raise NotDelivered(state, "delivery-answered", host=host, status=status, wait=wait)


def host_of(url: httpx.URL) -> str:
    """Return the host of an address as it is looked up, in ASCII."""
    return url.raw_host.decode("ascii").strip("[]")


def host_of_address(address: str) -> str:
    """Return the host of a checked address, empty for an empty address."""
    return host_of(httpx.URL(address)) if address else ""


async def _exchange(url: httpx.URL, reached: Address, body: bytes, tls: ssl.SSLContext) -> tuple[int, float]:
    """Send the body to an address of the host; return the status and the time to wait if there are too many.

    The content of the answer is not read.
    """
    headers = {"Host": url.netloc.decode("ascii"), "Content-Type": "application/json", "Connection": "close"}
    target = url.copy_with(host=str(reached))
    async with httpx.AsyncClient(verify=tls, trust_env=False, follow_redirects=False, timeout=TIMEOUT_S) as client:
        request = client.build_request(
            "POST", target, content=body, headers=headers, extensions={"sni_hostname": host_of(url)}
        )
        answer = await client.send(request, stream=True)
        try:
            retry_after = answer.headers.get("Retry-After", "")
            return answer.status_code, float(retry_after) if re.fullmatch(r"\d{1,5}", retry_after) else 0.0
        finally:
            await answer.aclose()


async def resolved(host: str, port: int, networks: Sequence[Network]) -> Address:
    """Return an address of the host. Raises `NotDelivered` if one of them is not allowed, or there is none.

    ``networks`` are private networks that are allowed.
    """
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotDelivered(DeliveryState.WAITING, "delivery-unreachable", host=host) from None
    addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries]
    for address in addresses:
        if not is_public(address) and not any(address in network for network in networks):
            raise NotDelivered(DeliveryState.FAILED, "delivery-private", host=host)
    return addresses[0]


def is_public(address: Address) -> bool:
    """Return whether an address, and any IPv4 address embedded in it, belongs to the Internet."""
    return address.is_global and not address.is_multicast and all(map(is_public, _within(address)))


def _within(address: Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses embedded in an IPv6 address."""
    if isinstance(address, IPv6Address):
        yield from filter(None, (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())))
        if any(address in network for network in NAT64):
            yield IPv4Address(int(address) & 0xFFFF_FFFF)


def body_of(message: Message) -> bytes:
    """Return the body of a request: plain text in which nothing addresses people or shows as something else."""
    text = "\n".join((message.title, *message.lines))[:MAX_TEXT]
    return msgspec.json.encode({"text": html.escape(text, quote=False).replace("@", "@\u200b"), "mrkdwn": False})
