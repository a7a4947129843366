from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import msgspec
import pytest
from patience import PATIENCE_S

from springtide.scheduler import wire
from springtide.scheduler.client import Client, PoolError, Unreachable, stream

JOB = wire.Job(
    id="j1", name="a", kind="command", user="susan", project="vision", state="queued", submitted=1.0,
    argv=["true"],
)  # fmt: skip
JOB_BODY = msgspec.json.encode(JOB)


def problem(status: int, **fields: object) -> bytes:
    return json.dumps({"status": status, "code": "no", "message": "It is not so.", **fields}).encode()


def test_a_lost_answer_to_a_submission_is_asked_for_again_with_the_same_key(peers):
    server = peers.start(None, peers.answer(201, JOB_BODY))
    with Client(server.url, "t") as client:
        assert client.submit(wire.Submission(argv=["true"])) == JOB
    keys = [json.loads(request.partition(b"\r\n\r\n")[2])["key"] for request in server.requests]
    assert len(keys) == 2
    assert keys[0] == keys[1] != ""


def test_two_submissions_have_different_keys(peers):
    server = peers.start(peers.answer(201, JOB_BODY), peers.answer(201, JOB_BODY))
    with Client(server.url, "t") as client:
        client.submit(wire.Submission(argv=["true"]))
        client.submit(wire.Submission(argv=["true"]))
    first, second = (json.loads(request.partition(b"\r\n\r\n")[2])["key"] for request in server.requests)
    assert first != second


def test_a_key_of_the_callers_own_is_kept(peers):
    server = peers.start(peers.answer(201, JOB_BODY))
    with Client(server.url, "t") as client:
        client.submit(wire.Submission(argv=["true"], key="mine"))
    assert b'"key":"mine"' in server.requests[0]


def test_reading_is_tried_again_while_the_proxy_says_that_the_service_is_away(peers):
    server = peers.start(peers.answer(503, b"<html>"), None, peers.answer(200, JOB_BODY))
    with Client(server.url, "t") as client:
        assert client.job("j1") == JOB
    assert len(server.requests) == 3


def test_who_is_patient_outlives_a_restart_of_the_service(peers):
    away = [None, peers.answer(503, b"<html>")] * 3
    server = peers.start(*away, peers.answer(201, JOB_BODY))
    with Client(server.url, "t", patience=30) as client:
        assert client.submit(wire.Submission(argv=["true"])) == JOB
    assert len(server.requests) == len(away) + 1


def of_the_hub(status: int, **headers: str) -> bytes:
    """An answer of the hub, which has the paths of a service until that is registered."""
    fields = {"X-JupyterHub-Version": "5.4.0", "Content-Length": "6", "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status} It", *(f"{name}: {value}" for name, value in fields.items()), "", "<html>"]
    return "\r\n".join(lines).encode()


def test_the_hubs_redirect_is_waited_for_as_a_service_that_is_away(peers):
    redirect = of_the_hub(302, Location="/hub/services/springtide/api/v1/jobs/j1")
    server = peers.start(*[redirect] * 6, peers.answer(200, JOB_BODY))
    with Client(server.url, "t", patience=30) as client:
        assert client.job("j1") == JOB
    assert len(server.requests) == 7


@pytest.mark.parametrize("status", [403, 405])
def test_a_submission_that_the_hub_refuses_in_the_services_place_is_sent_again(peers, status):
    server = peers.start(of_the_hub(status), peers.answer(201, JOB_BODY))
    with Client(server.url, "t") as client:
        assert client.submit(wire.Submission(argv=["true"])) == JOB
    assert len(server.requests) == 2


WITHOUT_ROUTE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: close\r\n\r\nNot Found"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_proxy_without_a_route_is_waited_for_while_the_service_starts(peers, method):
    answer = peers.answer(200 if method == "GET" else 201, JOB_BODY)
    server = peers.start(*[WITHOUT_ROUTE] * 6, answer)
    with Client(server.url, "t", patience=30) as client:
        found = client.job("j1") if method == "GET" else client.submit(wire.Submission(argv=["true"]))
    assert found == JOB
    assert len(server.requests) == 7


