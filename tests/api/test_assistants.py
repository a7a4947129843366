"""What an AI assistant may do follows from its token, such as that of a service that may only see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from programs.assistants import assistant

from springtide.hub_extension.web.caller import Caller


async def test_an_assistant_with_the_token_of_a_viewing_service_sees_a_project_and_changes_nothing(
    running: Any, tmp_path: Path
) -> None:
    viewer = Caller("viewer", service=True, views=frozenset({"vision"}), token="viewer")
    running.people.callers["viewer"] = viewer
    susans = (await running.submit("susan"))["id"]
    jemmas = (await running.submit("jemma"))["id"]
    await running.until("susan", susans, lambda job: job["state"] == "running")
    async with assistant(running.url.rstrip("/"), tmp_path, user="viewer") as assistants:
        listed = (await assistants.call("list_jobs", everyone=True))["jobs"]
        assert [job["job"] for job in listed] == [susans]
        assert (await assistants.call("list_jobs"))["jobs"] == []
        for tool in ("show_job", "explain_job", "read_log", "read_metrics"):
            await assistants.call(tool, job=susans)
            assert "There is no job" in await assistants.refused(tool, job=jemmas)
        for tool in ("pause_job", "cancel_job", "resume_job"):
            for job in (susans, jemmas):
                assert await assistants.refused(tool, job=job)
        for dry_run in (True, False):
            asked = {"command": ["true"], "options": {"project": "vision"}, "dry_run": dry_run}
            assert await assistants.refused("submit_job", **asked)
    assert (await running.as_("susan").get(f"/jobs/{susans}")).json()["state"] == "running"
    assert len((await running.as_("admin").get("/jobs")).json()["items"]) == 2


async def test_a_members_token_may_do_what_the_member_may(running: Any, tmp_path: Path) -> None:
    async with assistant(running.url.rstrip("/"), tmp_path, user="joe") as joes:
        job = (await joes.call("submit_job", command=["sleep", "600"], dry_run=False))["job"]
        assert (job["user"], job["project"]) == ("joe", "vision")
        assert (await joes.call("cancel_job", job=job["job"]))["job"] == job["job"]
