"""The audit trail: all that admins and leads do, chosen by who, what, project and time, and as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import httpx
import pytest

from springtide.hub_extension.web.caller import Caller
from springtide.scheduler.wording import iso

WHY = {"reason": '=cmd|"/c calc"!A1'}


@pytest.fixture
async def pool(running: Any) -> Any:
    """A service with a lead of the project vision."""
    running.people.callers["lead"] = Caller("lead", token="lead", administers=frozenset({"vision"}))
    return running


async def read(client: httpx.AsyncClient, **query: Any) -> list[tuple[str, str, str]]:
    answer = await client.get("/audit", params=query)
    assert answer.status_code == 200, answer.text
    return [(each["who"], each["what"], each["project"]) for each in answer.json()["items"]]


async def test_what_is_done_with_jobs_of_others_is_in_the_trail_of_their_project(pool: Any) -> None:
    job = (await pool.submit("susan"))["id"]
    admin, lead = pool.as_("admin"), pool.as_("lead")
    await admin.post(f"/jobs/{job}/pause")
    await pool.until("susan", job, lambda found: found["state"] == "paused")
    await lead.post(f"/jobs/{job}/edit", json={"priority": 60})
    await lead.post(f"/jobs/{job}/hold", json=WHY)
    await admin.post(f"/jobs/{job}/release", json={})
    await lead.post(f"/jobs/{job}/cancel")
    expected = [("lead", "job.cancel"), ("admin", "job.release"), ("lead", "job.hold"), ("lead", "job.edit")]
    expected.append(("admin", "job.pause"))
    assert await read(lead, what="job") == [(who, what, "vision") for who, what in expected]
    assert await read(admin, project="vision", who="admin", what="job.pause") == [("admin", "job.pause", "vision")]


async def test_a_lead_reads_the_trail_of_her_projects_alone_and_takes_nothing_back(pool: Any) -> None:
    job = (await pool.submit("jemma"))["id"]
    await pool.as_("admin").post(f"/jobs/{job}/pause")
    await pool.as_("admin").post("/nodes/drain", json={"node": "build"})
    await pool.as_("admin").patch("/projects/vision", json={"weight": 2})
    lead = pool.as_("lead")
    assert {project for _, _, project in await read(lead)} == {"vision"}
    assert {project for _, _, project in await read(pool.as_("admin"))} == {"vision", "speech", ""}
    entries = (await lead.get("/audit", params={"what": "project.change"})).json()["items"]
    assert [entry["undo"] for entry in entries] == [False]
    refused = await lead.get("/audit", params={"project": "speech"})
    assert (refused.status_code, refused.json()["field"]) == (403, "project")
    for path in ("/audit", "/audit.csv"):
        assert (await pool.as_("susan").get(path)).status_code == 403


async def test_a_stop_of_somebodys_workspace_is_in_the_trail_and_of_ones_own_is_not(pool: Any) -> None:
    pool.people.notebooks["susan"] = {"", "b"}
    assert (await pool.as_("admin").post("/workspaces/susan/stop", params={"server": "b"})).status_code == 204
    assert (await pool.as_("susan").post("/workspaces/susan/stop")).status_code == 204
    items = (await pool.as_("admin").get("/audit", params={"what": "workspace"})).json()["items"]
    assert [(each["who"], each["what"], each["subject"]) for each in items] == [
        ("admin", "workspace.stop", "susan/b")
    ]


async def test_a_move_is_one_entry_in_the_trails_of_both_projects(pool: Any) -> None:
    job = (await pool.submit("susan"))["id"]
    await pool.as_("susan").post(f"/jobs/{job}/pause")
    await pool.until("susan", job, lambda found: found["state"] == "paused")
    pool.people.join("susan", "speech")
    await pool.as_("admin").post(f"/jobs/{job}/edit", json={"project": "speech"})
    for project in ("vision", "speech"):
        assert await read(pool.as_("admin"), what="job.edit", project=project) == [("admin", "job.edit", "speech")]
    assert await read(pool.as_("admin"), what="job.edit") == [("admin", "job.edit", "speech")]
    assert await read(pool.as_("lead"), what="job.edit") == [("admin", "job.edit", "speech")]


async def test_the_end_of_a_change_is_a_time_in_the_csv(pool: Any) -> None:
    admin, until = pool.as_("admin"), int(pool.pool.clock()) + 3600
    await admin.patch("/projects/vision", json={"weight": 2, "until": until})
    assert iso(until) in (await admin.get("/audit.csv", params={"what": "project.change"})).text


async def test_entries_are_exported_as_csv_in_which_nothing_computes(pool: Any) -> None:
    for number in range(210):
        await pool.pool.engine.record("admin", "job.read_log", f"=job{number}", {}, {}, project="vision")
    answer = await pool.as_("lead").get("/audit.csv", params={"what": "job"})
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 210
    assert (rows[0]["subject"], rows[0]["what"], rows[0]["at"][-1:]) == ("'=job209", "job.read_log", "Z")


async def test_entries_are_chosen_by_time(pool: Any) -> None:
    now = pool.pool.clock()
    admin = pool.as_("admin")
    assert await read(admin, start=now + 60) == []
    assert len(await read(admin, end=now + 60)) == len(await read(admin))
    assert (await admin.get("/audit", params={"start": "soon"})).status_code == 422
