"""Terminals and commands in running jobs, through the API of a running service."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from springtide.hub_extension.api import open_sessions
from springtide.hub_extension.api.open_sessions import Sessions
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.client.session import SessionConnection
from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.wire import SessionEnd, SessionRequest, TerminalSize
from springtide.scheduler.wire.sessions import MAX_FRAME, SILENCE_S, SUBPROTOCOL, WINDOW, Channel

pytestmark = [pytest.mark.http, pytest.mark.process]
TERMINAL = {"columns": 80, "rows": 24}


async def job_of(running: Any, user: str = "susan", *argv: str, **fields: Any) -> str:
    """Return a running job of this person's."""
    job = (await running.submit(user, *argv, **fields))["id"]
    await running.until(user, job, lambda found: found["state"] == "running" and found["started"])
    return job


async def asked(running: Any, user: str, job: str, *argv: str, **fields: Any) -> Any:
    return await running.as_(user).post(f"/jobs/{job}/sessions", json={"argv": list(argv), **fields})


async def connected(running: Any, user: str, session: str, **headers: str) -> WebSocketClientConnection:
    """Return the WebSocket of a session, without any help of the client."""
    url = f"{running.url.replace('http', 'ws', 1)}api/v1/sessions/{session}"
    request = HTTPRequest(url, headers={"Authorization": f"token {user}", **headers})
    return await websocket_connect(request, subprotocols=[SUBPROTOCOL])


async def begun(running: Any, user: str, job: str, *argv: str, **fields: Any) -> WebSocketClientConnection:
    answer = await asked(running, user, job, *argv, **fields)
    assert answer.status_code == 201, answer.text
    return await connected(running, user, answer.json()["id"])


async def end_of(socket: WebSocketClientConnection) -> dict[str, Any] | None:
    """Read everything, confirming nothing; return the end, None if the connection was closed without one."""
    async with asyncio.timeout(PATIENCE_S):
        while (message := await socket.read_message()) is not None:
            if message[0] == Channel.END:
                return json.loads(message[1:])
    return None


async def output(socket: WebSocketClientConnection, least: int) -> int:
    """Wait for this many bytes of output; return how many there are a second later."""
    found = 0

    async def read(enough: float) -> None:
        nonlocal found
        while found < enough and (message := await socket.read_message()) is not None:
            found += len(message) - 1 if message[0] == Channel.OUTPUT else 0

    async with asyncio.timeout(PATIENCE_S):
        await read(least)
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await read(math.inf)
    return found


async def unattached(running: Any, most: int = 0) -> None:
    """Wait until no more sessions than these are open."""
    async with asyncio.timeout(PATIENCE_S):
        while len(running.pool.sessions._open) > most:
            await asyncio.sleep(0.02)


def talk(running: Any, user: str, job: str, *argv: str, text: bytes = b"") -> tuple[bytes, bytes, SessionEnd]:
    """Run a command as a client does; return its output, its errors, and the end."""
    with Client(running.url.rstrip("/"), user) as client:
        connection = client.open_session(job, SessionRequest(argv=list(argv)))
    if text:
        connection.send(text)
    connection.send(b"")
    found = {Channel.OUTPUT: b"", Channel.ERRORS: b""}
    while (piece := connection.receive()) is not None:
        found[piece[0]] += piece[1]
        connection.confirm(len(piece[1]))
    return found[Channel.OUTPUT], found[Channel.ERRORS], connection.end


async def test_the_owner_runs_a_command_and_gets_its_output_and_exit_code(running: Any) -> None:
    job = await job_of(running)
    said = await asyncio.to_thread(
        talk, running, "susan", job, "sh", "-c", "cat; echo two >&2; exit 3", text=b"one"
    )
    assert said == (b"one", b"two\n", SessionEnd(code=3))


async def test_much_output_arrives_whole(running: Any) -> None:
    job = await job_of(running)
    output, _, end = await asyncio.to_thread(talk, running, "susan", job, "sh", "-c", "seq 1 300000")
    assert output == b"".join(b"%d\n" % number for number in range(1, 300_001))
    assert end == SessionEnd(code=0)


async def test_nobody_but_the_owner_and_no_program_of_a_job_may(running: Any) -> None:
    job = await job_of(running)
    other = await job_of(running, "susan")
    credential = running.credentials.token(AttemptKey(other, 1))
    running.people.callers["lead"] = running.people.callers["jemma"].__class__(
        "lead", administers=frozenset({"vision"}), token="lead"
    )
    for name, status in (
        *(("joe", 403), ("admin", 403), ("lead", 403), ("jemma", 404)),
        *(("springtide", 404), (credential, 403), (running.credentials.token(AttemptKey(job, 1)), 403)),
        *(("stranger", 401), ("bot", 404)),
    ):
        answer = await asked(running, name, job, "true")
        assert answer.status_code == status, (name, answer.text)
    running.people.leave("susan", "vision")
    answer = await asked(running, "susan", job, "true")
    assert (answer.status_code, "no longer in project" in answer.json()["message"]) == (403, True)
    entries = (await running.as_("admin").get("/audit")).json()["items"]
    assert not [entry for entry in entries if entry["what"] == "job.exec"]


