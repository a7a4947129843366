"""The proxy in Python passes answers on as they come: without it no event would reach a page."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from hub_process import free_port
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

WAIT_S = 60.0
MANY = 25


@dataclass
class Target:
    """What the streams at the target are told, and how many are open."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)


class Stream(RequestHandler):
    def on_connection_close(self) -> None:
        self.settings["target"].left.set()

    async def get(self) -> None:
        target: Target = self.settings["target"]
        self.set_header("Content-Type", "text/event-stream")
        self.write("data: first\n\n")
        await self.flush()
        await target.go_on.wait()
        try:
            while not target.left.is_set():
                self.write("data: more\n\n")
                await self.flush()
                await asyncio.sleep(0.01)
        except StreamClosedError:
            target.left.set()


class Plain(RequestHandler):
    def get(self) -> None:
        self.set_header("Set-Cookie", "one=1; Path=/")
        self.add_header("Set-Cookie", "two=2; Path=/")
        self.set_header("Content-Type", "text/x-own")
        self.write("plain " * 10_000)

    def post(self) -> None:
        self.set_status(201)
        self.write(self.request.body)

    def delete(self) -> None:
        self.set_status(204)

    def compute_etag(self) -> str:
        return '"known"'


@pytest.fixture
async def target() -> AsyncIterator[tuple[Target, str]]:
    target = Target()
    server = HTTPServer(Application([("/stream", Stream), ("/plain", Plain)], target=target))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    yield target, f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    target.left.set()
    target.go_on.set()
    server.stop()
    await server.close_all_connections()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """What the proxy logs."""
    return tmp_path / "proxy.log"


@pytest.fixture
async def client(target: tuple[Target, str], log: Path) -> AsyncIterator[httpx.AsyncClient]:
    port, api = free_port(), free_port()
    options = ["--ip", "127.0.0.1", "--port", str(port), "--api-port", str(api), "--default-target", target[1]]
    with log.open("wb") as errors:
        proxy = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "springtide.hub_extension.local_hub.proxy", *options, stderr=errors
        )
    limits = httpx.Limits(max_connections=2 * MANY)
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=WAIT_S, limits=limits, trust_env=False) as client:
        async with asyncio.timeout(WAIT_S):
            while not await _answers(client):
                await asyncio.sleep(0.05)
        yield client
    proxy.terminate()
    await proxy.wait()


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/_chp_healthz")).status_code == 200
    except httpx.TransportError:
        return False


async def test_an_event_arrives_while_its_stream_is_open(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/stream") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert await anext(answer.aiter_lines()) == "data: first"


async def test_many_open_streams_keep_nobody_else_waiting(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(WAIT_S):
        streams = [client.stream("GET", "/stream") for _ in range(MANY)]
        for answer in streams:
            await answer.__aenter__()
        assert (await client.get("/plain")).status_code == 200
        for answer in streams:
            await answer.__aexit__(None, None, None)


async def test_a_reader_who_leaves_ends_the_stream_at_the_target_which_is_no_error(
    client: httpx.AsyncClient, target: tuple[Target, str], log: Path
) -> None:
    async with client.stream("GET", "/stream") as answer:
        await anext(answer.aiter_lines())
    target[0].go_on.set()
    async with asyncio.timeout(WAIT_S):
        await target[0].left.wait()
    assert (await client.get("/plain")).status_code == 200
    told = log.read_text()
    assert "Proxy API at" in told
    assert "Traceback" not in told


async def test_what_is_not_a_stream_comes_through_whole(client: httpx.AsyncClient) -> None:
    answer = await client.get("/plain")
    assert answer.text == "plain " * 10_000
    assert answer.headers["Content-Type"] == "text/x-own"
    assert answer.headers.get_list("Set-Cookie") == ["one=1; Path=/", "two=2; Path=/"]
    assert (await client.get("/plain", headers={"If-None-Match": '"known"'})).status_code == 304
    posted = await client.post("/plain", content=b"body")
    assert (posted.status_code, posted.content) == (201, b"body")
    assert (await client.delete("/plain")).status_code == 204
    assert (await client.get("/nowhere")).status_code == 404
