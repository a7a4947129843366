"""Idle and half-open connections do not keep other clients out of the proxy or any other server of ours."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from patience import PATIENCE_S
from servers.ports import free_port
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from springtide.hub_extension.web.server import ListeningSocket, Server, raise_open_files

FEW_FILES = 128
MUCH = 32 * 1024 * 1024
SO_ATTACH_FILTER = 26
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)
"""A filter of packets that accepts none: BPF_RET 0."""
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-More: "


class Hello(RequestHandler):
    def get(self) -> None:
        self.write("hello")

    def post(self) -> None:
        self.write("hello")


class Much(RequestHandler):
    """An answer that no reader takes at once, and that is finished without being waited for."""

    def get(self) -> None:
        self.write(b"x" * MUCH)


class Held(RequestHandler):
    async def get(self) -> None:
        await self.flush()
        await self.settings["go_on"].wait()


class Beating(RequestHandler):
    """An endless answer of a byte at a time, as heartbeats are; the event is set when the connection has ended."""

    async def get(self) -> None:
        try:
            while True:
                self.write(b":")
                await self.flush()
                await asyncio.sleep(0.05)
        except StreamClosedError:
            self.settings["go_on"].set()


@contextlib.asynccontextmanager
async def server(most: int | None = None, **options: float) -> AsyncIterator[tuple[int, Server, asyncio.Event]]:
    """A server, its port, and the event that ends the requests of `Held`."""
    go_on = asyncio.Event()
    made = Server(
        Application([("/", Hello), ("/held", Held), ("/much", Much), ("/beating", Beating)], go_on=go_on),
        **options,
    )
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


def slow_reader(port: int, address: str = "127.0.0.1", path: str = "/much") -> socket.socket:
    """A connection that asks for much and reads nothing."""
    reader = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S, source_address=(address, 0))
    reader.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return reader


async def is_cut(reader: socket.socket) -> bool:
    """Whether the answer ends before it is complete."""
    opened, writer = await asyncio.open_connection(sock=reader)
    taken = 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionResetError):
                while piece := await opened.read(1 << 20):
                    taken += len(piece)
    finally:
        writer.close()
    return taken < MUCH


async def test_a_reader_that_takes_nothing_is_cut_off() -> None:
    async with server(stalled=0.5, sweep=0.05) as (port, made, _):
        reader = slow_reader(port)
        async with asyncio.timeout(PATIENCE_S):
            while not made._connections:
                await asyncio.sleep(0.01)
            while made._connections:
                await asyncio.sleep(0.01)
        assert await is_cut(reader)


def vanish(reader: socket.socket) -> None:
    """Have the reader's machine drop all packets that arrive for it, as if its cable were out."""
    drop = ctypes.create_string_buffer(DROP_ALL)
    reader.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(drop)))


async def test_a_reader_that_has_vanished_without_a_word_is_cut_off_at_the_next_heartbeats() -> None:
    async with server(stalled=1.0) as (port, _, ended_here):
        reader = slow_reader(port, path="/beating")
        await asyncio.to_thread(reader.recv, 1)
        vanish(reader)
        await asyncio.wait_for(ended_here.wait(), PATIENCE_S)
        reader.close()


async def test_a_reader_that_takes_its_time_gets_everything() -> None:
    async with server(stalled=1.0, sweep=0.05) as (port, _, _):
        opened, writer = await asyncio.open_connection(sock=slow_reader(port), limit=1 << 16)
        taken = 0
        async with asyncio.timeout(PATIENCE_S):
            while taken < MUCH:
                taken += len(await opened.read(1 << 20))
                await asyncio.sleep(0.05 if taken < MUCH // 16 else 0)
        writer.close()


async def test_readers_that_stall_keep_nobody_out() -> None:
    async with server(most=4, sweep=0.05) as (port, made, _):
        readers = [slow_reader(port) for _ in range(4)]
        async with asyncio.timeout(PATIENCE_S):
            while len(made._unread) < 4:
                await asyncio.sleep(0.01)
        assert await hello(port) == "hello"
        assert len(made._unread) == 3
        for reader in readers:
            reader.close()


async def test_one_address_of_another_machine_gets_a_part_of_the_connections_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("springtide.hub_extension.web.server._is_own", lambda address: address == "127.0.0.1")
    async with server(most=8) as (port, made, _):
        readers = [slow_reader(port, "127.0.0.2", "/held") for _ in range(4)]
        async with asyncio.timeout(PATIENCE_S):
            while made._of_address["127.0.0.2"] < 4:
                await asyncio.sleep(0.01)
        assert await ended(socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)))
        assert await hello(port) == "hello"
        readers.pop().close()
        async with asyncio.timeout(PATIENCE_S):
            while made._of_address["127.0.0.2"] == 4:
                await asyncio.sleep(0.01)
        for reader in readers:
            reader.close()


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


@dataclass(frozen=True)
class Proxy:
    """A proxy, its port, and that of its API."""

    process: subprocess.Popen[str]
    port: int
    api: int


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy with few file descriptors."""
    port, api = free_port(), free_port()
    command = ["sh", "-c", f'ulimit -n {FEW_FILES}; exec "$@"', "sh"]
    command += [sys.executable, "-m", "springtide.hub_extension.local_hub.proxy", "--ip", "127.0.0.1"]
    command += ["--port", str(port), "--api-ip", "127.0.0.1", "--api-port", str(api)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Proxy(process, port, api)
        finally:
            process.kill()


def until_it_answers(port: int) -> None:
    """Wait until a proxy accepts connections."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_half_requests_keep_nobody_out_of_the_proxy(proxy: Proxy) -> None:
    until_it_answers(proxy.port)
    with contextlib.ExitStack() as stack:
        for _ in range(3 * FEW_FILES):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S))
            half.sendall(HALF)
        for _ in range(10):
            answer = httpx.get(f"http://127.0.0.1:{proxy.port}/_chp_healthz", timeout=PATIENCE_S, trust_env=False)
            assert answer.json() == {"status": "OK"}
    proxy.process.kill()
    assert proxy.process.stderr is not None
    assert "Traceback" not in proxy.process.stderr.read()


@pytest.fixture
def large_file(tmp_path: Path) -> Iterator[str]:
    """The address of a server with a large file for everyone."""
    (tmp_path / "much").write_bytes(b"x" * MUCH)
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until_it_answers(port)
        yield f"http://127.0.0.1:{port}"
        process.kill()


def test_slow_readers_keep_nobody_out_of_the_proxy(proxy: Proxy, large_file: str) -> None:
    until_it_answers(proxy.port)
    until_it_answers(proxy.api)
    route = httpx.post(f"http://127.0.0.1:{proxy.api}/api/routes/", json={"target": large_file}, trust_env=False)
    assert route.status_code == 201
    with contextlib.ExitStack() as stack:
        for _ in range(FEW_FILES):
            stack.enter_context(slow_reader(proxy.port))
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = httpx.get(f"http://127.0.0.1:{proxy.port}/_chp_healthz", timeout=2.0, trust_env=False)
                if answer.json() == {"status": "OK"}:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.2)


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
