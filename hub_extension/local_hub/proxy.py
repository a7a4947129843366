"""The hub's proxy in Python, with streaming of answers.

The library's own handler reads an answer to its end before it forwards it, at most ten at a time and for at most
20 seconds each: it forwards no event stream, and a few streams block all other requests. This module forwards
answers as they arrive. The library's handler also omits the WebSocket subprotocol chosen by the target, so that
browsers close the connection, and forwards binary messages as text; this module forwards both correctly.
Connections without a request are closed after a time-out, and when there are too many connections.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from http.client import responses
from typing import Any
from urllib.parse import unquote, urlsplit

from configurable_http_proxy import cli, configproxy
from configurable_http_proxy.configproxy import PythonProxy
from configurable_http_proxy.handlers import ProxyHandler
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, parse_response_start_line
from tornado.iostream import StreamClosedError
from tornado.log import app_log
from tornado.web import HTTPError
from tornado.websocket import WebSocketClientConnection, WebSocketClosedError

from springtide.hub_extension.web.hosts import LOOPBACK_NAMES, guard
from springtide.hub_extension.web.server import Server
from springtide.scheduler.project_tree import MOST_PACKED

MOST_REQUESTS = 10_000
NO_LIMIT = 2**62
HEALTH = "/_chp_healthz"
DEFAULT_PORTS = {"http": "80", "https": "443"}
TLS = "tls"
"""Setting of the application that browsers reach: its TLS, None for plain HTTP."""
PASSPHRASE = "CONFIGPROXY_SSL_KEY_PASSPHRASE"  # noqa: S105 - the variable that Node's proxy reads
OF_ONE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding"}
)
OF_THE_WHOLE_ORIGIN = frozenset({"cross-origin-opener-policy", "service-worker-allowed"})
"""Headers that a user's server may not send, because they have effects beyond its own pages.

