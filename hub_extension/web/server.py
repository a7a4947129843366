"""HTTP server that keeps answering while clients hold connections open or file descriptors run out."""

from __future__ import annotations

import errno
import logging
import resource
import socket
from collections.abc import Callable, Iterable
from typing import Any, Final

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream

from springtide.scheduler.backoff import Backoff

log = logging.getLogger("springtide")

OPEN_FILES: Final = 65_536
"""Soft limit on open files that a server sets, unless the hard limit is lower."""
RESERVED_FILES: Final = 256
"""Number of open files reserved for databases, logs and pipes; at most a quarter of the limit."""
WAITING_S: Final = 60.0
"""Maximum time that a connection may be open without a complete header, in seconds."""
BODY_S: Final = 600.0
"""Maximum time in which a body must arrive, in seconds."""
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""First and longest pause of accepting connections after file descriptors ran out, in seconds."""


def raise_open_files() -> int:
    """Raise this process's soft limit on open files, for its children too, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft if soft != resource.RLIM_INFINITY else OPEN_FILES


class Server(HTTPServer):
    """Tornado's server with a time-out for headers and a cap on connections.

    Beyond the cap the connection that has waited longest without a complete request is closed, or the new one if
    all others are being answered. ``HTTPServer.configure(Server)`` makes all servers of the process instances of
    this class. ``files_each`` is the number of open files per connection, 2 for a connection that is proxied.
    """

    def initialize(  # type: ignore[override]
        self, request_callback: Any, *, files_each: int = 1, **given: Any
    ) -> None:
        """Set the options of `tornado.httpserver.HTTPServer` and compute the maximum number of connections."""
        limit = raise_open_files()
        self.most = max(8, (limit - min(RESERVED_FILES, limit // 4)) // files_each)
        self._waiting: dict[object, IOStream] = {}
        super().initialize(
            request_callback, **{"idle_connection_timeout": WAITING_S, "body_timeout": BODY_S, **given}
        )

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections on listening sockets, which belong to this server from then on."""
        own = [ListeningSocket(fileno=each.detach()) for each in sockets]
        for each in own:
            each.setblocking(False)
        super().add_sockets(own)

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serve a new connection; at the cap, close the one that has waited longest, or else the new one."""
        if len(self._connections) >= self.most:
            oldest = next(iter(self._waiting), None)
            if oldest is None:
                stream.close()
                return
            self._waiting.pop(oldest).close()
        super().handle_stream(stream, address)

    def start_request(self, server_conn: Any, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Record that the connection waits for a request, and return the delegate of that request."""
        self._waiting.pop(server_conn, None)
        self._waiting[server_conn] = server_conn.stream
        delegate = super().start_request(server_conn, request_conn)
        return Request(delegate, lambda: self._waiting.pop(server_conn, None))

    def on_close(self, server_conn: object) -> None:
        """Remove a closed connection from the waiting ones."""
        self._waiting.pop(server_conn, None)
        super().on_close(server_conn)


class Request(HTTPMessageDelegate):
    """Delegate of a request that calls ``complete`` once the request has been read in full."""

    def __init__(self, delegate: HTTPMessageDelegate, complete: Callable[[], object]) -> None:
        self._delegate = delegate
        self._complete = complete

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: Any) -> Any:
        """See `HTTPMessageDelegate`."""
        return self._delegate.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Any:
        """See `HTTPMessageDelegate`."""
        return self._delegate.data_received(chunk)

    def finish(self) -> None:
        """See `HTTPMessageDelegate`."""
        self._complete()
        self._delegate.finish()

    def on_connection_close(self) -> None:
        """See `HTTPMessageDelegate`."""
        self._delegate.on_connection_close()


class ListeningSocket(socket.socket):
    """Listening socket that pauses accepting when file descriptors have run out.

    A socket with a pending connection stays readable, so without a pause the event loop would retry continuously.
    """

    _backoff: Backoff | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises `BlockingIOError` if none is pending or no file descriptor is free."""
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            self._rest(error)
            raise BlockingIOError(errno.EAGAIN, "resting") from error
        self._backoff = None
        return accepted

    def _rest(self, error: OSError) -> None:
        if self._backoff is None:
            log.warning("No connection can be accepted for now: %s", error.strerror)
            self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        loop = IOLoop.current()
        loop.update_handler(self, 0)
        loop.call_later(self._backoff.next_delay(), self._go_on)

    def _go_on(self) -> None:
        if self.fileno() != -1:
            IOLoop.current().update_handler(self, IOLoop.READ)
