"""A notebook server passes the requests of its own pages on to the pool, and nobody else's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest
from benches.server_extension_bench import NotebookServer
from hubs.hub_people import until
from patience import PATIENCE_S

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import Job, Submission
from springtide.widgets.server_extension.handlers import STREAMS


@pytest.fixture
def job(service: str) -> Iterator[Job]:
    """A job of susan's."""
    with Client(service, "susan") as susan:
        argv = [sys.executable, "-c", "import time; time.sleep(600)"]
        job = susan.submit(
            Submission(argv=argv, kind="command", cwd="/tmp", project="vision", gpus=1, name="long")
        )
        yield job
        with suppress(PoolError):
            susan.cancel(job.id)


def test_a_page_reads_and_changes_with_the_rights_of_the_servers_user(server: NotebookServer, job: Job) -> None:
    with server.client() as page:
        assert page.get("me").json()["name"] == "susan"
        assert page.get(f"jobs/{job.id}").json()["name"] == "long"
        assert page.get("jobs", params={"mine": "1", "user": "joe"}).json()["items"][0]["id"] == job.id
        assert page.get(f"jobs/{job.id}/log", params={"offset": -100}).json()["text"] == ""
        assert page.post(f"jobs/{job.id}/pause").json()["held_by_user"]
        assert page.post(f"jobs/{job.id}/cancel").status_code == 200
        missing = page.get("jobs/unknown1")
    assert missing.status_code == 404
    assert "unknown1" in missing.json()["message"]


def test_a_notebook_server_passes_on_so_many_streams_and_no_more(server: NotebookServer) -> None:
    with server.client() as page:
        with ExitStack() as streams:
            for _ in range(STREAMS):
                assert streams.enter_context(page.stream("GET", "events")).status_code == 200
            refused = page.get("events")
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert page.get("me").status_code == 200

        def has_place() -> bool:
            with page.stream("GET", "events") as stream:
                return stream.status_code == 200

        until("a place for another stream", has_place)


def test_an_event_reaches_the_page(server: NotebookServer, service: str, job: Job) -> None:
    with server.client() as page, page.stream("GET", "events") as stream, Client(service, "susan") as susan:
        assert stream.headers["Content-Type"] == "text/event-stream"
        lines = stream.iter_lines()
        assert any(line == "event: pool" for line in lines)
        susan.cancel(job.id)
        assert any(line.startswith("data: ") and json.loads(line[6:]).get("id") == job.id for line in lines)


@pytest.mark.parametrize(
    "path",
    [
        "admin",
        "../../../../../hub/api/user",
        "..%2f..%2f..%2f..%2fhub/api/user",
        "%2e%2e/%2e%2e/admin",
        "%252e%252e/admin",
        "jobs%2f..%2fadmin",
        "jobs/x%00",
        "jobs/x%0d%0aHost:%20evil.example",
        "//evil.example/me",
        "http://evil.example/me",
        "http:%2f%2fevil.example%2fme",
        "%40evil.example/me",
        "projects/vision",
    ],
)
def test_a_hostile_path_reaches_nothing(server: NotebookServer, path: str) -> None:
    """The path is sent as it is written here: the client would tidy it up."""
    url = httpx.URL(server.url)
    raw = f"{url.path}springtide/api/v1/{path}".encode()
    request = httpx.Request("GET", url.copy_with(raw_path=raw))
    with server.client() as page:
        request.headers["Authorization"] = page.headers["Authorization"]
        answer = page.send(request)
    assert answer.status_code in {400, 404}, answer.text
    assert b'"quota"' not in answer.content


def test_a_stranger_is_told_nothing(server: NotebookServer) -> None:
    with httpx.Client(base_url=f"{server.url}springtide/api/v1/", timeout=PATIENCE_S, verify=False) as stranger:
        for path in ("me", "pool", "jobs", "events"):
            assert stranger.get(path).status_code == 403
        assert stranger.post("jobs/unknown1/cancel").status_code == 403


def test_a_change_needs_the_xsrf_token_of_the_page(server: NotebookServer, job: Job) -> None:
    with server.browser() as page:
        assert page.get("me").json()["name"] == "susan"
        refused = page.post(f"jobs/{job.id}/cancel")
        assert refused.status_code == 403
        assert refused.json()["code"] == "notebook_server"
        xsrf = {"X-XSRFToken": page.cookies["_xsrf"]}
        assert page.post(f"jobs/{job.id}/cancel", headers=xsrf).status_code == 200


def test_a_job_is_deleted_with_the_xsrf_token_of_the_page(server: NotebookServer, service: str, job: Job) -> None:
    with server.browser() as page, Client(service, "susan") as susan:
        susan.cancel(job.id)
        until("its end", lambda: susan.job(job.id).ended is not None)
        assert page.get("me").status_code == 200
        assert page.delete(f"jobs/{job.id}?dry_run=1").status_code == 403
        assert page.delete(f"jobs/{job.id}").status_code == 403
        xsrf = {"X-XSRFToken": page.cookies["_xsrf"]}
        assert page.delete(f"jobs/{job.id}?dry_run=1", headers=xsrf).json()["jobs"] == 1
        assert page.delete(f"jobs/{job.id}", headers=xsrf).json()["job"] == job.id
        assert page.get(f"jobs/{job.id}").status_code == 404


@pytest.mark.parametrize("path", ["me", "events"])
def test_another_origin_is_told_nothing(server: NotebookServer, path: str) -> None:
    with server.browser() as page:
        assert page.get(path, headers={"Origin": "http://evil.example"}).status_code in {403, 404}


def test_an_answer_is_never_a_page(server: NotebookServer) -> None:
    with server.client() as page:
        answer = page.get("jobs/unknown1")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_file_of_a_job_is_never_a_page(server: NotebookServer, service: str) -> None:
    program = """
import os
os.chdir(os.environ["SPRINGTIDE_OUTPUT_DIR"])
with open("a page?.html", "w") as page:
    page.write("<script>alert(1)</script>")
open("empty.html", "w").close()
"""
    with Client(service, "susan") as susan, server.client() as page:
        argv = [sys.executable, "-c", program]
        left = susan.submit(Submission(argv=argv, kind="command", cwd="/tmp", project="vision", gpus=1))
        until("the end of the job", lambda: susan.job(left.id).state == "succeeded")
        listed = page.get(f"jobs/{left.id}/output").json()["items"]
        assert [file["name"] for file in listed] == ["a page?.html", "empty.html"]
        names = ("a%20page%3F.html", "empty.html", "gone.html")
        whole, empty, gone = (page.get(f"jobs/{left.id}/output/{name}") for name in names)
    assert (whole.text, empty.text) == ("<script>alert(1)</script>", "")
    for answer in (whole, empty):
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Content-Disposition"].startswith("attachment;")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert (gone.status_code, gone.json()["code"]) == (404, "not_found")
    with httpx.Client(base_url=f"{server.url}springtide/api/v1/", timeout=PATIENCE_S, verify=False) as stranger:
        assert stranger.get(f"jobs/{left.id}/output/empty.html").status_code == 403


def test_streams_are_counted_and_given_back(server: NotebookServer) -> None:
    with server.client() as page:
        for _ in range(20):
            with page.stream("GET", "events") as stream:
                assert stream.status_code == 200
                next(stream.iter_raw())


def test_without_a_pool_the_answer_says_so(lonely: NotebookServer) -> None:
    with lonely.client() as page:
        for path in ("me", "events"):
            answer = page.get(path)
            assert answer.status_code == 503
            assert answer.json()["code"] == "no_pool"
            assert "springtide up" in answer.json()["message"]