With the ``Cross-Origin-Opener-Policy`` of the pool's pages, a page of that server would keep its reference to a
pool page opened in another window, and could read it. With ``Service-Worker-Allowed`` a script of that server
could intercept the requests of all pages of the origin.
"""

NEVER_SENT = frozenset({1005, 1006, 1015})
"""Codes that say how a WebSocket was closed without a code; none is sent."""


class ReaderLeftError(StreamClosedError):
    """A browser has closed the connection of an incomplete answer, as when a page with events is left."""

    @classmethod
    def is_none_of(cls, record: logging.LogRecord) -> bool:
        """Return whether a record logs another error: Tornado logs any error that ends an answer being read."""
        return record.exc_info is None or not isinstance(record.exc_info[1], cls)


class StreamingHandler(ProxyHandler):
    """Handler that forwards a request, and streams the answer back no faster than the browser takes it.

    The hub states with each route whether the target is a user's server. On a shared origin, a user's server must
    not affect pages outside its own path.
    """

    def prepare(self) -> None:
        """Send a page view to the host name of its target, if each user has one; programs need not know it.

        A service worker's script from outside a user's own path is refused, as it would control pages of others.
        Raises `HTTPError` 403.
        """
        elsewhere = self._elsewhere()
        if elsewhere is not None:
            self.redirect(elsewhere, status=307)
            return
        if "Service-Worker" in self.request.headers:
            self.find_target()
            if not (self.from_user and self.request.path.startswith(f"{self._own_path()}/")):
                raise HTTPError(403, "A service worker may work for the pages of one user's server only.")

    def decode_argument(self, value: bytes, name: str | None = None) -> str:  # noqa: ARG002 - the library's
        """Return a text for a path of any bytes: the path is passed on as it was sent, for the target to judge."""
        return value.decode(errors="replace")

    def find_target(self) -> None:
        """Look up the route of the request by its path and, if each user has a host name, by its host."""
        self.target = self.proxy.target_for_req(self._routed_host(), self.request.path)

    def _routed_host(self) -> str | None:
        """Return the host name whose route serves the request; None if routes have no host names."""
        host = self.request.host_name.lower()
        return self.proxy.host_of(host, self.request.path) if self.proxy.host_routing else None

    def _elsewhere(self) -> str | None:
        """Return the address at which a browser has to open the page; None for the right one and for programs."""
        host = self._routed_host()
        if host is None or host == self.request.host_name.lower() or not self._opens_a_page():
            return None
        return f"{self.proxy.public.scheme}://{host}{self.proxy.public_port}{self.request.uri}"

    def _opens_a_page(self) -> bool:
        """Return whether a browser asks for a page. Old browsers show it only by the type that they accept."""
        headers = self.request.headers
        mode = headers.get("Sec-Fetch-Mode", "navigate" if "text/html" in headers.get("Accept", "") else "")
        return self.request.method in {"GET", "HEAD"} and mode == "navigate"

    async def get_target_url(self, path: str | None = None) -> str | None:  # noqa: ARG002 - the path as it was sent
        """Return the address to forward the request to; if there is no route, answer 404 and return None."""
        self.find_target()
        if self.target is None:
            await self.handle_proxy_error(404, err=None)
            return None
        target = urlsplit(str(self.target["target"]))
        return target._replace(
            path=target.path.rstrip("/") + self.request.path,
            query="&".join(filter(None, [target.query, self.request.query])),
        ).geturl()

    def _own_path(self) -> str:
        """Return the path of the target's route, without the host name that it may begin with."""
        prefix: str = self.target["prefix"]
        return "/" + prefix.split("/", 2)[2] if self.proxy.host_routing else prefix

    def _get_proxy_request(self, url: str) -> HTTPRequest:
        """Return the request for the target, with the headers by which it knows how the browser came here."""
        request: HTTPRequest = super()._get_proxy_request(url)
        request.headers = {**dict(request.headers), **forwarded(self.request)}
        return request

    async def call_proxy(self, path: str | None = None) -> None:
        """Send the target's answer, or the hub's error page if the target does not answer."""
        url = await self.get_target_url(path)
        if url is None:
            return
        request = self._get_proxy_request(url)
        request.request_timeout = 0
        request.decompress_response = False
        request.header_callback = Head(self).line
        request.streaming_callback = self.pass_on
        try:
            await AsyncHTTPClient().fetch(request, raise_error=False)
        except StreamClosedError:
            self.give_up()
        except Exception as error:  # noqa: BLE001 - the browser gets an answer in any case
            if self._headers_written:
                self.give_up()
            else:
                await self.handle_proxy_error(503, error)
        else:
            with suppress(StreamClosedError):  # the browser has left
                await self.finish()

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """Return the target's choice among the browser's ``subprotocols``; None if it chose none of them."""
        target: WebSocketClientConnection | None = self.ws_client
        chosen = None if target is None else target.selected_subprotocol
        return chosen if chosen in subprotocols else None

    async def start_ws_client(self, path: str | None = None) -> None:
        """Connect to the target. Once that has closed the connection, the browser's is closed too."""
        await super().start_ws_client(path)
        client: WebSocketClientConnection | None = self.ws_client
        if client is None:
            return
        ended = client.on_ws_connection_close

        def end(code: int | None = None, reason: str | None = None) -> None:
            ended(code, reason)
            self.close(None if code in NEVER_SENT else code, reason)

        client.on_ws_connection_close = end  # type: ignore[method-assign, assignment]

    def on_message(self, message: str | bytes) -> None:
        """Forward a message from the browser with its type, text or binary; close if the target has left."""
        if self.ws_client:
            self.proxy.update_last_activity(self.target["prefix"])
            try:
                _dropped_on_failure(self.ws_client.write_message(message, binary=isinstance(message, bytes)))
            except WebSocketClosedError:
                self.close()

    def write_message(self, message: str | bytes, binary: bool = False) -> asyncio.Future[None]:
        """Forward a message from the target; it is dropped if the browser has left."""
        try:
            return _dropped_on_failure(super().write_message(message, binary=binary))
        except WebSocketClosedError:
            sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            sent.set_result(None)
            return sent

    async def pass_on(self, piece: bytes) -> None:
        """Send a chunk to the browser, and wait until it is written.

        Raises `ReaderLeftError` if the browser has closed the connection, so that the target's is closed, too.
        """
        self.write(piece)
        try:
            await self.flush()
        except StreamClosedError as error:
            raise ReaderLeftError from error

    @property
    def from_user(self) -> bool:
        """Return whether the target is the server of a user, as the hub states when it adds the route."""
        return self.target is not None and "user" in (self.proxy.get_route(self.target["prefix"]) or {})

    def give_up(self) -> None:
        """Close the connection of an incomplete answer, so that it is not mistaken for a complete one."""
        if not self._finished:
            self.detach().close()


def _dropped_on_failure(sent: asyncio.Future[None]) -> asyncio.Future[None]:
    """Return the future of a message. An end that leaves meanwhile is no error: the other end hears of it."""
    sent.add_done_callback(lambda done: done.cancelled() or done.exception())
    return sent


class Head:
    """Parser of an answer's status line and headers, which begins the handler's own answer with them."""

    def __init__(self, handler: StreamingHandler) -> None:
        self._handler = handler
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        """Process the next line; an empty line ends the headers."""
        if text.strip():
            self._lines.append(text)
            return
        status, *fields = self._lines
        self._lines = []
        start = parse_response_start_line(status.strip())
        if start.code >= 200:
            self._begin(start.code, start.reason, HTTPHeaders.parse("".join(fields)))

    def _begin(self, code: int, reason: str, headers: HTTPHeaders) -> None:
        handler = self._handler
        handler.clear()
        handler.set_status(code, reason or responses.get(code, "Unknown"))
        for name in ("Server", "Date", "Content-Type"):
            handler.clear_header(name)
        left_out = OF_ONE_CONNECTION | (OF_THE_WHOLE_ORIGIN if handler.from_user else frozenset())
        for name, value in headers.get_all():
            if name.lower() not in left_out:
                handler.add_header(name, value)
        handler.flush().add_done_callback(lambda sent: sent.exception())


