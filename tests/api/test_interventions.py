"""Admins and leads of projects hold, release, edit and move jobs of others, one or several at a time."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.hub_extension.web.caller import Caller
from springtide.scheduler import wire

WHY = {"reason": "Its data may not be used any more."}


@pytest.fixture
async def pool(running: Any) -> Any:
    """A service with a lead of the project vision."""
    running.people.callers["lead"] = Caller("lead", token="lead", administers=frozenset({"vision"}))
    return running


async def waiting(pool: Any, user: str = "susan", **fields: Any) -> str:
    """The id of a job that its user has paused."""
    job = str((await pool.submit(user, **fields))["id"])
    await pool.as_(user).post(f"/jobs/{job}/pause")
    await pool.until(user, job, lambda found: found["state"] == "paused")
    return job


async def test_a_lead_holds_a_running_job_and_its_owner_cannot_undo_it(pool: Any) -> None:
    job = (await pool.submit("susan"))["id"]
    await pool.until("susan", job, lambda found: found["state"] == "running")
    held = await pool.as_("lead").post(f"/jobs/{job}/hold", json=WHY)
    assert held.status_code == 200, held.text
    await pool.as_("susan").post(f"/jobs/{job}/resume")
    found = await pool.until("susan", job, lambda found: found["state"] in {"paused", "queued"})
    assert (found["hold"]["by"], found["hold"]["reason"]) == ("lead", WHY["reason"])
    assert found["reason"]["headline"] == "Put on hold by “lead”."
    assert (await pool.as_("susan").post(f"/jobs/{job}/release", json={})).status_code == 403
    await pool.as_("admin").post(f"/jobs/{job}/release", json={})
    await pool.until("susan", job, lambda found: found["state"] == "running")


async def test_several_jobs_are_held_edited_and_released_at_once_each_by_itself(pool: Any) -> None:
    mine = [await waiting(pool) for _ in range(2)]
    theirs = await waiting(pool, "jemma")
    lead = pool.as_("lead")

    async def act(**body: Any) -> list[dict[str, Any]]:
        answer = await lead.post("/jobs/actions", json={"jobs": [*mine, theirs], **body})
        assert answer.status_code == 200, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        assert results[2]["problem"]["status"] in {403, 404}
        return results[:2]

    held = await act(action="hold", hold=WHY)
    assert [each["job"]["hold"]["by"] for each in held] == ["lead", "lead"]
    edited = await act(action="edit", edit={"priority": "high", "reason": "A deadline."})
    assert [each["job"]["options"]["priority"] for each in edited] == [75, 75]
    released = await act(action="release")
    assert [each["job"]["hold"] for each in released] == [None, None]
    [no_reason, *_] = (await lead.post("/jobs/actions", json={"jobs": mine, "action": "hold"})).json()["results"]
    assert no_reason["problem"]["message"] == "A hold needs a reason."


async def test_an_owner_moves_her_job_to_another_project_of_hers_alone(pool: Any) -> None:
    job = await waiting(pool)
    susan, path = pool.as_("susan"), f"/jobs/{job}/edit"
    refused = await susan.post(path, json={"project": "speech"})
    assert (refused.status_code, refused.json()["field"]) == (403, "project")
    pool.people.join("susan", "speech")
    moved = await pool.as_("susan").post(path, json={"project": "speech"})
    assert moved.json()["project"] == "speech", moved.text


async def test_a_lead_moves_jobs_of_others_only_where_she_leads_and_their_owners_are_members(pool: Any) -> None:
    job = await waiting(pool)
    lead, path = pool.as_("lead"), f"/jobs/{job}/edit"
    assert (await lead.post(path, json={"project": "speech"})).status_code == 403
    pool.people.callers["lead"] = Caller("lead", token="lead", administers=frozenset({"vision", "speech"}))
    refused = await pool.as_("lead").post(path, json={"project": "speech"})
    assert (refused.status_code, "is not a member of “speech”" in refused.json()["message"]) == (422, True)
    pool.people.join("susan", "speech")
    assert (await pool.as_("lead").post(path, json={"project": "speech"})).status_code == 200
    unknown = await pool.as_("admin").post(path, json={"project": "nobody"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "unknown_project")


async def test_an_owner_raises_the_priority_within_the_range_of_her_project(pool: Any) -> None:
    job = await waiting(pool)
    edit = wire.ProjectEdit(ranges=wire.JobRanges(max_priority=60))
    await pool.pool.engine.edit_project("vision", edit, "admin", members={})
    susan, path = pool.as_("susan"), f"/jobs/{job}/edit"
    assert (await susan.post(path, json={"priority": 60})).json()["options"]["priority"] == 60
    refused = await susan.post(path, json={"priority": "high"})
    assert (refused.status_code, refused.json()["field"]) == (422, "priority")


@pytest.mark.parametrize("body", [{"name": "x"}, {"priority": -1}, {"time_limit": 0}, {"reason": "a\u0000b"}, []])
async def test_edits_that_are_none_are_refused(pool: Any, body: Any) -> None:
    job = await waiting(pool)
    assert (await pool.as_("susan").post(f"/jobs/{job}/edit", json=body)).status_code in {400, 422}


async def test_a_lead_freezes_her_project_alone_until_a_time(pool: Any) -> None:
    lead, until = pool.as_("lead"), pool.pool.clock() + 3600
    frozen = await lead.post("/projects/vision/freeze", json={"why": "A review", "until": until})
    assert frozen.json()["freeze"]["until"] == until, frozen.text
    job = (await pool.submit("susan"))["id"]
    found = (await pool.as_("susan").get(f"/jobs/{job}")).json()
    assert (found["state"], found["hold"]["project"], found["hold"]["until"]) == ("queued", "vision", until)
    refused = await lead.post("/projects/speech/freeze", json={})
    assert (refused.status_code, (await lead.post("/projects/speech/unfreeze")).status_code) == (403, 403)
    past = await lead.post("/projects/vision/freeze", json={"until": 1.0})
    assert (past.status_code, past.json()["field"]) == (422, "until")
    assert (await lead.post("/projects/vision/unfreeze")).json()["freeze"] is None
    await pool.until("susan", job, lambda found: found["state"] == "running")


async def test_numbers_rules_and_drains_take_an_end(pool: Any) -> None:
    admin, until = pool.as_("admin"), pool.pool.clock() + 3600
    view = (await admin.patch("/projects/vision", json={"weight": 2, "until": until})).json()
    assert view["endings"]["weight"] == {"until": until, "by": "admin", "before": 1.0, "refused": ""}
    node = (await admin.post("/nodes/drain", json={"node": "train", "until": until})).json()
    assert node["drain"]["until"] == until
    rules = await admin.patch("/idle-rules", json={"rule": {"tell_after": 60}, "until": until})
    assert rules.json()["until"] == until
    person = await admin.patch("/people/jemma", json={"build_quota": 0, "until": until})
    assert person.json()["ending"]["until"] == until


async def test_admins_set_budgets_and_leads_see_those_of_their_projects(pool: Any) -> None:
    admin, lead, path = pool.as_("admin"), pool.as_("lead"), "/projects/vision/budget"
    no_price = await admin.put(path, json={"amount": 10.0})
    assert (no_price.status_code, no_price.json()["field"]) == (422, "unit")
    given = await admin.put(path, json={"amount": 10.0, "unit": "gpu-hours", "beyond": "no-borrowing"})
    assert given.status_code == 200, given.text
    assert given.json()["text"].startswith("The project “vision” has spent 0 of 10 GPU-hours of its budget for ")
    await admin.put("/projects/speech/budget", json={"amount": 5.0, "unit": "gpu-hours"})

    async def seen(client: Any) -> list[str]:
        return [each["project"] for each in (await client.get("/admin")).json()["budgets"]]

    assert await seen(admin) == ["speech", "vision"]
    assert await seen(lead) == ["vision"]
    assert (await lead.delete(path)).status_code == (await pool.as_("susan").get("/admin")).status_code == 403
    assert (await admin.delete(path)).status_code == 204
    assert ((await admin.delete(path)).status_code, await seen(admin)) == (404, ["speech"])


@pytest.mark.parametrize("body", [{}, {"amount": 0}, {"amount": -1}, {"amount": 1, "unit": "€"}, {"amount": "1"}])
async def test_budgets_that_are_none_are_refused(pool: Any, body: Any) -> None:
    assert (await pool.as_("admin").put("/projects/vision/budget", json=body)).status_code in {400, 422}


async def test_an_end_without_a_change_is_refused(pool: Any) -> None:
    refused = await pool.as_("admin").patch("/projects/vision", json={"until": pool.pool.clock() + 3600})
    assert (refused.status_code, refused.json()["field"]) == (422, "until")


async def test_a_drain_answers_with_the_entry_that_takes_it_back_and_only_admins_do(pool: Any) -> None:
    admin, lead = pool.as_("admin"), pool.as_("lead")
    drained = (await admin.post("/nodes/drain", json={"node": "train", "why": "A fan."})).json()
    assert (await admin.post("/nodes/drain", json={"node": "train", "why": "A fan."})).json()["entry"] is None
    refused = await lead.post(f"/audit/{drained['entry']}/undo")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    undrained = (await admin.post("/nodes/undrain", json={"node": "train"})).json()
    overtaken = await admin.post(f"/audit/{drained['entry']}/undo")
    assert overtaken.status_code == 409
    assert "“train” was changed since" in overtaken.json()["message"]
    assert "“admin” undrained it at" in overtaken.json()["message"]
    assert (await admin.post(f"/audit/{undrained['entry']}/undo")).status_code == 204
    node = next(each for each in (await admin.get("/pool")).json()["nodes"] if each["name"] == "train")
    assert (node["drain"]["by"], node["drain"]["why"]) == ("admin", "A fan.")
    assert (await admin.post("/nodes/undrain", json={"node": "train"})).status_code == 200
    assert (await admin.post("/nodes/undrain", json={"node": "train"})).json() == {"entry": None}


async def test_a_lead_freezes_her_project_and_an_admin_takes_it_back(pool: Any) -> None:
    assert (await pool.as_("lead").post("/projects/vision/freeze", json={"why": "Late."})).status_code == 200
    entry = (await pool.as_("lead").get("/audit")).json()["items"][0]
    assert (entry["what"], entry["undo"]) == ("project.freeze", False), "not for her"
    entry = (await pool.as_("admin").get("/audit")).json()["items"][0]
    assert entry["undo"]
    assert (await pool.as_("lead").post(f"/audit/{entry['id']}/undo")).status_code == 403
    assert (await pool.as_("admin").post(f"/audit/{entry['id']}/undo")).status_code == 204
    views = (await pool.as_("lead").get("/pool")).json()["projects"]
    assert next(each for each in views if each["name"] == "vision")["freeze"] is None


async def test_a_preview_says_what_a_lead_may_not_change(pool: Any) -> None:
    for name, new in (("vision", 0), ("new", 1)):
        preview = await pool.as_("lead").post(f"/projects/{name}/preview", json={"quota": 0}, params={"new": new})
        assert preview.json()["refused"]["code"] == "forbidden", preview.text
    assert (await pool.as_("susan").post("/projects/vision/preview", json={})).status_code == 403
