"""HTTP server that keeps answering while clients hold connections open or file descriptors run out."""

from __future__ import annotations

import errno
import ipaddress
import logging
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
STALLED_S: Final = 60.0
"""Time in which a reader must take its pending data, or `SLOWEST_BYTES` of it, in seconds."""
SLOWEST_BYTES: Final = 64 * 1024
SWEEP_S: Final = 5.0
"""Interval between checks of how much readers have taken, in seconds."""
PART_OF_ONE_ADDRESS: Final = 0.5
"""Maximum share of the connections for one address, unless it is this machine's own."""
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


@dataclass(slots=True)
class Unread:
    """Pending data of a reader: since when it waits, how much of the stream was written then, and its end."""

    since: float
    written: int
    end: int

    def taken(self, stream: IOStream) -> bool:
        """Return whether the reader has taken enough of it."""
        written = stream._total_write_done_index  # noqa: SLF001 - no public name
        return written >= min(self.end, self.written + SLOWEST_BYTES)


class Server(HTTPServer):
    """Tornado's server with time-outs for headers and for readers, and a cap on connections.

    A reader that does not take its data for ``stalled`` seconds is cut off, also one that has vanished without a
    word and whose data the kernel has taken. Beyond the cap the connection that has waited longest without a
    complete request is closed, else the one whose reader has stalled longest, or the new one if
    all others are being answered. One address of another machine holds no more than a part of the connections.
    ``HTTPServer.configure(Server)`` makes all servers of the process instances of this class.
    ``files_each`` is the number of open files per connection, 2 for a connection that is proxied.
    """

    def initialize(  # type: ignore[override]
        self,
        request_callback: Any,
        *,
        files_each: int = 1,
        stalled: float = STALLED_S,
        sweep: float = SWEEP_S,
        **given: Any,
    ) -> None:
        """Set the options of `tornado.httpserver.HTTPServer` and compute the maximum number of connections."""
        limit = raise_open_files()
        self.most = max(8, (limit - min(RESERVED_FILES, limit // 4)) // files_each)
        self._waiting: dict[object, IOStream] = {}
        self._unread: dict[IOStream, Unread] = {}
        self._of_address = Counter[str]()
        self._stalled = stalled
        self._sweep_every = sweep
        self._sweeping = False
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
        """Serve a new connection; at the cap, close one that waits or whose reader stalls, or else the new one."""
        if self._is_greedy(str(address[0])) or not self._make_room():
            stream.close()
            return
        self._of_address[str(address[0])] += 1
        self._bound_silence(stream.socket)
        super().handle_stream(stream, address)
        if not self._sweeping:
            self._sweeping = True
            IOLoop.current().call_later(self._sweep_every, self._sweep)

    def _bound_silence(self, connection: socket.socket) -> None:
        """Have the kernel end a connection whose peer acknowledges no data in time, else after 15 minutes."""
        if sys.platform == "linux" and connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * self._stalled))

    def _is_greedy(self, address: str) -> bool:
        """Return whether an address of another machine has its part of the connections."""
        return not _is_own(address) and self._of_address[address] >= self.most * PART_OF_ONE_ADDRESS

    def _make_room(self) -> bool:
        """Close a connection if the cap is reached; return whether there is room for another."""
        if len(self._connections) < self.most:
            return True
        oldest = next(iter(self._waiting), None)
        if oldest is not None:
            self._waiting.pop(oldest).close()
            return True
        stalled = min(self._unread, key=lambda each: self._unread[each].since, default=None)
        if stalled is not None:
            del self._unread[stalled]
            stalled.close()
        return stalled is not None

    def _sweep(self) -> None:
        """Cut off the readers that have stalled, and check again while there are connections."""
        now = IOLoop.current().time()
        streams = [connection.stream for connection in self._connections]
        self._unread = {
            stream: unread for stream in streams if (unread := self._unread_of(stream, now)) is not None
        }
        for stream, unread in self._unread.items():
            if now - unread.since >= self._stalled:
                stream.close()
        self._sweeping = bool(streams)
        if self._sweeping:
            IOLoop.current().call_later(self._sweep_every, self._sweep)

    def _unread_of(self, stream: IOStream, now: float) -> Unread | None:
        """Return the pending data of a connection's reader, None if there is none."""
        if stream.closed() or not stream.writing():
            return None
        known = self._unread.get(stream)
        if known is not None and not known.taken(stream):
            return known
        return Unread(now, stream._total_write_done_index, stream._total_write_index)  # noqa: SLF001

    def start_request(self, server_conn: Any, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Record that the connection waits for a request, and return the delegate of that request."""
        self._waiting.pop(server_conn, None)
        self._waiting[server_conn] = server_conn.stream
        delegate = super().start_request(server_conn, request_conn)
        return Request(delegate, lambda: self._waiting.pop(server_conn, None))

    def on_close(self, server_conn: Any) -> None:
        """Remove a closed connection from the waiting ones and from those of its address."""
        self._waiting.pop(server_conn, None)
        address = str(server_conn.context.address[0])
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
        super().on_close(server_conn)


def _is_own(address: str) -> bool:
    """Return whether the address is one of this machine, such as of a reverse proxy or of a tunnel to it."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True


class Request(HTTPMessageDelegate):
    """Request delegate: calls ``complete`` once the request has been read in full."""

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
