"""One HTTP exchange with the pool: addresses, retries, and errors made into words."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
from httpx_sse import EventSource, ServerSentEvent

from springtide.scheduler import wording
from springtide.scheduler.backoff import Backoff
from springtide.scheduler.client.errors import OF_ANOTHER, PoolError, Unreachable, problem_of
from springtide.scheduler.wire import Problem

T = TypeVar("T")

ATTEMPTS: Final = 4
FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 5.0
"""The longest wait that the pool may request."""
BUSY_S: Final = 60.0
"""How long a request is repeated while the pool says that it is busy and when to come back, in seconds."""
MOST_BETWEEN_S: Final = 1.0
"""The longest wait between two tries otherwise."""
TOO_MANY: Final = 429
NOT_FOUND: Final = 404
UNPROCESSABLE: Final = 422
AWAY: Final = frozenset({502, 503, 504})
"""Statuses of a proxy while the service behind it restarts."""
OF_THE_HUB: Final = "X-JupyterHub-Version"
"""Header of every answer of the hub, which the service never sends."""

Query = Mapping[str, str | int | float | bool | None]


class Transport:
    """Sends requests to the pool's API. Raises `PoolError` and `Unreachable`; safe to share between threads.

    ``timeout`` is seconds for connecting and for each silence of an answer, ``patience`` for how many seconds at
    least a request that may be repeated is repeated while nothing answers, as when the pool's service restarts.
    """

    def __init__(
        self, url: str, token: str | None, timeout: float, patience: float, mounted: httpx.BaseTransport | None
    ) -> None:
        self.url = url.rstrip("/")
        self._patience = patience
        headers = {"Accept": "application/json", "User-Agent": "springtide"}
        if token:
            headers["Authorization"] = f"token {token}"
        self._http = httpx.Client(
            base_url=f"{self.url}/api/v1/",
            headers=headers,
            timeout=timeout,
            transport=mounted,
            trust_env=not is_loopback(self.url),
            verify=needs_tls(self.url),
        )

    def close(self) -> None:
        """Close the connections; the transport cannot be used afterwards."""
        self._http.close()

    def address(self, path: str) -> str:
        """Return the address of a call."""
        return f"{self.url}/api/v1/{path}"

    def raw(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: msgspec.Struct | bytes | None = None,
        repeat: bool | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """Return the answer's body. ``repeat`` means that the request may be sent twice; a GET always may."""
        repeatable = method == "GET" if repeat is None else repeat
        plain = isinstance(body, bytes)
        content = body if body is None or isinstance(body, bytes) else encoded(body)
        media = "application/octet-stream" if plain else "application/json"
        with sendable():
            request = self._http.build_request(
                method,
                path,
                params=given(query),
                content=content,
                headers={} if content is None else {"Content-Type": media},
                timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
            )
        tries = _Tries(ATTEMPTS, self._patience, BUSY_S) if repeatable else _Tries(1, 0.0, 0.0)
        while True:
            try:
                response = self._http.send(request)
            except httpx.TransportError as error:
                wait = tries.wait(away=True)
                if wait is None:
                    raise self.unreachable(error) from error
            else:
                if response.is_success:
                    return response.content
                wait = tries.wait_after(response)
                if wait is None:
                    raise self.refused(response)
            threading.Event().wait(wait)

    def save(self, path: str, to: BinaryIO, *, after: int = 0) -> int:
        """Write what follows the first ``after`` bytes of the answer's body to a file; return its size in bytes.

        The request is sent once: after an error the file may hold a part of the body.
        """
        try:
            with sendable(), self._http.stream("GET", path) as response:
                if not response.is_success:
                    response.read()
                    raise self.refused(response)
                return sum(to.write(piece) for piece in _behind(response.iter_bytes(), after))
        except httpx.TransportError as error:
            raise self.unreachable(error) from error

    def struct(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: msgspec.Struct | bytes | None = None,
        repeat: bool | None = None,
        timeout: float | None = None,
    ) -> T:
        """Return the answer as a struct of the wire."""
        content = self.raw(method, path, query=query, body=body, repeat=repeat, timeout=timeout)
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PoolError(problem_of(200, content)) from error

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        query: Query,
        headers: Mapping[str, str],
        silence: float,
        max_event: int,
        stop: threading.Event,
    ) -> Iterator[Iterator[ServerSentEvent]]:
        """Open an answer without end and give its server-sent events; they end when ``stop`` is set.

        ``silence`` seconds without a byte, or an event of more than ``max_event`` bytes, is a lost connection.
        """
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store", **headers}
        try:
            timeout = httpx.Timeout(self._http.timeout.connect, read=silence)
            asked = self._http.stream("GET", path, params=given(query), headers=headers, timeout=timeout)
            with sendable(), asked as response:
                if not response.is_success:
                    response.read()
                    raise self.refused(response)
                guarded = _Guarded(response.iter_raw(), max_event, stop)
                events = EventSource(httpx.Response(200, headers=response.headers, stream=guarded))
                yield events.iter_sse()
        except httpx.TransportError as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> Unreachable:
        """Return the error for a pool that does not answer."""
        return Unreachable(
            f"The pool at {self.url} does not answer ({error or type(error).__name__}). "
            "Running jobs continue; try again in a moment."
        )

    def refused(self, response: httpx.Response) -> Exception:
        """Return the error for an answer that is no success."""
        if is_from_hub(response):
            return self.unreachable(RuntimeError("the hub answers in the service's place"))
        if is_without_route(response):
            return self.unreachable(RuntimeError("it starts, or SPRINGTIDE_URL names another address"))
        problem = problem_of(response.status_code, response.content)
        if problem.code == OF_ANOTHER and response.status_code in AWAY:
            return self.unreachable(RuntimeError(f"the proxy says {response.status_code}"))
        return PoolError(problem, _retry_after(response))


