"""What callers do when the pool says that there are too many requests: 429, with the time to wait."""

from __future__ import annotations

import json
import threading
import time

import msgspec
import pytest
from programs.terminal import springtide

from springtide.scheduler import wire
from springtide.scheduler.client import Client, PoolError
from springtide.widgets import pool as shared_pool

JOB = wire.Job(
    id="j1", name="a", kind="command", user="susan", project="vision", state="queued", submitted=1.0,
    argv=["true"],
)  # fmt: skip
ME = wire.Me(
    name="susan", admin=False, service=False, projects=[], priorities={}, gpu_types=[], simulated=False,
    build_quota=0, build_held=0, max_body=1 << 20, grace=1.0, version="1",
)  # fmt: skip
BUSY = json.dumps(
    {"status": 429, "code": "pool_busy", "message": "Too many.", "hint": "Try again in 1 s."}
).encode()


@pytest.fixture
def busy_once(peers):
    """Starts a pool that is busy at the first submission and accepts the second, after the answers ``before``."""

    def busy_once(*before: wire.Me):
        first = [peers.answer(200, msgspec.json.encode(answer)) for answer in before]
        busy, accepted = peers.answer(429, BUSY, "Retry-After: 1"), peers.answer(201, msgspec.json.encode(JOB))
        return peers.start(*first, busy, accepted)

    return busy_once


def keys(server) -> list[str]:
    bodies = [request.partition(b"\r\n\r\n")[2] for request in server.requests]
    return [json.loads(body)["key"] for body in bodies if body]


def submit_as_client(server):
    with Client(server.url, "t") as client:
        return client.submit(wire.Submission(argv=["true"])).id


def submit_in_a_terminal(server):
    done = springtide("submit", "--json", "--in-place", "--", "true", env={"SPRINGTIDE_URL": server.url})
    return done.json["id"]


@pytest.mark.parametrize(("submit", "before"), [(submit_as_client, ()), (submit_in_a_terminal, (ME,))])
def test_a_caller_that_is_too_fast_waits_as_long_as_the_pool_says(busy_once, submit, before):
    server = busy_once(*before)
    began = time.monotonic()
    assert submit(server) == JOB.id
    assert time.monotonic() - began > 1
    first, second = keys(server)
    assert first == second != ""


def test_a_notebook_that_is_too_fast_waits_as_long_as_the_pool_says(busy_once, monkeypatch):
    server = busy_once(ME)
    monkeypatch.setenv("SPRINGTIDE_URL", server.url)
    began = time.monotonic()
    assert shared_pool.submit("true", in_place=True).id == JOB.id
    assert time.monotonic() - began > 1
    first, second = keys(server)
    assert first == second != ""


def test_forks_from_many_threads_come_back_until_it_is_their_turn(peers):
    busy = peers.answer(429, BUSY, "Retry-After: 0")
    server = peers.start(*[busy] * 6, peers.answer(201, msgspec.json.encode(JOB)))
    with Client(server.url, "t") as client:
        assert client.fork("j0", step=3).id == JOB.id
    assert len(server.requests) == 7
    assert len(set(keys(server))) == 1


def test_a_refusal_that_does_not_say_when_to_come_back_is_final_after_a_few_tries(peers):
    server = peers.start(*[peers.answer(429, BUSY)] * 6)
    with Client(server.url, "t") as client, pytest.raises(PoolError, match="Too many"):
        client.fork("j0", step=3)
    assert len(server.requests) == 4


def test_a_stream_that_is_one_too_many_is_asked_for_again_when_the_pool_says(peers):
    event = b'event: job\ndata: {"id": "x"}\n\n'
    server = peers.start(peers.answer(429, BUSY, "Retry-After: 7"), peers.stream(event))

    class Stop(threading.Event):
        waited: list[float] = []  # noqa: RUF012

        def wait(self, timeout=None):
            self.waited.append(timeout)
            return False

    stop = Stop()
    with Client(server.url, "t") as client:
        assert next(iter(client.events(stop=stop))).data == {"id": "x"}
    assert len(server.requests) == 2
    assert [7 < each < 8 for each in stop.waited] == [True]
