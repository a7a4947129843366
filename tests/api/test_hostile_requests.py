from __future__ import annotations

import asyncio
import json
import select
import socket
from urllib.parse import urlsplit

import pytest
from patience import PATIENCE_S

from springtide.scheduler import wire


def is_problem(answer, status):
    problem = json.loads(answer.content)
    assert answer.status_code == problem["status"] == status
    assert set(problem) == set(wire.Problem.__struct_fields__)
    assert problem["code"]
    assert problem["message"]
    assert answer.headers["Content-Type"] == "application/json"
    return problem


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/nothing", "/jobs/a/b/c", "/jobs/", "/../../etc/passwd", "/pool%00", "/people"])
async def test_an_unknown_address_is_a_problem_in_json(shared, path):
    is_problem(await shared.as_("susan").get(path), 404)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/jobs", "GET, POST"),
        ("PUT", "/pool", "GET"),
        ("HEAD", "/me", "GET, PATCH"),
        ("POST", "/events", "GET"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(shared, method, path, allow):
    answer = await shared.as_("susan").request(method, path)
    assert answer.headers["Allow"] == allow
    if method != "HEAD":
        is_problem(answer, 405)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "media", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json"]
)
async def test_a_body_has_to_be_declared_as_json(shared, media):
    headers = {"Content-Type": media} if media else {}
    answer = await shared.as_("susan").post("/jobs", content=b'{"argv": ["true"]}', headers=headers)
    is_problem(answer, 415)
    assert (await shared.as_("susan").get("/jobs")).json()["items"] == []


async def test_a_packed_body_is_refused(running):
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    is_problem(await running.as_("susan").post("/jobs", content=b"\x1f\x8b", headers=headers), 415)


@pytest.mark.parametrize("charset", ["application/json; charset=utf-8", "Application/JSON"])
async def test_json_may_be_declared_in_every_usual_way(running, charset):
    headers = {"Content-Type": charset}
    answer = await running.as_("susan").post("/jobs", content=b'{"argv": ["true"]}', headers=headers)
    assert answer.status_code == 201


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "gpus",
    ["-1", "2.0", "2.5", "true", "NaN", "1e309", "-Infinity", '"4"', "null", "999999999999999999999", "7"],
)
async def test_a_wrong_number_of_gpus_changes_nothing(shared, gpus):
    susan = shared.as_("susan", **{"Content-Type": "application/json"})
    problem = is_problem(await susan.post("/jobs", content=f'{{"argv": ["true"], "gpus": {gpus}}}'), 422)
    assert problem["field"] == "gpus"
    assert (await susan.get("/jobs")).json()["items"] == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "path", ["/me", "/pool", "/jobs", "/events", "/admin", "/audit", "/metrics?x=1", "/history"]
)
async def test_without_a_token_there_is_nothing_to_see(shared, path):
    headers = {"X-Forwarded-For": "192.0.2.1"}
    problem = is_problem(await shared.as_(None, **headers).get(path), 401)
    assert "Authorization" in problem["hint"]


async def test_a_wrong_token_is_told_so(running):
    answer = await running.as_("nobody").get("/me")
    is_problem(answer, 401)
    assert answer.headers["WWW-Authenticate"] == "token"


ADMIN_CALLS = [
    ("GET", "/admin", None),
    ("PUT", "/projects/new", {}),
    ("PATCH", "/projects/vision", {"quota": 4}),
    ("DELETE", "/projects/vision", None),
    ("PUT", "/projects/vision/members/jemma", None),
    ("DELETE", "/projects/vision/members/joe", None),
    ("PATCH", "/people/susan", {"build_quota": 2}),
    ("GET", "/audit", None),
    ("POST", "/audit/1/undo", None),
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["susan", "bot", "springtide"])
@pytest.mark.parametrize(("method", "path", "body"), ADMIN_CALLS)
async def test_administration_is_for_administrators(shared, name, method, path, body):
    before = (await shared.as_("admin").get("/admin")).json()
    is_problem(await shared.as_(name).request(method, path, json=body), 403)
    assert (await shared.as_("admin").get("/admin")).json() == before


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["susan", "admin", "bot"])
async def test_build_gpus_are_reserved_by_the_spawner_only(shared, name):
    client = shared.as_(name)
    is_problem(await client.post("/workspaces", json={"user": name, "gpus": 1}), 403)
    is_problem(await client.delete(f"/workspaces/{name}"), 403)


