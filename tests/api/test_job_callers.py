"""Programs of running jobs as callers of the API: what their credentials permit, for how long, and how deep."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from springtide.hub_extension.service.site import ROUTES
from springtide.scheduler.executors.base import AttemptKey
from springtide.scheduler.executors.credentials import CREDENTIAL, Credentials

ALLOWED = {
    "GET /comparison",
    "GET /datasets",
    "GET /events",
    "GET /images/contents",
    "GET /jobs",
    "GET /jobs.csv",
    "GET /jobs/{id}",
    "GET /jobs/{id}/checkpoints",
    "GET /jobs/{id}/log",
    "GET /jobs/{id}/metrics",
    "GET /jobs/{id}/output",
    "GET /jobs/{id}/output/{name:path}",
    "GET /jobs/{id}/points",
    "GET /jobs/{id}/rerun",
    "GET /jobs/{id}/tracking",
    "GET /jobs/{id}/trials",
    "GET /jobs/{id}/usage",
    "GET /me",
    "GET /pool",
    "GET /pool/gpus",
    "GET /pool/idle",
    "GET /presets",
    "GET /trees/{digest}",
    "PATCH /jobs/{id}",
    "PATCH /jobs/{id}/tags",
    "PATCH /jobs/{id}/trials",
    "POST /advice",
    "POST /forecast",
    "POST /jobs",
    "POST /jobs/actions",
    "POST /jobs/{id}/cancel",
    "POST /jobs/{id}/checkpoints/delete",
    "POST /jobs/{id}/finish",
    "POST /jobs/{id}/fork",
    "POST /jobs/{id}/pause",
    "POST /jobs/{id}/end",
    "POST /jobs/{id}/rerun",
    "POST /jobs/{id}/resume",
    "POST /jobs/{id}/retry",
    "PUT /trees/{digest}",
}
OPEN = {"GET /health", "GET /metrics", "GET /openapi.json", "GET /ready"}
"""Calls without a log-in: nobody's credential is looked at."""
SUBMITS = (
    "import json, os, urllib.request\n"
    "token = open(os.environ['SPRINGTIDE_TOKEN_FILE']).read()\n"
    "body = json.dumps({'argv': ['sleep', '600'], 'gpus': 1}).encode()\n"
    "headers = {'Authorization': 'token ' + token, 'Content-Type': 'application/json'}\n"
    "request = urllib.request.Request(os.environ['SPRINGTIDE_URL'] + '/api/v1/jobs', body, headers)\n"
    "print(urllib.request.urlopen(request).read().decode())\n"
)


async def started(running: Any, user: str = "susan", **fields: Any) -> str:
    """Return a job of this user that runs until it is ended."""
    job = (await running.submit(user, gpus=1, **fields))["id"]
    await running.until(user, job, lambda job: job["state"] == "running")
    return str(job)