async def test_each_session_is_in_the_audit_trail_with_its_command(running: Any) -> None:
    job = await job_of(running)
    assert (await asked(running, "susan", job, "nvidia-smi", "-q --loop", rank=0)).status_code == 409
    assert (await asked(running, "susan", job, terminal=TERMINAL)).status_code == 201
    entries = (await running.as_("admin").get("/audit")).json()["items"]
    found = [(each["who"], each["subject"], each["after"]) for each in entries if each["what"] == "job.exec"]
    assert found == [
        ("susan", job, {"command": "(a shell)", "worker": 0, "attempt": 1}),
        ("susan", job, {"command": "nvidia-smi '-q --loop'", "worker": 0, "attempt": 1}),
    ]


async def test_a_session_belongs_to_who_opened_it_and_has_one_connection(running: Any) -> None:
    job = await job_of(running)
    session = (await asked(running, "susan", job, "cat")).json()["id"]
    for name in ("joe", "admin"):
        with pytest.raises(HTTPClientError, match="404"):
            await connected(running, name, session)
    with pytest.raises(HTTPClientError, match="403"):
        await connected(running, "susan", session, Origin="https://evil.example")
    plain = await running.as_("susan").get(f"/sessions/{session}")
    assert (plain.status_code, plain.json()["code"]) == (400, "no_websocket")
    socket = await connected(running, "susan", session)
    with pytest.raises(HTTPClientError, match="409"):
        await connected(running, "susan", session)
    socket.close()
    await unattached(running)
    with pytest.raises(HTTPClientError, match="404"):
        await connected(running, "susan", session)


async def test_a_job_that_does_not_run_and_a_worker_that_is_not_there_are_refused_in_words(running: Any) -> None:
    all_gpus = await job_of(running, "joe", gpus=4)
    waiting = (await running.submit("susan", gpus=4))["id"]
    answer = await asked(running, "susan", waiting, "true")
    assert (answer.status_code, answer.json()["message"]) == (409, "The job does not run: its state is queued.")
    sweep = (await running.submit("susan", name="search", trials={"number": 1}))["id"]
    answer = await asked(running, "susan", sweep, "true")
    said = "“search” is a sweep, which runs as its trials."
    assert (answer.status_code, answer.json()["message"]) == (409, said)
    await running.as_("susan").post(f"/jobs/{sweep}/cancel")
    await running.as_("susan").post(f"/jobs/{waiting}/cancel")
    await running.as_("joe").post(f"/jobs/{all_gpus}/cancel")
    job = await job_of(running)
    answer = await asked(running, "susan", job, "true", rank=1)
    assert (answer.status_code, answer.json()["field"]) == (422, "rank")
    answer = await asked(running, "susan", job, "no-such-program")
    assert answer.json()["message"] == "There is no program “no-such-program” on the PATH of the job."
    for body in (
        {"argv": ["a\0b"]},
        {"argv": ["x"] * 1001},
        {"terminal": {"columns": 0, "rows": 24}},
        {"terminal": {"columns": 1e309, "rows": 24}},
        {"kind": "x y"},
        {"rank": -1},
        {"argv": ["true"], "user": "joe"},
    ):
        refused = await running.as_("susan").post(f"/jobs/{job}/sessions", content=json.dumps(body), headers={
            "Content-Type": "application/json",
        })  # fmt: skip
        assert refused.status_code in {400, 422}, (body, refused.text)


async def test_one_person_has_so_many_sessions_and_others_have_theirs(running: Any) -> None:
    job, joes = await job_of(running), await job_of(running, "joe")
    sockets = [await begun(running, "susan", job, "cat") for _ in range(8)]
    refused = await asked(running, "susan", job, "cat")
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_sessions")
    assert refused.headers["Retry-After"]
    assert (await asked(running, "joe", joes, "cat")).status_code == 201
    for socket in sockets:
        socket.close()
    await unattached(running, most=1)
    assert (await asked(running, "susan", job, "true")).status_code == 201