def test_an_address_without_a_pool_is_said_as_one_that_starts_or_is_another(peers):
    server = peers.start(*[WITHOUT_ROUTE] * 8)
    said = "does not answer \\(it starts, or SPRINGTIDE_URL names another address\\)"
    with Client(server.url, "t") as client, pytest.raises(Unreachable, match=said):
        client.job("j1")


def test_a_hub_that_never_has_the_service_is_said(peers):
    server = peers.start(*[of_the_hub(302, Location="/hub/x")] * 8)
    with (
        Client(server.url, "t") as client,
        pytest.raises(Unreachable, match="the hub answers in the service's place"),
    ):
        client.job("j1")


def test_who_is_not_hears_soon_that_nobody_answers(peers):
    server = peers.start(*[None] * 6, peers.answer(201, JOB_BODY))
    with Client(server.url, "t") as client, pytest.raises(Unreachable):
        client.submit(wire.Submission(argv=["true"]))
    assert len(server.requests) == 4


def test_patience_is_no_reason_to_repeat_what_was_refused(peers):
    server = peers.start(peers.answer(429, b"{}"), *[peers.answer(500, b"{}")] * 2)
    with Client(server.url, "t", patience=30) as client, pytest.raises(PoolError):
        client.submit(wire.Submission(argv=["true"]))
    assert len(server.requests) == 2


@pytest.mark.parametrize("call", ["pause", "resume", "cancel"])
def test_what_a_job_is_asked_is_asked_again_while_nobody_answers(peers, call):
    server = peers.start(None, peers.answer(200, JOB_BODY))
    with Client(server.url, "t") as client:
        assert getattr(client, call)("j1") == JOB
    first, second = (request.partition(b" HTTP")[0] for request in server.requests)
    assert first == second
    assert first.endswith(f"/jobs/j1/{call}".encode())


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.undo(1),
        lambda client: client.create_project("vision", wire.ProjectEdit()),
        lambda client: client.delete_project("vision"),
        lambda client: client.edit_person("susan", wire.PersonEdit(build_quota=1)),
        lambda client: client.reserve_workspace(wire.WorkspaceRequest(user="susan", gpus=1)),
        lambda client: client.release_workspace("susan"),
    ],
    ids=["undo", "create", "delete", "edit", "reserve", "release"],
)
def test_what_is_not_safe_to_repeat_or_repeated_by_the_caller_is_sent_once(peers, call):
    server = peers.start(None, peers.answer(204, b""))
    with Client(server.url, "t", patience=30) as client, pytest.raises(Unreachable):
        call(client)
    assert len(server.requests) == 1


def test_a_refusal_is_shown_in_the_pools_words_with_the_way_out(peers):
    server = peers.start(peers.answer(422, problem(422, field="gpus", hint="Ask for 8.")))
    with Client(server.url, "t") as client, pytest.raises(PoolError) as caught:
        client.submit(wire.Submission(argv=["true"]))
    assert str(caught.value) == "It is not so. Ask for 8."
    assert caught.value.problem.field == "gpus"
    assert caught.value.status == 422


def test_a_caller_that_would_have_to_wait_long_is_told(peers):
    server = peers.start(peers.answer(429, problem(429), "Retry-After: 3600"))
    with Client(server.url, "t") as client, pytest.raises(PoolError) as caught:
        client.me()
    assert caught.value.status == 429


@pytest.mark.parametrize(
    ("status", "body"),
    [(403, b"<html>403</html>"), (302, b""), (500, b"\xff\xfe"), (299, b"not json"), (418, b'{"status": 1}')],
)
def test_what_another_server_says_is_no_traceback(peers, status, body):
    server = peers.start(peers.answer(status, body))
    with Client(server.url, "t") as client, pytest.raises(PoolError, match="SPRINGTIDE_URL"):
        client.me()


