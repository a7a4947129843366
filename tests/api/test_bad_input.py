"""Bad input gets a clear error, and nothing is lost by it: accepted jobs are unaffected."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

FITS_NOWHERE = "the largest train node has 4"

BAD = {
    "an unknown project": ({"project": "nobody"}, "project", "There is no project “nobody”."),
    "a project of others": ({"project": "speech"}, "project", "You are not in project “speech”."),
    "more GPUs than any node": ({"gpus": 5}, "gpus", FITS_NOWHERE),
    "more GPUs than the limit": ({"gpus": 4}, "gpus", "may never hold more than 3"),
    "more workers than room": ({"gpus": 1, "workers": 5}, "workers", "room for 4"),
    "negative GPUs": ({"gpus": -1}, "gpus", "gpus is -1; expected a whole number from 0"),
    "half a GPU": ({"gpus": 0.5}, "gpus", "gpus is 0.5; expected a whole number"),
    "a fraction that is whole": ({"gpus": 2.0}, "gpus", "gpus is 2.0; expected a whole number"),
    "absurd GPUs": ({"gpus": 10**9}, "gpus", "gpus is 1000000000; expected a whole number"),
    "GPUs beyond counting": ({"gpus": 10**30}, "gpus", "expected a whole number"),
    "GPUs as text": ({"gpus": "4"}, "gpus", "expected a whole number"),
    "true GPUs": ({"gpus": True}, "gpus", "gpus is true; expected a whole number"),
    "a variable that is no text": ({"env": {"A": 3}}, "env", "env.A is 3; expected text"),
    "no command": ({"argv": []}, "argv", "argv"),
    "a file outside the job's folder": ({"files": {"../x": "eA=="}}, "files", "“../x”"),
    "a command whose files were not sent": (
        {"argv": ["python", "{code}/train.py"]},
        "files",
        "no files were sent",
    ),
}


async def made_busy(running):
    limit = await running.as_("admin").patch("/projects/vision", json={"limit": 3})
    assert limit.status_code == 200
    job = await running.submit("susan")
    await running.until("susan", job["id"], lambda job: job["state"] == "running")
    return running, job["id"]


@pytest.fixture
async def busy(running):
    """A service with a project that has a limit, and a job that runs."""
    return await made_busy(running)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_busy(shared):
    """The same, for all submissions that are refused."""
    return await made_busy(shared)


async def nothing_was_lost(running, job):
    [left] = (await running.as_("admin").get("/jobs")).json()["items"]
    assert (left["id"], left["state"], left["attempt"]) == (job, "running", 1)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("what", BAD)
async def test_a_submission_that_cannot_be_is_refused_naming_field_and_way_out(shared_busy, what):
    running, job = shared_busy
    fields: Any
    fields, field, says = BAD[what]
    answer = await running.as_("susan").post("/jobs", json={"argv": ["true"], **fields})
    assert answer.status_code in {403, 422}
    problem = answer.json()
    assert (problem["status"], problem["field"]) == (answer.status_code, field)
    assert says in problem["message"]
    await nothing_was_lost(running, job)


async def test_a_full_disk_is_told_and_what_runs_goes_on(busy):
    running, job = busy
    store = running.pool.engine._parts.store.store
    with store._writer.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    body = {"argv": ["true"], "source": "x" * 150_000}
    refused = await running.as_("susan").post("/jobs", json=body)
    assert (refused.status_code, refused.json()["code"]) == (507, "disk_full")
    assert "Nothing was accepted" in refused.json()["message"]
    await nothing_was_lost(running, job)
    assert (await running.as_("susan").get("/ready")).status_code == 200, "small writes still fit"
    with store._writer.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    accepted = await running.as_("susan").post("/jobs", json=body)
    assert accepted.status_code == 201


HARD_TO_END = {
    "ignores SIGTERM": "trap '' TERM; echo ready; while true; do sleep 1; done",
    "forks away": "(setsid sh -c 'trap \"\" TERM HUP; sleep 600' &) ; echo ready; sleep 600",
}


@pytest.mark.parametrize("what", HARD_TO_END)
async def test_a_job_that_does_not_want_to_end_gives_its_gpus_back(running, what):
    job = await running.submit("susan", "sh", "-c", HARD_TO_END[what], gpus=4)
    await running.until("susan", job["id"], lambda job: job["state"] == "running")
    susan = running.as_("susan")
    log = (await susan.get(f"/jobs/{job['id']}/log?wait=20")).json()
    assert log["text"] == "ready\n"
    assert (await susan.post(f"/jobs/{job['id']}/cancel")).status_code == 200
    await running.until("susan", job["id"], lambda job: job["state"] == "cancelled")
    after = await running.submit("jemma", gpus=4)
    await running.until("jemma", after["id"], lambda job: job["state"] == "running")


async def test_a_job_that_asks_to_be_run_again_for_ever_waits_longer_each_time_and_says_why(running):
    job = await running.submit("susan", "sh", "-c", "exit 75")
    waits = await running.until("susan", job["id"], lambda job: job["state"] == "paused")
    assert "exit code 75" in waits["reason"]["text"]
    assert (waits["failures"], waits["exit_code"]) == (0, 75)
    assert (await running.as_("susan").get("/pool")).json()["train_held"] == 0