async def test_a_session_that_nobody_connects_to_is_closed(running: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(open_sessions, "ATTACH_WITHIN_S", 0.1)
    job = await job_of(running)
    assert (await asked(running, "susan", job, "cat")).status_code == 201
    await unattached(running)


async def test_an_idle_session_is_closed_with_a_reason(running: Any) -> None:
    running.pool.sessions.idle = 0.3
    job = await job_of(running)
    socket = await begun(running, "susan", job, "cat")
    assert await end_of(socket) == {"code": None, "reason": "Nothing was typed or shown for 0.3 s."}
    await unattached(running)


async def test_a_session_ends_when_its_owner_leaves_the_project_or_loses_the_token(running: Any) -> None:
    job = await job_of(running)
    socket = await begun(running, "susan", job, "cat")
    running.people.leave("susan", "vision")
    assert await end_of(socket) == {"code": None, "reason": "You may not be in this job any more."}
    running.people.join("susan", "vision")
    socket = await begun(running, "susan", job, "cat")
    running.people.revoke("susan")
    assert (await end_of(socket) or {})["code"] is None
    await unattached(running)


async def test_a_reader_that_takes_nothing_holds_up_its_program_and_nothing_else(running: Any) -> None:
    job = await job_of(running)
    socket = await begun(running, "susan", job, "yes")
    assert WINDOW - MAX_FRAME <= await output(socket, WINDOW - MAX_FRAME) <= WINDOW
    assert (await running.as_("susan").get(f"/jobs/{job}")).status_code == 200
    await socket.write_message(bytes([Channel.TAKEN]) + b"100000", binary=True)
    assert 0 < await output(socket, 1) <= 100_000 + MAX_FRAME
    socket.close()
    await unattached(running)


async def test_input_that_the_program_does_not_read_is_bounded(running: Any) -> None:
    job = await job_of(running)
    socket = await begun(running, "susan", job, "sleep", "600")
    for _ in range(2 * WINDOW // MAX_FRAME + 8):
        await socket.write_message(bytes([Channel.INPUT]) + bytes(MAX_FRAME), binary=True)
    assert await end_of(socket) is None
    assert socket.close_code == 1008
    await unattached(running)


FORBIDDEN = (
    b"",
    b"\x07x",
    b"\x01output",
    b"\x03{}",
    b"\x04{}",
    b'\x04{"columns": 0, "rows": 1}',
    b'\x04{"columns": 1e309, "rows": 1}',
    b'\x04{"columns": 80, "rows": 24, "more": 1}',
    b"\x04" + b"[" * 190,
    b"\x05-5",
    b"\x05" + "²".encode(),
    b"\x05999999",
    b"\x0599999999999999999999",
    "text",
)


async def test_a_message_that_is_not_allowed_ends_its_session_and_not_the_service(running: Any) -> None:
    job = await job_of(running)
    for message in FORBIDDEN:
        socket = await begun(running, "susan", job, terminal=TERMINAL)
        await socket.write_message(message, binary=isinstance(message, bytes))
        assert await end_of(socket) is None, message
        assert socket.close_code == 1008
    await unattached(running)
    assert (await asked(running, "susan", job, "true")).status_code == 201


async def test_a_message_that_is_too_large_ends_the_session(running: Any) -> None:
    job = await job_of(running)
    socket = await begun(running, "susan", job, "cat")
    await socket.write_message(bytes([Channel.INPUT]) + bytes(MAX_FRAME + 1), binary=True)
    assert await end_of(socket) is None
    await unattached(running)


async def test_ten_thousand_resizes_and_control_bytes_go_through_a_terminal(running: Any) -> None:
    job = await job_of(running)
    with Client(running.url.rstrip("/"), "susan") as client:
        request = SessionRequest(argv=["sh"], terminal=TerminalSize(columns=80, rows=24))
        connection = await asyncio.to_thread(client.open_session, job, request)

    def use() -> bytes:
        for number in range(10_000):
            connection.resize(TerminalSize(columns=number % 500 + 1, rows=50))
        connection.resize(TerminalSize(columns=123, rows=45))
        connection.send(b"stty size; printf '\\033]0;title\\007\\200\\377\\000'; exit 7\n")
        found = b""
        while (piece := connection.receive()) is not None:
            found += piece[1]
            connection.confirm(len(piece[1]))
        return found

    said = await asyncio.wait_for(asyncio.to_thread(use), PATIENCE_S)
    assert b"45 123\r\n" in said
    assert b"\x1b]0;title\x07\x80\xff\x00" in said
    assert connection.end == SessionEnd(code=7)


async def test_a_connection_that_is_cut_ends_the_program(running: Any) -> None:
    job = await job_of(running)
    socket = await begun(running, "susan", job, "sh", "-c", "echo $$; exec sleep 600")
    message = await socket.read_message()
    assert isinstance(message, bytes)
    pid = int(message[1:])
    socket.stream.close()
    await unattached(running)
    async with asyncio.timeout(PATIENCE_S):
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.02)


async def test_a_client_that_is_silent_is_cut_off(running: Any) -> None:
    now = [0.0]
    running.pool.sessions._clock = lambda: now[0]
    job = await job_of(running)
    socket = await begun(running, "susan", job, "cat")
    for _ in range(10):
        now[0] += SILENCE_S / 2
        await socket.write_message(bytes([Channel.INPUT]) + b"said\n", binary=True)
        async with asyncio.timeout(PATIENCE_S):
            while (await socket.read_message())[0] != Channel.OUTPUT:
                pass
    assert len(running.pool.sessions._open) == 1
    now[0] += SILENCE_S
    assert await end_of(socket) == {"code": None, "reason": "The client has been silent for too long."}
    await unattached(running)


async def test_a_session_ends_with_its_attempt(running: Any) -> None:
    job = await job_of(running)
    socket = await begun(running, "susan", job, "sleep", "600")
    await running.as_("susan").post(f"/jobs/{job}/cancel")
    end = await end_of(socket)
    assert end is not None
    assert end["code"] in {None, 137, 143}
    await unattached(running)


async def test_the_service_ends_all_sessions_when_it_stops(running: Any) -> None:
    job = await job_of(running)
    sockets = [await begun(running, "susan", job, "cat") for _ in range(3)]
    await running.pool.sessions.close_all()
    for socket in sockets:
        assert (await end_of(socket) or {}).get("code") is None
    assert not running.pool.sessions._open


def test_a_place_is_free_again_if_the_start_fails() -> None:
    places = Sessions(most=1)
    for _ in range(3):
        with places.reserve("susan"):
            pass


def test_a_client_says_that_the_pool_cannot_be_reached() -> None:
    with pytest.raises(Exception, match="cannot be connected to"):
        SessionConnection("http://127.0.0.1:9/x", "token", 1.0)


async def test_a_client_passes_on_the_pools_refusal(running: Any) -> None:
    job = await job_of(running)
    with pytest.raises(PoolError, match="others may not open a terminal"):
        await asyncio.to_thread(talk, running, "joe", job, "true")
    assert os.environ.get("SPRINGTIDE_JOB_ID") is None


HANGS = """
from springtide.training import current_job
import time
current_job()
def hangs():
    print("ready", flush=True)
    while True:
        time.sleep(600)
hangs()
"""


async def test_who_sees_a_job_sees_where_it_hangs_and_outsiders_are_recorded(running: Any) -> None:
    job = (await running.submit("susan", sys.executable, "-c", HANGS, gpus=1, workers=2))["id"]
    for rank in (0, 1):
        async with asyncio.timeout(PATIENCE_S):
            while "ready" not in (await running.as_("susan").get(f"/jobs/{job}/log?rank={rank}")).text:
                await asyncio.sleep(0.05)
    for name in ("susan", "joe", "admin"):
        answer = await running.as_(name).post(f"/jobs/{job}/stack")
        assert answer.status_code == 200, answer.text
        workers = answer.json()["workers"]
        assert [(each["rank"], "in hangs" in each["text"], each["problem"]) for each in workers] == [
            (0, True, ""),
            (1, True, ""),
        ]
    assert (await running.as_("jemma").post(f"/jobs/{job}/stack")).status_code == 404
    credential = running.credentials.token(AttemptKey(job, 1))
    assert (await running.as_(credential).post(f"/jobs/{job}/stack")).status_code == 403
    entries = (await running.as_("admin").get("/audit")).json()["items"]
    assert [each["who"] for each in entries if each["what"] == "job.read_stack"] == ["admin"]


async def test_stacks_are_asked_for_at_a_bounded_rate_and_of_running_jobs_only(running: Any) -> None:
    job = await job_of(running)
    answers = await asyncio.gather(*(running.as_("susan").post(f"/jobs/{job}/stack") for _ in range(14)))
    assert {answer.status_code for answer in answers} == {200, 429}
    ended = (await running.submit("joe", "true"))["id"]
    await running.until("joe", ended, lambda found: found["state"] == "succeeded")
    refused = await running.as_("joe").post(f"/jobs/{ended}/stack")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_running")


async def test_the_text_of_a_stack_has_no_control_characters(running: Any) -> None:
    name = "\x1b]0;evil\x07\u202e"
    job = await job_of(running, "susan", "sh", "-c", "sleep 600; :", name)
    text = (await running.as_("susan").post(f"/jobs/{job}/stack")).json()["workers"][0]["text"]
    assert "evil" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
