"""Terminals of a notebook server in running jobs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from benches.server_extension_bench import TOKEN, NotebookServer
from patience import PATIENCE_S
from websocket import create_connection

from springtide.scheduler.client import Client
from springtide.scheduler.wire import Submission

pytestmark = pytest.mark.process


def running_job(service: str, user: str = "susan", **fields: Any) -> str:
    """Return a running job of this user."""
    with Client(service, user) as client:
        job = client.submit(Submission(argv=["sleep", "600"], **fields)).id
        deadline = time.monotonic() + PATIENCE_S
        while client.job(job).state != "running":
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return job


def type_in(server: NotebookServer, name: str, text: str, until: str) -> str:
    """Type into a terminal of the server; return its output once it contains a text."""
    url = f"{server.url.replace('http', 'ws', 1)}terminals/websocket/{name}?token={TOKEN}"
    connection = create_connection(url, timeout=PATIENCE_S, suppress_origin=True)
    seen = ""
    if text:
        connection.send(json.dumps(["stdin", text]))
    while until not in seen:
        frame = connection.recv()
        assert frame, f"closed after {seen!r}"
        kind, *content = json.loads(frame)
        seen += content[0] if kind == "stdout" else ""
    connection.close()
    return seen


def test_a_terminal_of_the_server_is_one_in_the_job(server: NotebookServer, service: str) -> None:
    job = running_job(service)
    with server.client() as client:
        opened = client.post("../../terminals", json={"job": job})
        assert opened.status_code == 201, opened.text
        name = opened.json()["name"]
        assert name in [each["name"] for each in client.get(f"{server.url}api/terminals").json()]
        said = type_in(server, name, "echo in $SPRINGTIDE_JOB_ID\n", f"in {job}")
        assert f"in {job}" in said
        client.delete(f"{server.url}api/terminals/{name}")
    with Client(service, "susan") as pool:
        pool.cancel(job)


def test_a_refusal_of_the_pool_stays_in_the_terminal(server: NotebookServer, service: str) -> None:
    job = running_job(service, "joe")
    with server.client() as client:
        name = client.post("../../terminals", json={"job": job}).json()["name"]
        assert "others may not open a terminal" in type_in(server, name, "", "Press Enter")
        client.delete(f"{server.url}api/terminals/{name}")
    with Client(service, "joe") as pool:
        pool.cancel(job)


def test_the_terminals_of_one_job_are_numbered(server: NotebookServer, service: str) -> None:
    job, other = running_job(service, name="night train"), running_job(service, name="day train")
    with server.client() as client, Client(service, "susan") as pool:
        opened = []
        for each, title in ((job, "night train"), (job, "night train (2)"), (other, "day train")):
            opened.append(client.post("../../terminals", json={"job": each}).json()["name"])
            assert f"\x1b]0;{title}\x07" in type_in(
                server, opened[-1], "echo in $SPRINGTIDE_JOB_ID\n", f"in {each}"
            )
        client.delete(f"{server.url}api/terminals/{opened.pop(0)}")
        opened.append(client.post("../../terminals", json={"job": job}).json()["name"])
        assert "\x1b]0;night train\x07" in type_in(server, opened[-1], "echo in $SPRINGTIDE_JOB_ID\n", f"in {job}")
        for name in opened:
            client.delete(f"{server.url}api/terminals/{name}")
        pool.cancel(job)
        pool.cancel(other)


@pytest.mark.parametrize("end", ["pause", "cancel"])
def test_the_terminal_of_a_job_has_its_name_and_says_why_it_ended(
    server: NotebookServer, service: str, end: str
) -> None:
    job = running_job(service, name="night train")
    with server.client() as client, Client(service, "susan") as pool:
        name = client.post("../../terminals", json={"job": job}).json()["name"]
        assert "\x1b]0;night train\x07" in type_in(server, name, "echo in $SPRINGTIDE_JOB_ID\n", f"in {job}")
        getattr(pool, end)(job)
        said = type_in(server, name, "", "Press Enter")
        assert f"in {job}" in said, "what was shown before stays"
        words = "does not run now: paused." if end == "pause" else "has ended: cancelled."
        assert f"The job “night train” {words}" in said
        assert "The attempt has ended" not in said, "the end is said once"
        client.delete(f"{server.url}api/terminals/{name}")
        if end == "pause":
            pool.cancel(job)


def test_a_terminal_keeps_the_name_of_its_job_after_very_much_output(server: NotebookServer, service: str) -> None:
    job = running_job(service, name="night train")
    with server.client() as client, Client(service, "susan") as pool:
        name = client.post("../../terminals", json={"job": job}).json()["name"]
        type_in(server, name, "yes | head -c 6000000; echo that was $((20 + 20))\n", "that was 40")
        said = type_in(server, name, "echo in $SPRINGTIDE_JOB_ID\n", f"in {job}")
        assert "Connecting to the job" not in said, "the server keeps the last output only"
        assert said.startswith("\x1b]0;night train\x07")
        client.delete(f"{server.url}api/terminals/{name}")
        pool.cancel(job)


def test_what_is_no_job_and_who_is_not_logged_in_opens_nothing(
    server: NotebookServer, lonely: NotebookServer
) -> None:
    with server.client() as client:
        bodies: list[Any] = [
            {},
            {"job": "; rm -rf /"},
            {"job": "a", "rank": -1},
            {"job": "a", "shell_command": ["sh"]},
            [],
        ]
        for body in bodies:
            refused = client.post("../../terminals", json=body)
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid"), body
        before = len(client.get(f"{server.url}api/terminals").json())
        client.headers.pop("Authorization")
        assert client.post("../../terminals", json={"job": "a"}).status_code == 403
    with server.browser() as browser:
        assert browser.post("../../terminals", json={"job": "a"}).status_code == 403  # without the XSRF token
    with server.client() as client:
        assert len(client.get(f"{server.url}api/terminals").json()) == before
    with lonely.client() as client:
        assert client.post("../../terminals", json={"job": "a"}).json()["code"] == "no_pool"
