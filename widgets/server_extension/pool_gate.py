"""Requests of a notebook server to its pool: one address, one token, bounded answers, no redirects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx
import msgspec

from springtide.scheduler.client.errors import problem_of
from springtide.scheduler.client.stream import SILENCE_S
from springtide.scheduler.client.transport import is_from_hub, is_loopback, needs_tls
from springtide.scheduler.wire import Problem
from springtide.widgets.server_extension.allowed import Target

MAX_ANSWER: Final = 16 * 2**20
"""Maximum size of a forwarded answer, in bytes."""
CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0
"""Maximum silence of the pool before and during an answer, in seconds."""
SLOW_ANSWER_S: Final = 1800.0
"""The same for an answer before which the pool may copy a checkpoint."""
CONNECTIONS: Final = 64
"""Maximum number of connections to the pool; requests beyond it wait for one."""
REDIRECTS: Final = range(300, 400)
OCTETS: Final = "application/octet-stream"
"""Type of every file, whatever its content, so that no browser runs one."""


class GateError(Exception):
    """The pool gave no answer that can be passed on; ``problem`` says why.

    ``retry_after`` is the pool's header of that name, empty if there is none.
    """

    def __init__(self, problem: Problem, retry_after: str = "") -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Download:
    """A file of the pool: its size in bytes, and its pieces as they come."""

    size: int
    pieces: AsyncIterator[bytes]


class PoolGate:
    """A client of one pool with one token. ``url`` is the service's address, without ``/api/v1``."""

    def __init__(self, url: str, token: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        headers = {"Accept": "application/json", "User-Agent": "springtide-notebook"}
        if token:
            headers["Authorization"] = f"token {token}"
        self._url = f"{url.rstrip('/')}/api/v1/"
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=CONNECTIONS),
            follow_redirects=False,
            transport=transport,
            trust_env=not is_loopback(url),
            verify=needs_tls(url),
        )

    async def close(self) -> None:
        """Close all connections to the pool."""
        await self._http.aclose()

    async def ask(self, target: Target, body: bytes | None = None) -> tuple[int, bytes]:
        """Return the status and the JSON of an answer. Raises `GateError`."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            timeout = httpx.Timeout(SLOW_ANSWER_S, connect=CONNECT_S) if target.is_slow else None
            request = self._request(target.method, target.path, headers=headers, content=body, timeout=timeout)
            response = await self._http.send(request, stream=True)
            try:
                content = await _bounded(response)
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise unreachable(error) from error
        return response.status_code, _json(response, content)

    @asynccontextmanager
    async def events(self, query: str, last_event_id: str | None) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open the event stream and give its pieces as they come. Raises `GateError`."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
        request = self._request("GET", f"events{query}", headers=headers, timeout=timeout)
        async with self._opened(request, "text/event-stream") as response:
            yield response.aiter_raw()

    @asynccontextmanager
    async def file(self, target: Target) -> AsyncIterator[Download]:
        """Open a file and give its pieces as they come. Raises `GateError`, also for one that breaks off."""
        headers = {"Accept": OCTETS, "Accept-Encoding": "identity"}
        request = self._request(target.method, target.path, headers=headers)
        async with self._opened(request, OCTETS) as response:
            length = response.headers.get("Content-Length", "")
            if "Content-Encoding" in response.headers or not length.isdecimal():
                raise GateError(_bad("The pool sent a file without its size."))
            yield Download(int(length), response.aiter_raw())

    @asynccontextmanager
    async def _opened(self, request: httpx.Request, media: str) -> AsyncIterator[httpx.Response]:
        """Give an answer of the type whose body has not been read. Raises `GateError` for any other."""
        try:
            response = await self._http.send(request, stream=True)
            try:
                answered = response.headers.get("Content-Type", "").partition(";")[0].strip()
                if response.status_code != httpx.codes.OK or answered != media:
                    content = _json(response, await _bounded(response))
                    again = response.headers.get("Retry-After", "")
                    raise GateError(problem_of(response.status_code, content), again)
                yield response
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise unreachable(error) from error

    def _request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        timeout: httpx.Timeout | None = None,
    ) -> httpx.Request:
        self._http.cookies.clear()
        chosen = httpx.USE_CLIENT_DEFAULT if timeout is None else timeout
        return self._http.build_request(
            method, self._url + path, headers=dict(headers), content=content, timeout=chosen
        )


async def _bounded(response: httpx.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MAX_ANSWER:
            raise GateError(_bad("The pool's answer is larger than a notebook server passes on."))
        parts.append(part)
    return b"".join(parts)


def _json(response: httpx.Response, content: bytes) -> bytes:
    """Return the content of an answer of the API. Raises `GateError` for any other, such as a log-in page."""
    if is_from_hub(response):
        raise unreachable(RuntimeError("the hub answers in the service's place"))
    if response.status_code in REDIRECTS:
        raise GateError(_bad("The pool's address answered with a redirect, which is not followed."))
    try:
        msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise GateError(_bad(problem_of(response.status_code, b"").message)) from None
    return content


def unreachable(error: Exception) -> GateError:
    """Return the error for a pool that does not answer."""
    message = "The pool does not answer. Running jobs continue."
    hint = f"Try again in a moment. The connection failed: {error or type(error).__name__}."
    return GateError(Problem(status=503, code="unreachable", message=message, hint=hint))


def _bad(message: str) -> Problem:
    return Problem(
        status=502, code="bad_answer", message=message, hint="Ask the hub's admin to check SPRINGTIDE_URL."
    )
