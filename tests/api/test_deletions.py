"""Deletion of ended jobs: they leave all lists at once, with their files; what projects have used stays exact."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S
from sqlalchemy import select

from springtide.scheduler.store import schema
from springtide.scheduler.store.queries import ledger

SAVES = """
from springtide.training import current_job

job = current_job()
found = job.restore()
print("from", found.state if found else 0)
for step in range(1, 3):
    job.report(step=step, loss=1 / step)
    job.save(bytes(5000), step=step)
(job.output_directory / "model.pt").write_text("weights")
"""
FILES = {"train.py": base64.b64encode(SAVES.encode()).decode()}
COMMAND = ("python3", "{code}/train.py")


async def trained(running: Any, user: str = "susan", **fields: Any) -> str:
    job = await running.submit(user, *COMMAND, files=FILES, **{"name": "train", **fields})
    return str((await running.until(user, job["id"], lambda found: found["ended"] is not None))["id"])


async def delete(running: Any, job: str, user: str = "susan", **query: Any) -> Any:
    return await running.as_(user).delete(f"/jobs/{job}", params=query)


def folders(running: Any) -> set[str]:
    jobs: Path = running.pool.engine._parts.executor._layout.jobs
    return {path.name for path in jobs.iterdir() if not path.name.startswith(".")}


async def until_gone(running: Any, *jobs: str) -> None:
    deleted = running.pool.engine.state
    async with asyncio.timeout(PATIENCE_S):
        while folders(running) & set(jobs) or any(each.files for each in deleted.deleted_jobs.values()):
            await asyncio.sleep(0.02)


async def test_a_deleted_job_leaves_all_lists_with_its_files_and_others_stay(running: Any) -> None:
    job, other = await trained(running, key="once"), await trained(running)
    measured = await delete(running, job, dry_run=1)
    assert (measured.json()["jobs"], measured.json()["name"]) == (1, "train")
    assert measured.json()["bytes"] > 10_000
    assert job in folders(running)
    deleted = await delete(running, job)
    assert (deleted.status_code, deleted.json()["job"], deleted.json()["bytes"]) == (200, job, None)
    api = running.as_("susan")
    assert [each["id"] for each in (await api.get("/jobs")).json()["items"]] == [other]
    for path in ("", "/log", "/output", "/output/model.pt", "/checkpoints", "/points", "/metrics"):
        assert (await api.get(f"/jobs/{job}{path}")).status_code == 404
    assert (await api.patch(f"/jobs/{job}", json={"note": "x"})).status_code == 404
    assert (await delete(running, job)).status_code == 404
    await until_gone(running, job)
    assert other in folders(running)
    assert (await api.get(f"/jobs/{other}/checkpoints")).json()["items"]
    again = await running.submit("susan", "true", key="once")
    assert again["id"] != job, "the key is free again"


async def test_a_deleted_job_is_said_to_be_deleted_to_those_who_could_see_it(running: Any) -> None:
    job = await trained(running)
    await delete(running, job)
    text = f"The job “{job}”, “train”, was deleted by susan just now, with its files and its log."
    for user in ("susan", "joe"):
        for path in (f"/jobs/{job}", f"/jobs/{job}/log", f"/events?job={job}"):
            answer = await running.as_(user).get(path)
            assert (answer.status_code, answer.json()["message"]) == (404, text)
            assert answer.json()["code"] == "deleted"
    stranger = (await running.as_("jemma").get(f"/jobs/{job}")).json()
    unknown = (await running.as_("susan").get("/jobs/abcdefghijkl")).json()
    assert stranger["code"] == unknown["code"] == "not_found"
    assert (stranger["message"], unknown["message"]) == (
        f"There is no job “{job}” that you may see.",
        "There is no job “abcdefghijkl” that you may see.",
    )
    assert (await delete(running, job)).json()["message"] == text


@pytest.mark.parametrize("call", ["cancel", "pause", "tags", "actions"])
async def test_a_job_that_is_deleted_during_a_call_is_said_to_be_deleted(
    running: Any, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is deleted after the call has found it: by a hook where the rights of the caller are checked."""
    job = await trained(running)
    deletions, find = running.pool.engine.deletions, running.pool.engine.job

    async def found_and_deleted(job_id: str) -> Any:
        monkeypatch.setattr(running.pool.engine, "job", find)
        found = await find(job_id)
        await deletions.delete(job_id, "susan")
        return found

    monkeypatch.setattr(running.pool.engine, "job", found_and_deleted)
    api = running.as_("susan")
    if call == "actions":
        acted = await api.post("/jobs/actions", json={"action": "cancel", "jobs": [job]})
        problem = acted.json()["results"][0]["problem"]
    elif call == "tags":
        problem = (await api.patch(f"/jobs/{job}", json={"note": "x"})).json()
    else:
        problem = (await api.post(f"/jobs/{job}/{call}")).json()
    text = f"The job “{job}”, “train”, was deleted by susan just now, with its files and its log."
    assert (problem["status"], problem["message"]) == (404, text)


async def test_the_hint_for_an_unknown_job_has_no_signs_of_markup(running: Any) -> None:
    hint = (await running.as_("susan").get("/jobs/abcdefghijkl")).json()["hint"]
    assert "springtide jobs" in hint
    assert "not kept any more, or of projects that you are not in" in hint
    assert "`" not in hint