async def test_a_body_over_the_cap_is_refused_in_words(start):
    running = await start(max_body=100_000)
    susan = running.as_("susan")
    answer = await susan.post("/jobs", json={"argv": ["true"], "source": "x" * 150_000})
    problem = is_problem(answer, 413)
    assert "100000 bytes" in problem["message"]
    assert "files" in problem["hint"]
    assert (await susan.get("/me")).json()["max_body"] == 100_000


async def test_a_body_without_a_length_is_capped_too(start):
    running = await start(max_body=100_000)

    async def pieces():
        for _ in range(15):
            yield b" " * 10_000

    headers = {"Content-Type": "application/json"}
    is_problem(await running.as_("susan").post("/jobs", content=pieces(), headers=headers), 413)


@pytest.mark.parametrize("length", ["Content-Length: 10000000000", "Transfer-Encoding: chunked"])
async def test_an_endless_body_is_answered_without_being_read(start, length):
    running = await start(max_body=100_000)
    sent, answer = await asyncio.to_thread(send_for_ever, running.url, length)
    assert b" 413 " in answer
    assert b"100000 bytes" in answer
    assert sent < 20 << 20


def send_for_ever(url, length):
    """The size taken of a body without an end, and the answer."""
    address = urlsplit(url)
    piece = b" " * 8192
    if "chunked" in length:
        piece = b"2000\r\n" + piece + b"\r\n"
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as connection:
        head = f"POST {address.path}api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: token susan\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\n{length}\r\n\r\n".encode())
        sent = 0
        try:
            while sent < 100 << 20 and not select.select([connection], [], [], 0)[0]:
                connection.sendall(piece)
                sent += len(piece)
        except ConnectionError:
            pass
        return sent, connection.recv(65536)


async def test_a_stranger_cannot_make_the_service_keep_a_large_body(start):
    running = await start(max_body=100_000)
    headers = {"Content-Type": "application/json"}
    answer = await running.as_("nobody").post("/jobs", content=b" " * 90_000, headers=headers)
    is_problem(answer, 401)


async def test_an_unforeseen_error_shows_nothing_of_the_inside(running, monkeypatch, caplog):
    def broken():
        raise RuntimeError("secret inside")

    monkeypatch.setattr(type(running.pool.engine), "pool", lambda _engine: broken())
    answer = await running.as_("susan").get("/pool")
    problem = is_problem(answer, 500)
    assert "secret" not in answer.text
    found = problem["hint"].split()[-1].rstrip(".")
    assert any(found in record.getMessage() for record in caplog.records)
    assert "secret inside" in caplog.text


async def test_the_answers_carry_headers_that_keep_browsers_from_harm(running):
    for answer in (await running.as_("susan").get("/me"), await running.as_("susan").get("/nothing")):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "Server" not in answer.headers


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\x1b[31mred", "a\u202eb", "x" * 129, "a\x00b"])
async def test_names_that_could_deceive_are_refused_or_come_back_as_plain_json(running, name):
    answer = await running.as_("susan").post("/jobs", json={"argv": ["true"], "name": name})
    if answer.status_code == 201:
        assert answer.json()["name"] == name
        assert not any(ord(character) < 32 for character in name)
    else:
        assert is_problem(answer, 422)["field"] == "name"


async def test_secrets_of_the_environment_do_not_come_back(running):
    job = await running.submit("susan", env={"API_KEY": "hunter2"})
    own = await running.as_("susan").get(f"/jobs/{job['id']}")
    assert "hunter2" not in own.text
    assert {"name": "env", "label": "Environment", "text": "API_KEY"} in own.json()["chosen"]
    assert "hunter2" not in (await running.as_("joe").get("/jobs")).text


async def test_who_holds_a_gpu_is_for_all_but_what_it_is_called_is_not(running):
    job = await running.submit("susan", name="secret-project-x")
    await running.until("susan", job["id"], lambda job: job["state"] == "running")

    async def holder(name):
        answer = await running.as_(name).get("/pool")
        nodes = answer.json()["nodes"]
        return next(gpu["holder"] for node in nodes for gpu in node["gpus"] if gpu["holder"])

    for name in ("susan", "joe", "admin"):
        assert (await holder(name))["name"] == "secret-project-x"
    seen = await holder("jemma")
    assert (seen["user"], seen["project"], seen["job"], seen["name"]) == ("susan", "vision", "", "")