def test_nobody_at_the_address_is_said_plainly(peers):
    server = peers.start()
    server.close()
    with Client(server.url, "t") as client, pytest.raises(Unreachable, match="does not answer"):
        client.pause("j1")


def test_without_an_address_the_caller_is_told_which_variable_is_missing(monkeypatch):
    monkeypatch.delenv("SPRINGTIDE_URL", raising=False)
    with pytest.raises(Unreachable, match="SPRINGTIDE_URL is not set"):
        Client()


def test_address_and_token_come_from_the_environment(peers, monkeypatch):
    server = peers.start(peers.answer(200, JOB_BODY))
    monkeypatch.setenv("SPRINGTIDE_URL", server.url + "/")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    with Client() as client:
        client.job("j1")
    assert server.requests[0].startswith(b"GET /services/springtide/api/v1/jobs/j1 HTTP/1.1\r\n")
    assert b"Authorization: token secret\r\n" in server.requests[0]


def test_a_proxy_of_the_environment_is_not_used_for_this_machine(peers, monkeypatch):
    server = peers.start(peers.answer(200, JOB_BODY))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Client(server.url, "t") as client:
        assert client.job("j1") == JOB


def test_names_cannot_change_the_address(peers):
    server = peers.start(peers.answer(200, JOB_BODY), peers.answer(204, b""))
    with Client(server.url, "t") as client:
        client.job("../me?x=1#y")
        client.add_member("a b", "../../x")
    assert b"/api/v1/jobs/..%2Fme%3Fx%3D1%23y HTTP" in server.requests[0]
    assert b"/api/v1/projects/a%20b/members/..%2F..%2Fx HTTP" in server.requests[1]


def test_pages_are_followed_to_the_end(peers):
    one = msgspec.json.encode(wire.JobPage(items=[JOB], next="c1"))
    two = msgspec.json.encode(wire.JobPage(items=[JOB, JOB], next=None))
    server = peers.start(peers.answer(200, one), peers.answer(200, two))
    with Client(server.url, "t") as client:
        assert len(list(client.all_jobs(mine=True))) == 3
    assert b"jobs?mine=1&limit=200 HTTP" in server.requests[0]
    assert b"cursor=c1" in server.requests[1]


def test_a_limit_beyond_a_page_takes_several_requests(peers):
    one = msgspec.json.encode(wire.JobPage(items=[JOB] * 200, next="c1"))
    two = msgspec.json.encode(wire.JobPage(items=[JOB] * 100, next="c2"))
    server = peers.start(peers.answer(200, one), peers.answer(200, two))
    with Client(server.url, "t") as client:
        page = client.jobs(limit=300)
    assert (len(page.items), page.next) == (300, "c2")
    assert b"jobs?limit=200 HTTP" in server.requests[0]
    assert b"jobs?cursor=c1&limit=100 HTTP" in server.requests[1]


def test_events_go_on_after_a_break_from_the_last_one(peers):
    first = peers.stream(b"retry: 10\n\n:\n\n", b'id: 7\nevent: job\ndata: {"id":"a"}\n\n', b"id: 8\nevent: jo")
    second = peers.stream(b'event: log\ndata: {"job":"a"}\n\nid: 9\nevent: job\r\ndata: {"id":"b"}\r\n\r\n')
    server = peers.start(first, None, second)
    with Client(server.url, "t") as client:
        events: Any = client.events()
        got = [next(events) for _ in range(3)]
        events.close()
    assert [(event.id, event.kind, event.data) for event in got] == [
        (7, "job", {"id": "a"}),
        (None, "log", {"job": "a"}),
        (9, "job", {"id": "b"}),
    ]
    assert b"Last-Event-ID" not in server.requests[0]
    assert b"Last-Event-ID: 7\r\n" in server.requests[2]