async def test_what_projects_have_used_stays_exact(running: Any) -> None:
    job = await trained(running, gpus=1)
    store = running.pool.engine._parts.store.store
    before = store.read(ledger.gpu_use, 0.0, 1e12, 1e12)
    use = running.pool.engine.state.recent_use
    await delete(running, job)
    await until_gone(running, job)
    assert before
    assert store.read(ledger.gpu_use, 0.0, 1e12, 1e12) == before
    assert running.pool.engine.state.recent_use == use
    await running.pool.engine.deletions.forget(1e12)
    assert store.read(lambda connection: connection.execute(select(schema.attempts)).all()) == []
    assert store.read(ledger.gpu_use, 0.0, 1e12, 1e12) == before
    assert not running.pool.engine.state.deleted_jobs


async def test_who_may_cancel_a_job_may_delete_it_and_each_deletion_is_audited(running: Any) -> None:
    job = await trained(running)
    assert (await delete(running, job, "jemma")).status_code == 404
    refused = await delete(running, job, "joe")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await delete(running, job, "joe", dry_run=1)).status_code == 403
    assert (await delete(running, job, "admin")).status_code == 200
    own = await trained(running)
    await delete(running, own)
    found = (await running.as_("admin").get("/audit")).json()["items"]
    kept = [(each["who"], each["subject"]) for each in found if each["what"] == "job.delete"]
    assert kept == [("susan", own), ("admin", job)]
    assert found[0]["before"] == {"user": "susan", "name": "train", "project": "vision", "jobs": 1}
    assert not found[0]["undo"]


async def test_an_active_job_is_refused_with_the_way_out(running: Any) -> None:
    job = (await running.submit("susan"))["id"]
    refused = (await delete(running, job)).json()
    assert (refused["status"], refused["code"]) == (409, "active")
    assert refused["hint"] == f"Cancel it first: springtide cancel {job}"
    await running.as_("susan").post(f"/jobs/{job}/cancel")
    await running.until("susan", job, lambda found: found["state"] == "cancelled")
    assert (await delete(running, job)).status_code == 200
    await until_gone(running, job)


async def test_a_fork_keeps_its_copy_and_says_that_its_parent_was_deleted(running: Any) -> None:
    job = await trained(running)
    answer = await running.as_("susan").post(f"/jobs/{job}/fork", json={"step": 1})
    fork = await running.until("susan", answer.json()["id"], lambda found: found["ended"] is not None)
    assert (fork["rerun"]["deleted"], fork["rerun"]["text"]) == (
        False,
        "Fork of “train” at step 1 with nothing changed.",
    )
    await delete(running, job)
    await until_gone(running, job)
    api = running.as_("susan")
    fork = (await api.get(f"/jobs/{fork['id']}")).json()
    assert (fork["rerun"]["deleted"], fork["rerun"]["job"]) == (True, job)
    assert fork["rerun"]["text"] == "Fork of “train” at step 1 with nothing changed. That job was deleted."
    assert (await api.get(f"/jobs/{fork['id']}/checkpoints")).json()["items"]
    again = await api.post(f"/jobs/{fork['id']}/rerun", json={})
    assert again.status_code == 201, "its files are its own"


async def test_trials_go_with_their_sweep_alone(running: Any) -> None:
    trials = {"number": 2, "parameters": [{"x": 0}, {"x": 1}], "metric": "loss"}
    sweep = await running.submit("susan", "true", trials=trials)
    await running.until("susan", sweep["id"], lambda found: found["ended"] is not None)
    api = running.as_("susan")
    rows = [row["job"] for row in (await api.get(f"/jobs/{sweep['id']}/trials")).json()["items"]]
    refused = (await delete(running, rows[0])).json()
    assert (refused["code"], refused["hint"]) == ("part", f"Delete the sweep {sweep['id']}.")
    assert (await delete(running, sweep["id"])).json()["jobs"] == 3
    await until_gone(running, *rows)
    for job in (*rows, sweep["id"]):
        assert (await api.get(f"/jobs/{job}")).status_code == 404


async def test_several_jobs_are_measured_and_deleted_at_once(running: Any) -> None:
    jobs = [await trained(running) for _ in range(2)]
    active = (await running.submit("susan"))["id"]
    body = {"action": "delete", "jobs": [*jobs, active, "unknown"]}
    measured = (await running.as_("susan").post("/jobs/actions", json={**body, "dry_run": True})).json()["results"]
    assert all(each["deletion"]["bytes"] > 10_000 for each in measured[:2])
    assert [each["problem"]["status"] for each in measured[2:]] == [409, 404]
    assert set(jobs) <= folders(running)
    acted = (await running.as_("susan").post("/jobs/actions", json=body)).json()["results"]
    assert [each["deletion"] and each["deletion"]["job"] for each in acted] == [*jobs, None, None]
    await until_gone(running, *jobs)
    assert active in folders(running)


@pytest.mark.parametrize("user", ["susan", "joe", "jemma"])
async def test_streams_of_those_who_see_a_job_learn_that_it_is_gone(running: Any, user: str) -> None:
    job = await trained(running)
    newest = running.pool.engine.events.newest()
    await delete(running, job)
    stream = running.as_(user).stream("GET", "/events", params={"last_event_id": newest})
    async with stream as answer, asyncio.timeout(PATIENCE_S):
        async for line in answer.aiter_lines():
            assert "event: deleted" not in line or user != "jemma"
            if line.startswith("data: ") and job in line:
                assert '"user":"susan"' in line
                break
            if "event: pool" in line:
                assert user == "jemma"
                break
