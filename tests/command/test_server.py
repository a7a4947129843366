"""Idle and half-open connections do not keep other clients out of the proxy or any other server of ours."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from patience import PATIENCE_S
from ports import free_port
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from springtide.hub_extension.web.server import ListeningSocket, Server, raise_open_files

FEW_FILES = 128
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-More: "


class Hello(RequestHandler):
    def get(self) -> None:
        self.write("hello")

    def post(self) -> None:
        self.write("hello")


class Held(RequestHandler):
    async def get(self) -> None:
        await self.flush()
        await self.settings["go_on"].wait()


@contextlib.asynccontextmanager
async def server(most: int | None = None, **options: float) -> AsyncIterator[tuple[int, Server, asyncio.Event]]:
    """A server, its port, and the event that ends the requests of `Held`."""
    go_on = asyncio.Event()
    made = Server(Application([("/", Hello), ("/held", Held)], go_on=go_on), **options)
    if most is not None:
        made.most = most
    sockets = bind_sockets(0, "127.0.0.1")
    port = sockets[0].getsockname()[1]
    made.add_sockets(sockets)
    yield port, made, go_on
    go_on.set()
    made.stop()
    await made.close_all_connections()


async def hello(port: int) -> str:
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False, verify=False) as client:
        return (await client.get(f"http://127.0.0.1:{port}/")).text


async def ended(sock: socket.socket) -> bool:
    """Whether the other side closes the connection within 20 seconds."""
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read() == b""
    finally:
        writer.close()


async def test_a_header_that_never_ends_is_not_waited_for() -> None:
    async with server(idle_connection_timeout=1.0) as (port, _, _):
        with socket.create_connection(("127.0.0.1", port)) as half:
            half.sendall(HALF)
            assert await ended(half)
        assert await hello(port) == "hello"


async def test_a_body_that_never_ends_is_not_waited_for() -> None:
    async with server(body_timeout=0.2) as (port, _, _):
        with socket.create_connection(("127.0.0.1", port)) as half:
            half.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
            assert await ended(half)


async def test_the_connection_that_waits_longest_gives_way_and_not_one_that_is_answered() -> None:
    async with (
        server(most=4) as (port, _, go_on),
        httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False, verify=False) as client,
    ):
        async with client.stream("GET", f"http://127.0.0.1:{port}/held") as held:
            assert held.status_code == 200
            halves = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
            for half in halves:
                half.sendall(HALF)
                await asyncio.sleep(0.05)
            assert await hello(port) == "hello"
            assert await ended(halves[0])
            go_on.set()
            assert await held.aread() == b""
        for half in halves[1:]:
            half.close()


class Exhausted(ListeningSocket):
    """A socket for whose connections there are no file descriptors for a while."""

    began = 0.0
    tried = 0

    def _accept(self) -> tuple[int, object]:
        type(self).tried += 1
        type(self).began = self.began or time.monotonic()
        if time.monotonic() < self.began + 1.0:
            raise OSError(errno.EMFILE, "Too many open files")
        accepted: tuple[int, object] = super()._accept()  # type: ignore[misc]
        return accepted


async def test_without_file_descriptors_it_rests_instead_of_spinning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("springtide.hub_extension.web.server.ListeningSocket", Exhausted)
    Exhausted.began, Exhausted.tried = 0.0, 0
    async with server() as (port, _, _):
        assert await hello(port) == "hello"
    assert Exhausted.tried < 30
    assert [record.message for record in caplog.records if record.levelname != "DEBUG"] == [
        "No connection can be accepted for now: Too many open files"
    ]


@pytest.fixture
def proxy() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A proxy with few file descriptors, and its port."""
    port, api = free_port(), free_port()
    command = ["sh", "-c", f'ulimit -n {FEW_FILES}; exec "$@"', "sh"]
    command += [sys.executable, "-m", "springtide.hub_extension.local_hub.proxy", "--ip", "127.0.0.1"]
    command += ["--port", str(port), "--api-ip", "127.0.0.1", "--api-port", str(api)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield port, process
        finally:
            process.kill()


def test_half_requests_keep_nobody_out_of_the_proxy(proxy: tuple[int, subprocess.Popen[str]]) -> None:
    port, process = proxy
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with contextlib.ExitStack() as stack:
        for _ in range(3 * FEW_FILES):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            half.sendall(HALF)
        for _ in range(10):
            answer = httpx.get(f"http://127.0.0.1:{port}/_chp_healthz", timeout=PATIENCE_S, trust_env=False)
            assert answer.json() == {"status": "OK"}
    process.kill()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_the_soft_limit_on_open_files_is_raised_as_far_as_is_useful() -> None:
    ask = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {})); "
    ask += "from springtide.hub_extension.web.server import raise_open_files; "
    ask += "print(raise_open_files(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    told = [
        subprocess.check_output([sys.executable, "-c", ask.format(*limits)], text=True).split()
        for limits in [(256, 512), (512, 512)]
    ]
    assert told == [["512", "512", "512"], ["512", "512", "512"]]
    assert raise_open_files() <= 65_536 or resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 65_536