def test_a_break_before_the_first_event_with_an_id_says_that_events_may_have_been_missed(peers):
    """The pool's own events have no id: what is recorded during the break would reach nobody."""
    pool = peers.stream(b'event: pool\ndata: {"gpus":8}\n\n')
    server = peers.start(None, pool, pool, peers.stream(b'id: 9\nevent: job\ndata: {"id":"b"}\n\n'))
    with Client(server.url, "t") as client:
        events: Any = client.events()
        got = [next(events) for _ in range(5)]
        events.close()
    assert [event.kind for event in got] == ["pool", "refetch", "pool", "refetch", "job"]


def test_line_separators_of_unicode_do_not_break_an_event(peers):
    data = {"name": "a\u2028b\x85c"}
    server = peers.start(peers.stream(b"id: 1\nevent: job\ndata: " + msgspec.json.encode(data) + b"\n\n"))
    with Client(server.url, "t") as client:
        assert next(client.events()).data == data


@pytest.mark.parametrize(
    "broken",
    [b"event: job\ndata: " + b"x" * 5000, b"event: job\ndata: not json\n\n", b"event: job\ndata: [1]\n\n"],
    ids=["endless", "not JSON", "not an object"],
)
def test_what_is_no_event_of_the_pool_counts_as_a_lost_connection(peers, monkeypatch, broken):
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 4096)
    good = peers.stream(b'id: 8\nevent: job\ndata: {"id":"a"}\n\n')
    server = peers.start(peers.stream(b'id: 7\nevent: job\ndata: {"id":"a"}\n\n', broken), good)
    with Client(server.url, "t") as client:
        events: Any = client.events()
        assert [next(events).id, next(events).id] == [7, 8]
        events.close()
    assert b"Last-Event-ID: 7\r\n" in server.requests[1]


def test_many_small_events_in_one_piece_are_no_large_event(peers, monkeypatch):
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 4096)
    sent = [b'id: %d\nevent: job\ndata: {"id":"a"}\n\n' % number for number in range(1, 501)]
    server = peers.start(peers.stream(*sent))
    with Client(server.url, "t") as client:
        events: Any = client.events()
        assert [next(events).id for _ in sent] == list(range(1, 501))
        events.close()


def test_a_heartbeat_is_no_event_and_ends_a_stream_that_is_stopped(peers):
    server = peers.start(peers.stream(b'id: 7\nevent: job\ndata: {"id":"a"}\n\n', b":\n\n" * 10))
    stop = threading.Event()
    with Client(server.url, "t") as client:
        events = client.events(stop=stop)
        assert next(events).id == 7
        stop.set()
        assert list(events) == []
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_stream_that_is_refused_for_good_ends_with_the_reason(peers, status):
    server = peers.start(peers.answer(status, problem(status)))
    with Client(server.url, "t") as client, pytest.raises(PoolError) as caught:
        next(client.events(job="x"))
    assert caught.value.status == status


def test_following_can_be_stopped_from_another_thread(peers):
    server = peers.start()
    server.close()
    stop = threading.Event()
    with Client(server.url, "t") as client:
        seen: list[wire.Event] = []
        thread = threading.Thread(target=lambda: seen.extend(client.events(stop=stop)))
        thread.start()
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert seen == []


def test_one_client_serves_many_threads(peers):
    server = peers.start(*[peers.answer(200, JOB_BODY)] * 16)
    got: list[wire.Job] = []
    with Client(server.url, "t") as client:
        threads = [threading.Thread(target=lambda: got.append(client.job("j1"))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert got == [JOB] * 16


def test_importing_the_client_loads_neither_the_hub_nor_the_scheduler():
    code = (
        "import sys, springtide.scheduler.client\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('tornado', 'jupyterhub', 'sqlalchemy', 'traitlets')"
        " or m.startswith(('springtide.hub', 'springtide.scheduler.engine', 'springtide.scheduler.policy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