class _Guarded(httpx.SyncByteStream):
    """The bytes of an event stream until ``stop`` is set, with a bound for the bytes between two empty lines."""

    def __init__(self, chunks: Iterator[bytes], max_event: int, stop: threading.Event) -> None:
        self._chunks = chunks
        self._max_event = max_event
        self._stop = stop

    def __iter__(self) -> Iterator[bytes]:
        """Yield the chunks. Raises `httpx.ReadError` for an event that is too large."""
        pending, tail = 0, b""
        for chunk in self._chunks:
            if self._stop.is_set():
                return
            recent = tail + chunk
            end = max(recent.rfind(b"\n\n"), recent.rfind(b"\n\r\n"))
            pending = pending + len(chunk) if end < 0 else len(recent) - end
            tail = recent[-2:]
            yield chunk
            if pending > self._max_event:
                msg = f"an event is larger than {self._max_event} bytes"
                raise httpx.ReadError(msg)


class _Tries:
    """The retries of one request: ``most`` in all, or as long as there is patience.

    That is ``patience`` seconds while nothing answers, and ``busy`` seconds while the pool says when to come back.
    """

    def __init__(self, most: int, patience: float, busy: float) -> None:
        self._left = most - 1
        self._patient_until = time.monotonic() + patience
        self._busy_until = time.monotonic() + busy
        self._backoff = Backoff(FIRST_WAIT_S, MOST_BETWEEN_S)

    def wait(self, *, away: bool = False, busy: bool = False, at_least: float = 0.0) -> float | None:
        """Return the seconds until the next attempt, or None if there is to be none.

        It is a random time after ``at_least``, so that those who were refused together do not come back together.
        """
        now = time.monotonic()
        patient = (away and now < self._patient_until) or (busy and now < self._busy_until)
        if (self._left <= 0 and not patient) or at_least > LONGEST_WAIT_S:
            return None
        self._left -= 1
        return at_least + self._backoff.next_delay()

    def wait_after(self, response: httpx.Response) -> float | None:
        """Return the seconds until the next attempt after an answer that is no success, None if it is final."""
        away = response.status_code in AWAY or is_from_hub(response) or is_without_route(response)
        if not away and response.status_code != TOO_MANY:
            return None
        busy = not away and "Retry-After" in response.headers
        return self.wait(away=away, busy=busy, at_least=_retry_after(response))


def is_from_hub(response: httpx.Response) -> bool:
    """Return whether the hub answered instead of the service, as long as that is not registered at the proxy.

    The hub redirects reads and refuses all other requests.
    """
    return not response.is_success and OF_THE_HUB in response.headers


def is_without_route(response: httpx.Response) -> bool:
    """Return whether the proxy found nothing at the address, as long as neither hub nor service are there."""
    return response.status_code == NOT_FOUND and problem_of(NOT_FOUND, response.content).code == OF_ANOTHER


def _behind(pieces: Iterable[bytes], after: int) -> Iterator[bytes]:
    """Yield what follows the first ``after`` bytes."""
    for piece in pieces:
        if len(piece) > after:
            yield piece[after:]
        after = max(0, after - len(piece))


def encoded(body: msgspec.Struct) -> bytes:
    """Return the body of a request. Raises `PoolError` for a text with a part of a character."""
    with sendable():
        return msgspec.json.encode(body)


@contextmanager
def sendable() -> Iterator[None]:
    """Raise `PoolError` for a text that no request can carry: a part of a character, or an address too long."""
    try:
        yield
    except httpx.InvalidURL:
        problem = Problem(
            status=UNPROCESSABLE,
            code="invalid",
            message="An id, a name or a condition of this request is too long.",
            hint="Shorten it: an address has at most 64 KiB.",
        )
        raise PoolError(problem) from None
    except UnicodeEncodeError as error:
        text, at = str(error.object), error.start
        problem = Problem(
            status=UNPROCESSABLE,
            code="invalid",
            message=f"{wording.given(text[max(0, at - 20) : at + 20])} has a part of a character, "
            f"{wording.given(text[at])}.",
            hint="No request can carry it: leave it out, or write it in whole characters.",
        )
        raise PoolError(problem) from None


def given(query: Query | None) -> dict[str, str | int | float]:
    """Return the parameters that have a value; true is written as 1."""
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in (query or {}).items()
        if value is not None
    }


def _retry_after(response: httpx.Response) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else 0.0


def needs_tls(url: str) -> bool:
    """Return whether a connection to the address, or to a proxy that leads to it, is verified by TLS.

    Only then a client has to read the authorities that the machine trusts, half the time of a short command.
    """
    return urlsplit(url).scheme == "https" or not is_loopback(url)


def is_loopback(url: str) -> bool:
    """Return whether the address is this machine's own, which no proxy of the environment leads to."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
