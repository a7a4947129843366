"""People who leave, through the API: groups and workspaces of the hub, and whom it lets in."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.hub_extension.api.hub_configuration import HubConfiguration


async def leave(running, name="susan", user="admin", **body: Any):
    return await running.as_(user).post(f"/people/{name}/leave", json=body)


async def test_a_dry_run_says_all_and_changes_nothing(running):
    running.people.notebooks["susan"] = {""}
    running.people.groups["vision-leads"] = ["susan"]
    job = await running.submit("susan", project="vision", gpus=4)
    answer = (await leave(running, to="joe", dry_run=True)).json()
    assert answer["done"] is False
    assert answer["steps"][-3:] == [
        "The workspace is stopped.",
        "“vision” has one member less.",
        "“vision” has one lead less.",
    ]
    assert any(job["id"] in step for step in answer["steps"])
    assert "susan" in running.people.groups["vision"]
    assert running.people.notebooks["susan"] == {""}


async def test_she_is_out_of_all_projects_her_workspaces_stop_and_it_is_in_the_trail(running):
    running.people.notebooks["susan"] = {"", "other"}
    running.people.groups["vision-leads"] = ["susan"]
    answer = await leave(running)
    assert (answer.status_code, answer.json()["done"]) == (200, True)
    assert running.people.groups == {"vision": ["joe"], "speech": ["jemma"], "vision-leads": []}
    assert running.people.notebooks["susan"] == set()
    trail = {each["what"] for each in (await running.as_("admin").get("/audit")).json()["items"]}
    assert {"member.remove", "lead.remove", "workspace.stop"} <= trail


async def test_her_job_goes_to_a_member_of_its_project(running):
    job = await running.submit("susan", project="vision", gpus=4)
    refused = await leave(running, to="jemma")
    assert (refused.status_code, refused.json()["field"]) == (422, "to")
    assert "susan" in running.people.groups["vision"], "nothing has changed"
    while (answer := (await leave(running, to="joe")).json())["pending"]:
        await running.until("admin", job["id"], lambda found: found["state"] != "pausing")
    assert (await running.as_("joe").get(f"/jobs/{job['id']}")).json()["user"] == "joe", answer


async def test_what_the_hub_decides_about_is_named_and_kept(start):
    running = await start(hub=HubConfiguration(managed_groups=True))
    answer = (await leave(running)).json()
    [kept] = answer["kept"]
    assert kept.startswith("“susan” stays a member of “vision”. The hub's authenticator decides who is in which")
    assert "susan" in running.people.groups["vision"]


@pytest.mark.parametrize("user", ["susan", "joe", "bot"])
async def test_only_administrators_let_people_leave(running, user):
    assert (await leave(running, user=user)).status_code == 403
