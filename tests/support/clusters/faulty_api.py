"""A proxy between a program and the API server, with faults on request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web
from clusters.cluster import Cluster
from clusters.control_plane import write_kubeconfig

_HOP = {"host", "connection", "content-length", "transfer-encoding", "authorization"}
Fault = Callable[[web.Request], "int | None"]


class FaultyApi:
    """Forwards requests to the cluster's API server, except for the faults of a test.

    ``before`` answers a request with a status before it reaches the server, ``after`` once the server has
    processed it: the sender sees no difference. None forwards the request. Watches that are open while
    ``mute`` is set stay open and send no further events, ``withheld`` counts those; `expire` ends all watches as
    too old.
    """

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        self._cluster = cluster
        self.kubeconfig = kubeconfig
        self.before: Fault = lambda _: None
        self.after: Fault = lambda _: None
        self.mute = False
        self.withheld = 0
        self.expired = 0
        self.requests: list[tuple[str, str]] = []
        self._ending = asyncio.Event()

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=str(self._cluster.ca))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._client = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        write_kubeconfig(self.kubeconfig, f"http://127.0.0.1:{port}", self._cluster.ca, self._cluster.token)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        await self._runner.cleanup()
        await self._client.close()

    def expire(self) -> None:
        """End all watches as too old."""
        self.expired += 1

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        status = self.before(request)
        if status is not None:
            return _refusal(status)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        headers["Authorization"] = f"Bearer {self._cluster.token}"
        body = await request.read()
        async with self._client.request(
            request.method, self._cluster.url + request.path_qs, data=body, headers=headers
        ) as answer:
            if "watch" in request.query:
                return await self._stream(request, answer)
            content = await answer.read()
        status = self.after(request)
        if status is not None:
            return _refusal(status)
        return web.Response(status=answer.status, body=content, content_type="application/json")

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status)
        await response.prepare(request)
        expired, muted = self.expired, False
        while not self._ending.is_set():
            chunk = await _some(answer)
            if self.expired != expired:
                gone = (
                    b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}\n'
                )
                await response.write(gone)
                break
            muted = muted or self.mute
            if muted:
                self.withheld += bool(chunk)
                continue
            if chunk == b"":
                break
            if chunk:
                await response.write(chunk)
        return response


async def _some(answer: aiohttp.ClientResponse) -> bytes | None:
    """Return the data that arrives within a moment; empty at the end."""
    if answer.content.at_eof():
        await asyncio.sleep(0.05)
        return b""
    try:
        async with asyncio.timeout(0.05):
            return await answer.content.readany()
    except TimeoutError:
        return None


def _refusal(status: int) -> web.Response:
    said = {"kind": "Status", "code": status, "reason": "Fault", "message": f"a test wants {status}"}
    return web.json_response(said, status=status, headers={"Retry-After": "1"} if status == 429 else {})
