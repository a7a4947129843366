"""Who leads a project: as the hub's configuration has it, and as members of the group that a role is for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from springtide.hub_extension.api.hub_configuration import HubConfiguration

ADMIN = "custom:springtide:project-admin"


def role(name: str, *scopes: str, **holders: Any) -> dict[str, Any]:
    return {"name": name, "scopes": list(scopes), **holders}


@pytest.fixture
async def pool(start):
    roles = (
        role(
            "vision-admin",
            f"{ADMIN}!group=vision",
            "groups!group=vision",
            groups=["vision-leads"],
            users=["jemma"],
        ),
        role("both", f"{ADMIN}!group=vision", f"{ADMIN}!group=speech", groups=["staff"]),
        role("all", ADMIN, users=["root"]),
    )
    running = await start(hub=HubConfiguration(configured_roles=roles))
    running.people.groups |= {"vision-leads": ["susan"], "staff": ["joe"]}
    return running


async def leads(pool: Any) -> dict[str, list[tuple[str, bool]]]:
    found = (await pool.as_("admin").get("/admin")).json()["leads"]
    return {project: [(lead["name"], bool(lead["locked"])) for lead in of] for project, of in found.items()}


async def test_the_page_has_all_leads_and_which_of_them_are_locked(pool):
    assert await leads(pool) == {
        "vision": [("jemma", True), ("joe", True), ("susan", False)],
        "speech": [("joe", True)],
        "": [("root", True)],
    }
    found = (await pool.as_("admin").get("/admin")).json()["leads"]["vision"]
    assert [lead["locked"] for lead in found] == [
        "The role “vision-admin” of the hub's configuration names the person.",
        "The role “both” of the hub's configuration is for several projects.",
        "",
    ]


async def test_a_lead_is_made_and_unmade_in_the_group_and_both_can_be_undone(pool):
    admin = pool.as_("admin")
    for _ in range(2):
        assert (await admin.put("/projects/vision/leads/anna")).status_code == 204
    assert pool.people.groups["vision-leads"] == ["susan", "anna"]
    assert (await admin.delete("/projects/vision/leads/susan")).status_code == 204
    assert ("susan", False) not in (await leads(pool))["vision"]
    entries = (await admin.get("/audit?what=lead")).json()["items"]
    assert [(each["what"], each["subject"], each["undo"]) for each in entries] == [
        ("lead.remove", "vision", True),
        ("lead.add", "vision", True),
    ]
    for entry in entries:
        assert (await admin.post(f"/audit/{entry['id']}/undo")).status_code == 204
    assert pool.people.groups["vision-leads"] == ["susan"]
    again = await admin.post(f"/audit/{entries[0]['id']}/undo")
    assert (again.status_code, again.json()["code"]) == (409, "undone")
    newest = (await admin.get("/audit?what=undo.lead")).json()["items"]
    assert {each["what"] for each in newest} == {"undo.lead.add", "undo.lead.remove"}


async def test_a_change_of_leads_that_was_changed_since_stays(pool):
    admin = pool.as_("admin")
    await admin.put("/projects/vision/leads/anna")
    entry = (await admin.get("/audit?what=lead")).json()["items"][0]
    pool.people.groups["vision-leads"].remove("anna")
    answer = await admin.post(f"/audit/{entry['id']}/undo")
    assert (answer.status_code, answer.json()["code"]) == (409, "changed")


async def test_without_a_role_for_a_group_the_answer_has_the_lines_to_add(pool):
    answer = await pool.as_("admin").put("/projects/speech/leads/anna")
    assert answer.status_code == 409
    assert f'"{ADMIN}!group=speech"' in answer.json()["hint"]
    assert (await pool.as_("admin").put("/projects/nowhere/leads/anna")).status_code == 404


@pytest.mark.parametrize("user", ["susan", "bot"])
async def test_only_administrators_of_the_pool_change_leads(pool, user):
    pool.people.callers["susan"] = replace(pool.people.callers["susan"], administers=frozenset({"vision"}))
    assert (await pool.as_(user).put("/projects/vision/leads/joe")).status_code == 403


async def test_members_whom_the_hub_decides_about_are_not_changed_and_the_answer_says_why(start):
    managed = await start(hub=HubConfiguration(managed_groups=True))
    admin = managed.as_("admin")
    answer = await admin.put("/projects/vision/members/jemma")
    assert (answer.status_code, "authenticator" in answer.json()["message"]) == (409, True)
    assert "authenticator" in (await admin.get("/admin")).json()["locked_members"]
    configured = await start(hub=HubConfiguration(configured_groups={"vision": ("susan",)}))
    admin = configured.as_("admin")
    assert (await admin.delete("/projects/vision/members/susan")).status_code == 409
    assert (await admin.delete("/projects/vision/members/joe")).status_code == 204
    assert (await admin.put("/projects/vision/members/jemma")).status_code == 204
    assert (await admin.get("/admin")).json()["configured_members"] == {"vision": ["susan"]}
    file = {"projects": {"vision": {"members": ["joe"]}}}
    found = (await admin.put("/pool-file", json={"file": file, "dry_run": True})).json()
    assert found["kept"][0].startswith("“susan” stays in “vision”")
