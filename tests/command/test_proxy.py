"""The proxy passes answers on as they come: event streams, large files, and many at a time.

One proxy serves all tests of the file, and each test has a server of its own behind it.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from clusters.certificates import write_server_certificate
from patience import PATIENCE_S
from servers.ports import free_port
from tornado.httpclient import HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler, websocket_connect

LARGE = 150 * 1024 * 1024
PIECE = b"0123456789abcdef" * 65536


@dataclass
class Upstream:
    """A server behind the proxy, controlled by the test."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0


class Events(RequestHandler):
    async def get(self) -> None:
        upstream: Upstream = self.settings["upstream"]
        self.set_header("Content-Type", "text/event-stream")
        self.write("data: first\n\n")
        await self.flush()
        await upstream.go_on.wait()
        self.write("data: last\n\n")


class Endless(RequestHandler):
    async def get(self) -> None:
        upstream: Upstream = self.settings["upstream"]
        try:
            while True:
                self.write(PIECE)
                await self.flush()
                upstream.sent += len(PIECE)
        except StreamClosedError:
            upstream.gone.set()


class Large(RequestHandler):
    async def get(self) -> None:
        self.set_header("Content-Length", str(LARGE))
        for _ in range(LARGE // len(PIECE)):
            self.write(PIECE)
            await self.flush()


class Odds(RequestHandler):
    def get(self) -> None:
        self.set_status(418, "Short and stout")
        self.add_header("Set-Cookie", "a=1")
        self.add_header("Set-Cookie", "b=2")
        self.set_header("Content-Type", "text/x-odd")
        self.set_header("Content-Encoding", "gzip")
        for name in ("For", "Host", "Port", "Proto"):
            self.set_header(f"Seen-{name}", self.request.headers.get(f"X-Forwarded-{name}", ""))
        self.finish(gzip.compress(b"tea"))

    def head(self) -> None:
        self.set_header("Content-Length", "12345")

    def post(self) -> None:
        self.finish(self.request.body[::-1])

    def delete(self) -> None:
        self.set_status(204)


class Size(RequestHandler):
    def put(self) -> None:
        self.finish(str(len(self.request.body)))


class Known(RequestHandler):
    def get(self) -> None:
        self.write("plain")

    def compute_etag(self) -> str:
        return '"known"'


class Torn(RequestHandler):
    async def get(self) -> None:
        self.set_header("Content-Length", "1000")
        self.write("half")
        await self.flush()
        self.detach().close()


class Echo(WebSocketHandler):
    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return "v1.kernel.example" if "v1.kernel.example" in subprotocols else None

    async def on_message(self, message: str | bytes) -> None:
        kind = type(message).__name__
        await self.write_message(f"{self.selected_subprotocol}, {kind}")


class Judge(RequestHandler):
    def get(self) -> None:
        self.set_status(404)
        self.finish(f"no {self.request.path}")


class Leaves(WebSocketHandler):
    """Cuts the connection at the first message."""

    def on_message(self, _message: str | bytes) -> None:
        assert self.ws_connection is not None
        self.ws_connection.stream.close()


class Talks(WebSocketHandler):
    """Sends messages until the reader has left."""

    async def open(self, *_words: str) -> None:
        upstream: Upstream = self.settings["upstream"]
        with suppress(WebSocketClosedError):
            while True:
                await self.write_message(b"x" * 1000, binary=True)
        upstream.gone.set()


@dataclass(frozen=True)
class Proxy:
    """A real proxy, the port of its target, and its log."""

    url: str
    target: int
    log: Path
    certificate: Path | None = None


COMMAND = [sys.executable, "-m", "springtide.hub_extension.local_hub.proxy"]


@contextmanager
def running(directory: Path, *, tls: bool = False) -> Iterator[Proxy]:
    port, api, target = free_port(), free_port(), free_port()
    log, certificate, key = directory / "proxy.log", directory / "cert.pem", directory / "key.pem"
    command = [*COMMAND, "--ip", "127.0.0.1",
               "--port", str(port), "--api-ip", "127.0.0.1", "--api-port", str(api),
               "--default-target", f"http://127.0.0.1:{target}"]  # fmt: skip
    proxy = Proxy(f"http://127.0.0.1:{port}", target, log)
    if tls:
        write_server_certificate(certificate, key)
        command += ["--ssl-cert", str(certificate), "--ssl-key", str(key)]
        proxy = Proxy(f"https://127.0.0.1:{port}", target, log, certificate)
    with log.open("wb") as errors, subprocess.Popen(command, stdout=errors, stderr=errors) as process:
        try:
            yield proxy
        finally:
            process.kill()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with running(tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture
async def upstream(proxy: Proxy) -> AsyncIterator[Upstream]:
    made = Upstream()
    routes = [("/events", Events), ("/endless", Endless), ("/large", Large), ("/odds", Odds), ("/known", Known),
              ("/torn", Torn), ("/echo", Echo), ("/size", Size),
              ("/leaves", Leaves), ("/talks", Talks), ("/path/.*", Judge)]  # fmt: skip
    server = HTTPServer(Application(routes, upstream=made), max_body_size=2 * LARGE)
    server.add_sockets(bind_sockets(proxy.target, "127.0.0.1"))
    yield made
    server.stop()
    await server.close_all_connections()


@pytest.fixture
async def browser(proxy: Proxy, upstream: Upstream) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose requests go through the proxy to the server behind it."""
    trusted = ssl.create_default_context(cafile=proxy.certificate) if proxy.certificate else True
    connection = httpx.AsyncClient(base_url=proxy.url, timeout=PATIENCE_S, verify=trusted)
    async with connection as client, asyncio.timeout(PATIENCE_S):
        while not await answers(client):
            await asyncio.sleep(0.05)
        yield client


async def answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/odds")).status_code == 418
    except httpx.ConnectError:
        return False


async def test_an_event_arrives_while_the_stream_goes_on(upstream: Upstream, browser: httpx.AsyncClient) -> None:
    async with browser.stream("GET", "/events") as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        lines = stream.aiter_lines()
        assert await anext(lines) == "data: first"
        upstream.go_on.set()
        assert [line async for line in lines if line] == ["data: last"]


async def test_many_streams_keep_nobody_waiting(upstream: Upstream, browser: httpx.AsyncClient) -> None:
    async def follow() -> str:
        async with browser.stream("GET", "/events") as stream:
            return "".join([line async for line in stream.aiter_lines()])

    following = [asyncio.ensure_future(follow()) for _ in range(40)]
    await asyncio.sleep(0)
    assert (await browser.get("/odds")).status_code == 418
    upstream.go_on.set()
    assert set(await asyncio.gather(*following)) == {"data: firstdata: last"}


async def test_a_large_answer_comes_through_whole(browser: httpx.AsyncClient) -> None:
    received = 0
    async with browser.stream("GET", "/large") as stream:
        assert stream.headers["Content-Length"] == str(LARGE)
        async for piece in stream.aiter_raw():
            received += len(piece)
    assert received == LARGE


async def test_a_large_project_comes_through_whole(browser: httpx.AsyncClient) -> None:
    assert (await browser.put("/size", content=bytes(LARGE))).text == str(LARGE)


async def test_a_slow_reader_is_not_run_over_and_one_who_leaves_is_noticed_and_no_error(
    proxy: Proxy, upstream: Upstream, browser: httpx.AsyncClient
) -> None:
    async with browser.stream("GET", "/endless") as stream:
        await anext(stream.aiter_raw())
        before = -1
        while upstream.sent != before:
            before = upstream.sent
            await asyncio.sleep(0.5)
        assert before < LARGE
    await asyncio.wait_for(upstream.gone.wait(), PATIENCE_S)
    assert (await browser.get("/odds")).status_code == 418
    assert "Traceback" not in proxy.log.read_text()


async def test_status_cookies_and_encoding_pass_through_untouched(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/odds")
    assert (answer.status_code, answer.reason_phrase) == (418, "Short and stout")
    assert answer.headers.get_list("Set-Cookie") == ["a=1", "b=2"]
    assert answer.headers["Content-Type"] == "text/x-odd"
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.content == b"tea"
    assert (await browser.get("/known", headers={"If-None-Match": '"known"'})).status_code == 304
    assert (await browser.get("/nowhere")).status_code == 404


async def test_what_proxies_before_it_have_said_of_the_browser_is_kept(browser: httpx.AsyncClient) -> None:
    said = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7", "X-Forwarded-Host": "hub.example.org"}
    port = browser.base_url.port
    seen = (await browser.get("/odds", headers=said)).headers
    assert {name: seen[f"Seen-{name}"] for name in ("Proto", "For", "Host", "Port")} == {
        "Proto": "https,http",
        "For": "192.0.2.7,127.0.0.1",
        "Host": "hub.example.org",
        "Port": str(port),
    }
    plain = (await browser.get("/odds")).headers
    assert [plain["Seen-Proto"], plain["Seen-For"]] == ["http", "127.0.0.1"]


async def test_a_path_that_is_no_text_is_for_the_target_to_judge(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/path/%ff")
    assert (answer.status_code, answer.text) == (404, "no /path/%ff")


async def test_other_methods_pass_through(browser: httpx.AsyncClient) -> None:
    head = await browser.head("/odds")
    assert (head.headers["Content-Length"], head.content) == ("12345", b"")
    assert (await browser.post("/odds", content=b"abc")).content == b"cba"
    assert (await browser.delete("/odds")).status_code == 204


async def test_a_torn_answer_is_not_taken_for_a_whole_one(browser: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await browser.get("/torn")
    assert (await browser.get("/odds")).status_code == 418


@pytest.mark.parametrize(
    ("asked", "answered"),
    [(["v1.kernel.example", "v0.kernel.example"], "v1.kernel.example"), (["other"], None), (None, None)],
)
async def test_a_websocket_gets_the_subprotocol_that_the_target_chose(
    browser: httpx.AsyncClient, asked: list[str] | None, answered: str | None
) -> None:
    url = str(browser.base_url.join("/echo")).replace("http", "ws", 1)
    socket = await websocket_connect(url, subprotocols=asked)
    assert socket.selected_subprotocol == answered
    await socket.write_message("text")
    assert await socket.read_message() == f"{answered}, str"
    await socket.write_message(b"\xff\x00", binary=True)
    assert await socket.read_message() == f"{answered}, bytes"
    socket.close()


@pytest.mark.parametrize("path", ["/leaves", "/talks"])
async def test_an_end_of_a_websocket_that_leaves_is_no_error(
    proxy: Proxy, upstream: Upstream, browser: httpx.AsyncClient, path: str
) -> None:
    socket = await websocket_connect(str(browser.base_url.join(path)).replace("http", "ws", 1))
    if path == "/leaves":
        with suppress(WebSocketClosedError):
            for _ in range(1000):
                await socket.write_message("more")
        while await asyncio.wait_for(socket.read_message(), PATIENCE_S) is not None:
            pass
    else:
        await socket.read_message()
        socket.protocol.stream.close()
        await asyncio.wait_for(upstream.gone.wait(), PATIENCE_S)
    assert (await browser.get("/odds")).status_code == 418
    assert "Traceback" not in proxy.log.read_text()


class TestTLS:
    """The same by HTTPS, with a certificate of the admin's."""

    @classmethod
    @pytest.fixture(scope="class")
    def proxy(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
        with running(tmp_path_factory.mktemp("proxy"), tls=True) as proxy:
            yield proxy

    async def test_an_event_arrives_while_the_stream_goes_on(
        self, upstream: Upstream, browser: httpx.AsyncClient
    ) -> None:
        async with browser.stream("GET", "/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "data: first"
            upstream.go_on.set()
            assert "data: last" in [line async for line in lines]

    async def test_a_websocket_and_a_large_answer_come_through(
        self, proxy: Proxy, browser: httpx.AsyncClient
    ) -> None:
        request = HTTPRequest(
            str(browser.base_url.join("/echo")).replace("http", "ws", 1), ca_certs=str(proxy.certificate)
        )
        socket = await websocket_connect(request, subprotocols=["v1.kernel.example"])
        await socket.write_message("text")
        assert await socket.read_message() == "v1.kernel.example, str"
        socket.close()
        assert len((await browser.get("/large")).content) == LARGE

    async def test_the_target_knows_the_protocol_of_the_browser(self, browser: httpx.AsyncClient) -> None:
        seen = (await browser.get("/odds", headers={"Host": "hub.example.org"})).headers
        assert [seen[f"Seen-{name}"] for name in ("Proto", "Port", "Host")] == ["https", "443", "hub.example.org"]

    async def test_plain_http_is_not_served(self, proxy: Proxy, browser: httpx.AsyncClient) -> None:
        assert await answers(browser)
        async with httpx.AsyncClient() as plain:
            with pytest.raises(httpx.HTTPError):
                await plain.get(proxy.url.replace("https", "http") + "/odds")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ssl-key", "key.pem"], "c.JupyterHub.ssl_key has no certificate: set c.JupyterHub.ssl_cert, too."),
        (["--ssl-cert", "none.pem"], "in none.pem cannot be used: No such file or directory."),
        (["--ssl-cert", "text.pem", "--ssl-key", "text.pem"], "in text.pem and text.pem cannot be used: "),
        (["--client-ssl-key", "key.pem"], "Without c.JupyterHub.internal_ssl the hub does not ask for it"),
    ],
)
def test_tls_that_cannot_be_is_refused_with_a_sentence(tmp_path: Path, options: list[str], said: str) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    ended = subprocess.run(
        [*COMMAND, *options], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("springtide: ")
    assert said in ended.stderr.splitlines()[-1]
