"""Servers on this machine that take e-mail, and messages to webhooks over TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session
from clusters.certificates import write_server_certificate
from patience import PATIENCE_S
from servers.ports import free_port
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler


async def until(condition: Callable[[], Any]) -> Any:
    """Return what the condition returns as soon as that is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := condition()):
            await asyncio.sleep(0.01)
    return found


@dataclass
class Tls:
    """A certificate for ``localhost``, and a context that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext

    @classmethod
    def at(cls, folder: Path) -> Tls:
        certificate, key = folder / "server.pem", folder / "server.key"
        write_server_certificate(certificate, key)
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.load_cert_chain(certificate, key)
        return cls(server, ssl.create_default_context(cafile=str(certificate)))


@dataclass
class MailServer:
    """A mail server with STARTTLS. ``answer`` is what it says to a message, ``taken`` what it took."""

    port: int = 0
    answer: str = "250 OK"
    asked: int = 0
    taken: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.asked += 1
        if self.answer.startswith("250"):
            content = cast("bytes", envelope.content)
            self.taken.append(cast("EmailMessage", message_from_bytes(content, policy=policy.default)))
            self.recipients += envelope.rcpt_tos
        return self.answer

    def authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
        good = isinstance(given, LoginPassword) and given == LoginPassword(b"pool", b"wave-in-the-pool")
        return AuthResult(success=good, handled=False)


@asynccontextmanager
async def mail_server(tls: Tls) -> AsyncIterator[MailServer]:
    """Run a mail server in a thread of its own."""
    server = MailServer()
    port = free_port()
    controller = Controller(
        server,
        hostname="127.0.0.1",
        port=port,
        ready_timeout=PATIENCE_S,
        tls_context=tls.server,
        require_starttls=True,
        authenticator=server.authenticate,
        auth_require_tls=True,
    )
    controller.start()
    server.port = port
    try:
        yield server
    finally:
        controller.stop()


@dataclass
class WebhookServer:
    """A server that takes messages to webhooks. ``statuses`` are its next answers, after which all is well."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    asked: int = 0
    hosts: list[str] = field(default_factory=list)
    silent: bool = False

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/services/T0/B0/secret-of-susan"


@asynccontextmanager
async def webhook_server(tls: Tls) -> AsyncIterator[WebhookServer]:
    """Run a server for webhooks in this event loop."""
    server = WebhookServer()

    class Hook(RequestHandler):
        async def post(self, _path: str) -> None:
            server.asked += 1
            server.hosts.append(self.request.host)
            if server.silent:
                server.taken.append(json.loads(self.request.body)["text"])
                self.detach().close()
                return
            status = server.statuses.pop(0) if server.statuses else 200
            self.set_status(status)
            if status == 302:
                self.set_header("Location", f"https://localhost:{server.port}/elsewhere")
            if status == 200:
                server.taken.append(json.loads(self.request.body)["text"])
            self.finish("ok")

    sockets = bind_sockets(0, "127.0.0.1")
    server.port = sockets[0].getsockname()[1]
    http = HTTPServer(Application([(r"/(.*)", Hook)], log_function=lambda _: None), ssl_options=tls.server)
    http.add_sockets(sockets)
    try:
        yield server
    finally:
        http.stop()
        await http.close_all_connections()
