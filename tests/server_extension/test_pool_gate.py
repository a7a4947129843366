"""Answers that a notebook server takes from an address that is no pool, and requests that it sends there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from springtide.widgets.server_extension import pool_gate
from springtide.widgets.server_extension.allowed import Target
from springtide.widgets.server_extension.pool_gate import OCTETS, GateError, PoolGate


class Impostor:
    """An HTTP server that answers as a test wants, and remembers what it was asked."""

    def __init__(self) -> None:
        impostor = self
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.status, self.headers, self.body = 200, {"Content-Type": "application/json"}, b"{}"
        self.breaks_off = False

        class Handler(RequestHandler):
            def get(self) -> None:
                impostor.asked.append((str(self.request.uri), dict(self.request.headers)))
                self.set_status(impostor.status)
                for name, value in impostor.headers.items():
                    self.set_header(name, value)
                if impostor.breaks_off:
                    self.set_header("Content-Length", str(2 * len(impostor.body)))
                    self.write(impostor.body)
                    self.flush()
                    self.detach().close()
                else:
                    self.finish(impostor.body)

            post = get

        self._server = HTTPServer(Application([(r".*", Handler)]))
        sockets = bind_sockets(0, "127.0.0.1")
        self._server.add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/services/springtide"

    async def stop(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()


@pytest.fixture
async def impostor() -> AsyncIterator[Impostor]:
    impostor = Impostor()
    yield impostor
    await impostor.stop()


@pytest.fixture
async def gate(impostor: Impostor) -> AsyncIterator[PoolGate]:
    gate = PoolGate(impostor.url, "secret")
    yield gate
    await gate.close()


def refusal(caught: Any) -> tuple[int, str]:
    return caught.value.problem.status, caught.value.problem.code


async def test_the_pool_gets_the_servers_token_and_nothing_else_of_the_page(
    impostor: Impostor, gate: PoolGate
) -> None:
    impostor.headers["Set-Cookie"] = "session=stolen; Path=/"
    await gate.ask(Target("GET", "me"))
    assert await gate.ask(Target("GET", "jobs?mine=1")) == (200, b"{}")
    assert [path for path, _ in impostor.asked] == [
        "/services/springtide/api/v1/me",
        "/services/springtide/api/v1/jobs?mine=1",
    ]
    for _, headers in impostor.asked:
        assert headers["Authorization"] == "token secret"
        assert headers.keys() <= {"Authorization", "Accept", "User-Agent", "Host", "Accept-Encoding", "Connection"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(impostor: Impostor, gate: PoolGate, status: int) -> None:
    impostor.status, impostor.headers["Location"] = status, "http://127.0.0.1:1/elsewhere"
    with pytest.raises(GateError) as caught:
        await gate.ask(Target("GET", "me"))
    assert refusal(caught) == (502, "bad_answer")
    with pytest.raises(GateError) as caught:
        async with gate.events("", None):
            pass
    assert refusal(caught) == (502, "bad_answer")
    assert len(impostor.asked) == 2


@pytest.mark.parametrize("status", [302, 403])
async def test_the_hub_that_answers_in_the_services_place_is_a_pool_that_is_away(
    impostor: Impostor, gate: PoolGate, status: int
) -> None:
    impostor.status, impostor.headers["X-JupyterHub-Version"] = status, "5.4.0"
    with pytest.raises(GateError) as caught:
        await gate.ask(Target("GET", "me"))
    assert refusal(caught) == (503, "unreachable")
    assert caught.value.problem.message == "The pool does not answer. Running jobs continue."
    with pytest.raises(GateError) as caught:
        async with gate.events("", None):
            pass
    assert refusal(caught) == (503, "unreachable")


@pytest.mark.parametrize("body", [b"<script>alert(1)</script>", b"", b"\xff\xfe"])
async def test_what_is_not_json_is_not_passed_on(impostor: Impostor, gate: PoolGate, body: bytes) -> None:
    impostor.headers["Content-Type"], impostor.body = "text/html", body
    with pytest.raises(GateError) as caught:
        await gate.ask(Target("GET", "me"))
    assert refusal(caught) == (502, "bad_answer")


async def test_an_answer_is_bounded(impostor: Impostor, gate: PoolGate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_gate, "MAX_ANSWER", 1000)
    impostor.body = b'"' + b"x" * 2000 + b'"'
    with pytest.raises(GateError) as caught:
        await gate.ask(Target("GET", "me"))
    assert refusal(caught) == (502, "bad_answer")


async def test_a_stream_that_is_none_is_not_passed_on(impostor: Impostor, gate: PoolGate) -> None:
    with pytest.raises(GateError):
        async with gate.events("", None):
            pass


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/html"}, {"Content-Type": OCTETS, "Content-Encoding": "gzip"}],
    ids=["a page", "packed"],
)
async def test_a_file_that_is_none_is_not_passed_on(
    impostor: Impostor, gate: PoolGate, headers: dict[str, str]
) -> None:
    impostor.headers, impostor.body = headers, b"<script>alert(1)</script>"
    with pytest.raises(GateError) as caught:
        async with gate.file(Target("GET", "jobs/x/output/y")):
            pass
    assert refusal(caught) == (502, "bad_answer")


async def test_a_file_that_breaks_off_is_an_error(impostor: Impostor, gate: PoolGate) -> None:
    impostor.headers, impostor.body, impostor.breaks_off = {"Content-Type": OCTETS}, b"half", True

    async def read() -> None:
        async with gate.file(Target("GET", "jobs/x/output/y")) as file:
            assert file.size == 8
            assert [piece async for piece in file.pieces] != [], "the first half comes"

    with pytest.raises(GateError) as caught:
        await read()
    assert refusal(caught) == (503, "unreachable")


async def test_a_pool_that_does_not_answer_is_an_error_in_words(impostor: Impostor, gate: PoolGate) -> None:
    await impostor.stop()
    with pytest.raises(GateError) as caught:
        await gate.ask(Target("GET", "me"))
    assert refusal(caught) == (503, "unreachable")
    assert caught.value.problem.message.startswith("The pool does not answer")


async def test_when_a_refused_stream_may_be_asked_for_again_is_passed_on(
    impostor: Impostor, gate: PoolGate
) -> None:
    impostor.status, impostor.headers["Retry-After"] = 429, "30"
    impostor.body = b'{"status": 429, "code": "too_many_streams", "message": "Too many."}'
    with pytest.raises(GateError) as caught:
        async with gate.events("", None):
            pass
    assert refusal(caught) == (429, "too_many_streams")
    assert caught.value.retry_after == "30"