def program_of(running: Any, job: str, attempt: int = 1) -> httpx.AsyncClient:
    """Return a client with the credential of a job's attempt."""
    return running.as_(running.credentials.token(AttemptKey(job, attempt)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_job(shared: Any) -> str:
    """A running job of susan's in the service of all tests of this file that change nothing."""
    return await started(shared)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_program_of_a_job_makes_the_calls_about_jobs_and_no_others(
    shared: Any, shared_job: str, route: Any
) -> None:
    call = f"{route.method} {route.path}"
    assert route.jobs is (call in ALLOWED)
    if call in ALLOWED | OPEN:
        return
    path = route.path.replace(":path", "").format_map(dict.fromkeys(route.parts, "susan"))
    body: dict[str, Any] | None = {} if route.body is not None else None
    answer = await program_of(shared, shared_job).request(route.method, path, json=body)
    assert (answer.status_code, answer.json()["message"]) == (403, "A program of a job may not do this.")


async def test_a_job_submits_a_job_with_the_variables_that_it_has(running: Any) -> None:
    parent = (await running.submit("susan", sys.executable, "-c", SUBMITS, gpus=0))["id"]
    ended = await running.until("susan", parent, lambda job: job["ended"])
    log = (await running.as_("susan").get(f"/jobs/{parent}/log")).json()["text"]
    assert ended["state"] == "succeeded", log
    child = json.loads(log)
    assert (child["user"], child["project"], child["submitted_by"]) == ("susan", "vision", parent)


async def test_the_credential_is_in_a_file_of_the_job_alone_and_in_no_answer(running: Any, tmp_path: Path) -> None:
    job = await started(running)
    [file] = tmp_path.glob(f"*/jobs/{job}/attempts/1/{CREDENTIAL}")
    token = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token == running.credentials.token(AttemptKey(job, 1))
    assert token not in (file.parent / "spec.json").read_text()
    client = running.as_("susan")
    for path in (f"/jobs/{job}", f"/jobs/{job}/log", f"/jobs/{job}/output", "/jobs", "/pool"):
        assert token not in (await client.get(path)).text


async def test_a_credential_is_good_while_its_attempt_runs(running: Any) -> None:
    job = await started(running)
    program = program_of(running, job)
    assert (await program.get("/me")).json()["name"] == "susan"
    assert (await program_of(running, job, attempt=2).get("/me")).status_code == 401
    await running.as_("susan").post(f"/jobs/{job}/cancel")
    assert (await program.get("/me")).status_code == 401
    assert (await program.post("/jobs", json={"argv": ["true"]})).status_code == 401
    await running.until("susan", job, lambda job: job["ended"])
    refused = await program.get("/me")
    assert (refused.status_code, refused.json()["code"]) == (401, "job_ended")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "token",
    [
        "springtide-job:{job}:1:" + "0" * 64,
        "springtide-job:{job}:1",
        "springtide-job:{job}:one:" + "0" * 64,
        "springtide-job:" + "x" * 100_00,
        "springtide-job:{job}:1:{signature}0",
        "springtide-job:{job}:01:{signature}",
        "SPRINGTIDE-JOB:{job}:1:{signature}",
    ],
)
async def test_a_forged_credential_is_nobodys(shared: Any, shared_job: str, token: str) -> None:
    signature = shared.credentials.token(AttemptKey(shared_job, 1)).rpartition(":")[2]
    forged = shared.as_(token.format(job=shared_job, signature=signature))
    assert (await forged.get("/jobs")).status_code == 401
    other_key = Credentials("", b"another secret").token(AttemptKey(shared_job, 1))
    assert (await shared.as_(other_key).get("/jobs")).status_code == 401


async def test_a_program_stays_within_the_project_of_its_job(running: Any) -> None:
    job = await started(running)
    running.people.join("susan", "speech")
    elsewhere = (await running.submit("susan", gpus=1, project="speech"))["id"]
    program = program_of(running, job)
    assert (await program.get(f"/jobs/{elsewhere}")).status_code == 404
    assert (await program.post(f"/jobs/{elsewhere}/cancel")).status_code == 404
    assert elsewhere not in [each["id"] for each in (await program.get("/jobs")).json()["items"]]
    refused = await program.post("/jobs", json={"argv": ["true"], "project": "speech"})
    assert refused.status_code == 403
    assert "submits for the project of its job" in refused.json()["message"]
    submitted = await program.post("/jobs", json={"argv": ["true"]})
    assert submitted.json()["project"] == "vision"
    assert (await program.get("/me")).json()["default_project"] == "vision"


async def test_a_program_has_the_rights_of_a_member_of_its_project(running: Any) -> None:
    mine, others = await started(running), await started(running, "joe")
    program = program_of(running, mine)
    assert (await program.get(f"/jobs/{others}/log")).status_code == 200
    assert (await program.post(f"/jobs/{others}/cancel")).status_code == 403
    assert (await program.post(f"/jobs/{mine}/cancel")).status_code == 200


async def test_a_program_of_an_administrators_job_administers_nothing(running: Any) -> None:
    running.people.callers["admin"] = running.people.callers["admin"].__class__(
        "admin", frozenset({"vision"}), admin=True, token="admin"
    )
    running.people.groups["vision"].append("admin")
    others = await started(running, "joe")
    program = program_of(running, await started(running, "admin"))
    assert (await program.post(f"/jobs/{others}/cancel")).status_code == 403
    assert (await program.get("/me")).json()["admin"] is False
    assert (await program.post("/nodes/drain", json={"nodes": ["x"]})).status_code == 403


async def test_a_program_of_somebody_who_left_the_project_submits_nothing(running: Any) -> None:
    job = await started(running)
    program = program_of(running, job)
    running.people.leave("susan", "vision")
    refused = await program.post("/jobs", json={"argv": ["true"]})
    assert (refused.status_code, refused.json()["message"]) == (403, "You are not in project “vision”.")
    assert (await program.get("/jobs")).json()["items"] == []


async def test_jobs_that_submit_each_other_come_to_an_end(running: Any) -> None:
    job = await started(running)
    chain = [job]
    while len(chain) <= 5:
        program = program_of(running, chain[-1])
        answer = await program.post("/jobs", json={"argv": ["sleep", "600"], "gpus": 0})
        assert answer.status_code == 201, answer.text
        child = answer.json()["id"]
        await running.until("susan", child, lambda job: job["state"] == "running")
        await running.as_("susan").post(f"/jobs/{chain[-1]}/cancel")
        chain.append(child)
    refused = await program_of(running, chain[-1]).post("/jobs", json={"argv": ["true"]})
    assert (refused.status_code, refused.json()["code"]) == (403, "too_deep")
    assert refused.json()["message"] == (
        f"The job {chain[-1]} may not submit jobs: 5 jobs led to it, each submitted by the one before. This pool "
        "allows 5 such steps."
    )


async def test_a_job_that_is_run_again_by_a_person_begins_a_chain_of_its_own(running: Any) -> None:
    job = await started(running)
    child = (await program_of(running, job).post("/jobs", json={"argv": ["sleep", "600"], "gpus": 0})).json()["id"]
    again = await running.as_("susan").post(f"/jobs/{child}/rerun", json={})
    assert again.json()["submitted_by"] is None
    by_program = await program_of(running, job).post(f"/jobs/{child}/rerun", json={})
    assert by_program.json()["submitted_by"] == job


async def test_children_of_a_cancelled_job_continue_unless_they_are_cancelled_as_well(running: Any) -> None:
    parent = await started(running)
    body = {"argv": ["sleep", "600"], "gpus": 0}
    child = (await program_of(running, parent).post("/jobs", json=body)).json()["id"]
    await running.until("susan", child, lambda job: job["state"] == "running")
    grandchild = (await program_of(running, child).post("/jobs", json=body)).json()["id"]
    client = running.as_("susan")
    await client.post(f"/jobs/{parent}/cancel")
    await running.until("susan", parent, lambda job: job["ended"])
    assert (await client.get(f"/jobs/{child}")).json()["ended"] is None
    both = await client.post("/jobs/actions", json={"action": "cancel", "jobs": [parent], "children": True})
    ended = {each["id"]: (each["problem"] or {}).get("status") for each in both.json()["results"]}
    assert ended == {parent: None, child: None, grandchild: None}
    for job in (child, grandchild):
        assert (await running.until("susan", job, lambda job: job["ended"]))["state"] == "cancelled"


async def test_nobody_ends_children_of_a_job_that_is_not_ones_own(running: Any) -> None:
    parent = await started(running)
    child = (await program_of(running, parent).post("/jobs", json={"argv": ["sleep", "600"], "gpus": 0})).json()[
        "id"
    ]
    body = {"action": "cancel", "jobs": [parent], "children": True}
    for name in ("joe", "jemma"):
        results = (await running.as_(name).post("/jobs/actions", json=body)).json()["results"]
        assert [each["id"] for each in results] == [parent]
    assert (await running.as_("susan").get(f"/jobs/{child}")).json()["ended"] is None
