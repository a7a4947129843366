"""The hub's proxy in Python, made to stream.

The library's own handler reads an answer to its end before it passes it on, at most ten at a time and for at most
20 seconds: no event stream gets through, and a few of them keep everybody else waiting. Here answers are passed
on as they come. It also leaves out which subprotocol of a WebSocket the target chose, so that browsers give the
connection up, and passes their binary messages on as text; here both come through.
"""

from __future__ import annotations

from http.client import responses
from typing import Any

from configurable_http_proxy import cli, configproxy
from configurable_http_proxy.handlers import ProxyHandler
from tornado.httpclient import AsyncHTTPClient
from tornado.httputil import HTTPHeaders, parse_response_start_line
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClientConnection

MOST_REQUESTS = 10_000
NO_LIMIT = 2**62
OF_ONE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding"}
)


class StreamingHandler(ProxyHandler):
    """Passes a request on, and the answer back piece by piece, no faster than it is taken."""

    async def call_proxy(self, path: str | None = None) -> None:
        """Answer what the target answers, or the hub's error page if it does not."""
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
        except Exception as error:  # noqa: BLE001 - whatever the target does, the browser gets an answer
            if self._headers_written:
                self.give_up()
            else:
                await self.handle_proxy_error(503, error)
        else:
            await self.finish()

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        """The one of the browser's ``subprotocols`` that the target chose; None if it chose none of them."""
        target: WebSocketClientConnection | None = self.ws_client
        chosen = None if target is None else target.selected_subprotocol
        return chosen if chosen in subprotocols else None

    def on_message(self, message: str | bytes) -> None:
        """Pass a message of the browser's on as what it is, text or binary."""
        if self.ws_client:
            self.proxy.update_last_activity(self.target["prefix"])
            self.ws_client.write_message(message, binary=isinstance(message, bytes))

    async def pass_on(self, piece: bytes) -> None:
        """Give the browser a piece, and wait until it has been taken. Raises if the browser has gone."""
        self.write(piece)
        await self.flush()

    def give_up(self) -> None:
        """End an answer that cannot be completed so that nobody takes it for a whole one."""
        if not self._finished:
            self.detach().close()


class Head:
    """Takes an answer's status and headers line by line and begins the handler's own answer with them."""

    def __init__(self, handler: StreamingHandler) -> None:
        self._handler = handler
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        """Take the next line; the empty one ends the head."""
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
        for name, value in headers.get_all():
            if name.lower() not in OF_ONE_CONNECTION:
                handler.add_header(name, value)
        handler.flush().add_done_callback(lambda sent: sent.exception())


def main(**arguments: Any) -> None:
    """Run the library's command with our handler."""
    configproxy.ProxyHandler = StreamingHandler
    AsyncHTTPClient.configure(None, max_clients=MOST_REQUESTS, max_body_size=NO_LIMIT)
    cli.main(**arguments)


if __name__ == "__main__":
    main()