def forwarded(request: HTTPServerRequest) -> dict[str, str]:
    """Return the ``X-Forwarded-`` headers of a request, each with what proxies before this one have said first.

    The library says "http" for all of them, and drops what another proxy has said.
    """
    host = request.headers.get("Host", "")
    port = urlsplit(f"//{host}").netloc.rpartition("]")[2].partition(":")[2] or DEFAULT_PORTS[request.protocol]
    here = {"For": str(request.remote_ip), "Port": port, "Proto": request.protocol}
    named = {f"X-Forwarded-{name}": value for name, value in here.items()}
    headers = {
        name: ",".join(filter(None, [request.headers.get(name, ""), value])) for name, value in named.items()
    }
    return {**headers, "X-Forwarded-Host": request.headers.get("X-Forwarded-Host", host)}


class GuardedProxy(PythonProxy):
    """The library's proxy, which serves the host names ``allowed_hosts`` only, or any if these are empty.

    With ``host_routing`` the first part of a route is a host name and the hub is at ``public_url``; the names
    of the loopback address serve programs, many of which cannot look up a name such as ``susan.localhost``.
    """

    def __init__(
        self,
        options: dict[str, Any],
        *,
        allowed_hosts: Sequence[str],
        host_routing: bool,
        public_url: str,
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__({**options, "host_routing": host_routing, "x_forward": False})
        self.proxy_app.settings[TLS] = tls
        guard(self.proxy_app, allowed_hosts, health=HEALTH)
        self.public = urlsplit(public_url)
        self._of_all_routes = {*LOOPBACK_NAMES, self.public.hostname or ""}

    @property
    def public_port(self) -> str:
        """The port of the hub's address with its colon, empty for the default port."""
        return f":{self.public.port}" if self.public.port else ""

    def host_of(self, name: str, path: str) -> str:
        """Return the host name of the route for a path requested under ``name``; the hub's if there is none.

        The names of this machine and of the hub match all routes, the most specific one first. If the hub's name
        is unknown, the result is ``name`` itself.
        """
        if not self.public.hostname:
            return name
        names = [name]
        if name in self._of_all_routes:
            names = list({prefix.split("/", 2)[1] for prefix in self._routes.get_all()})
        routes = [self._routes.get_target(f"/{host}{unquote(path)}") for host in names]
        prefixes = [route.prefix for route in routes if route is not None and route.prefix != "/"]
        deepest: str = max(prefixes, key=lambda prefix: prefix.count("/"), default=f"/{self.public.hostname}")
        return deepest.split("/", 2)[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the library's command with `StreamingHandler` and the additional options of this module."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--allowed-host", action="append", default=[], metavar="NAME")
    parser.add_argument("--host-routing", action="store_true")  # the library's own option wants a value
    parser.add_argument("--public-url", default="", metavar="URL")
    parser.add_argument("--ssl-key", metavar="FILE")  # the library has no TLS
    parser.add_argument("--ssl-cert", metavar="FILE")
    own, others = parser.parse_known_args(arguments)
    tls = server_tls(own.ssl_cert, own.ssl_key) if own.ssl_cert or own.ssl_key else None
    configproxy.ProxyHandler = StreamingHandler
    cli.PythonProxy = partial(
        GuardedProxy,
        allowed_hosts=own.allowed_host,
        host_routing=own.host_routing,
        public_url=own.public_url,
        tls=tls,
    )
    cli.HTTPServer = lambda application: HTTPServer(application, ssl_options=application.settings.get(TLS))
    AsyncHTTPClient.configure(None, max_clients=MOST_REQUESTS, max_body_size=NO_LIMIT)
    HTTPServer.configure(Server, files_each=2, max_body_size=MOST_PACKED)
    app_log.addFilter(ReaderLeftError.is_none_of)
    try:
        cli.main(args=others)
    except NotImplementedError as error:
        sys.exit(
            f"springtide: The proxy in Python cannot do this: {error}. Without c.JupyterHub.internal_ssl the hub "
            "does not ask for it; or set c.ConfigurableHTTPProxy.command to the proxy of Node.js."
        )


def server_tls(certificate: str | None, key: str | None) -> ssl.SSLContext:
    """Return the TLS settings of a server with this certificate chain and key, which may be in one file.

    Exits with a message if they cannot be read or do not belong together.
    """
    if not certificate:
        sys.exit("springtide: c.JupyterHub.ssl_key has no certificate: set c.JupyterHub.ssl_cert, too.")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=os.environ.get(PASSPHRASE, ""))
    except OSError as error:
        of = certificate if key is None else f"{certificate} and {key}"
        sys.exit(f"springtide: The certificate and key for TLS in {of} cannot be used: {error.strerror or error}.")
    return context


if __name__ == "__main__":
    main()
