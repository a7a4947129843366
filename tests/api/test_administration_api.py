from __future__ import annotations

from typing import Any

import pytest


async def test_a_project_is_made_with_its_group_changed_and_deleted(running):
    admin = running.as_("admin")
    made = await admin.put("/projects/new", json={"quota": 0, "weight": 2})
    assert made.status_code == 201
    assert (made.json()["name"], made.json()["weight"]) == ("new", 2)
    assert running.people.groups["new"] == []
    changed = await admin.patch("/projects/new", json={"limit": 3, "version": made.json()["version"]})
    assert (changed.status_code, changed.json()["limit"]) == (200, 3)
    assert (await admin.delete("/projects/new")).status_code == 204
    assert "new" not in running.people.groups
    assert "new" not in {project["name"] for project in (await admin.get("/pool")).json()["projects"]}


async def test_a_change_based_on_an_old_version_is_refused(running):
    admin = running.as_("admin")
    version = (await admin.get("/admin")).json()["projects"][0]["version"]
    assert (await admin.patch("/projects/vision", json={"weight": 2, "version": version})).status_code == 200
    answer = await admin.patch("/projects/vision", json={"weight": 3, "version": version})
    assert (answer.status_code, answer.json()["field"]) == (409, "version")


async def test_quotas_that_do_not_add_up_are_refused_with_the_numbers(running):
    answer = await running.as_("admin").patch("/projects/vision", json={"quota": 3})
    assert (answer.status_code, answer.json()["field"]) == (409, "quota")
    assert "5" in answer.json()["message"]
    assert "4" in answer.json()["message"]


async def test_a_group_made_for_a_project_that_is_refused_goes_again(running):
    answer = await running.as_("admin").put("/projects/new", json={"quota": 9})
    assert answer.status_code == 409
    assert "new" not in running.people.groups


async def test_a_group_that_was_there_before_stays(running):
    running.people.groups["new"] = ["susan"]
    assert (await running.as_("admin").put("/projects/new", json={"quota": 9})).status_code == 409
    assert running.people.groups["new"] == ["susan"]


async def test_a_hub_that_refuses_is_passed_on_and_nothing_is_changed(running):
    running.people.hub_refuses = True
    admin = running.as_("admin")
    for method, path in [("PUT", "/projects/new"), ("PUT", "/projects/vision/members/jemma")]:
        answer = await admin.request(method, path, json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "hub_refused")
    names = {project["name"] for project in (await admin.get("/admin")).json()["projects"]}
    assert names == {"vision", "speech"}
    assert (await admin.get("/audit")).json()["items"][0]["what"] == "project.create"


async def test_a_group_that_the_hub_does_not_let_go_is_told(running):
    admin = running.as_("admin")
    assert (await admin.put("/projects/new", json={})).status_code == 201
    running.people.hub_refuses = True
    answer = await admin.delete("/projects/new")
    assert (answer.status_code, answer.json()["code"]) == (403, "hub_refused")
    assert "The project is deleted" in answer.json()["message"]
    assert "new" in running.people.groups


async def test_members_come_and_go_and_the_trail_tells(running):
    admin = running.as_("admin")
    for _ in range(2):
        assert (await admin.put("/projects/vision/members/jemma")).status_code == 204
    assert "jemma" in running.people.groups["vision"]
    for _ in range(2):
        assert (await admin.delete("/projects/vision/members/joe")).status_code == 204
    trail = (await admin.get("/audit")).json()["items"]
    assert [(entry["who"], entry["what"], entry["subject"]) for entry in trail[:2]] == [
        ("admin", "member.remove", "vision"),
        ("admin", "member.add", "vision"),
    ]
    assert trail[1]["before"] == {"members": ["joe", "susan"]}
    assert trail[1]["after"] == {"members": ["jemma", "joe", "susan"]}


async def test_a_member_whose_build_quota_would_exceed_the_machine_is_refused(running):
    admin = running.as_("admin")
    assert (await admin.put("/projects/speech/members/susan")).status_code == 204
    answer = await admin.put("/projects/speech/members/joe")
    assert (answer.status_code, answer.json()["code"]) == (409, "sums")
    assert "joe" not in running.people.groups["speech"]


async def test_groups_of_the_hub_that_are_no_projects_are_left_alone(running):
    running.people.groups["staff"] = []
    admin = running.as_("admin")
    for method in ("PUT", "DELETE"):
        answer = await admin.request(method, "/projects/staff/members/susan")
        assert answer.status_code == 404
    assert running.people.groups["staff"] == []


async def test_a_build_quota_of_ones_own_shows_everywhere(running):
    admin = running.as_("admin")
    assert (await running.as_("susan").get("/me")).json()["build_quota"] == 0
    answer = await admin.patch("/people/susan", json={"build_quota": 1})
    assert (answer.status_code, answer.json()["own_build_quota"]) == (200, 1)
    assert (await running.as_("susan").get("/me")).json()["build_quota"] == 1
    assert (await running.as_("springtide").get("/build-quota/susan")).json()["quota"] == 1
    refused = await admin.patch("/people/susan", json={"build_quota": 9})
    assert (refused.status_code, refused.json()["code"]) == (409, "sums")


async def test_a_change_is_taken_back_once(running):
    admin = running.as_("admin")
    await admin.patch("/projects/vision", json={"weight": 5})
    entry = (await admin.get("/audit")).json()["items"][0]
    assert (entry["what"], entry["undo"]) == ("project.change", True)
    assert (await admin.post(f"/audit/{entry['id']}/undo")).status_code == 204
    projects = (await admin.get("/admin")).json()["projects"]
    assert next(project["weight"] for project in projects if project["name"] == "vision") == 1
    assert (await admin.post(f"/audit/{entry['id']}/undo")).status_code == 409


async def last_change(admin):
    return (await admin.get("/audit")).json()["items"][0]


async def test_who_was_put_in_or_taken_out_is_put_back(running):
    admin = running.as_("admin")
    await admin.put("/projects/vision/members/jemma")
    added = await last_change(admin)
    assert added["undo"] is True
    assert (await admin.post(f"/audit/{added['id']}/undo")).status_code == 204
    assert running.people.groups["vision"] == ["susan", "joe"]
    removed = await last_change(admin)
    assert (removed["what"], removed["after"]) == ("undo.member.add", {"members": ["joe", "susan"]})
    assert (await admin.post(f"/audit/{added['id']}/undo")).status_code == 409


async def test_an_undo_is_marked_as_one_and_is_not_taken_back(running):
    admin = running.as_("admin")
    await admin.patch("/projects/vision", json={"weight": 5})
    await admin.put("/projects/vision/members/jemma")
    added = await last_change(admin)
    await admin.post(f"/audit/{added['id']}/undo")
    of_member = await last_change(admin)
    await admin.post(f"/audit/{added['id'] - 1}/undo")
    of_project = await last_change(admin)
    assert (of_member["what"], of_project["what"]) == ("undo.member.add", "undo.project.change")
    for entry in (of_member, of_project):
        assert entry["undo"] is False
        assert (await admin.post(f"/audit/{entry['id']}/undo")).status_code == 409


async def test_membership_that_was_changed_since_is_not_taken_back(running):
    admin = running.as_("admin")
    await admin.put("/projects/vision/members/jemma")
    added = await last_change(admin)
    running.people.groups["vision"].remove("jemma")
    answer = await admin.post(f"/audit/{added['id']}/undo")
    assert (answer.status_code, answer.json()["code"]) == (409, "changed")


async def test_membership_is_taken_back_with_the_admins_own_rights(running):
    admin = running.as_("admin")
    await admin.put("/projects/vision/members/jemma")
    added = await last_change(admin)
    running.people.hub_refuses = True
    answer = await admin.post(f"/audit/{added['id']}/undo")
    assert (answer.status_code, answer.json()["code"]) == (403, "hub_refused")
    running.people.hub_refuses = False
    assert (await admin.post(f"/audit/{added['id']}/undo")).status_code == 204


async def test_a_deleted_project_comes_back_with_a_group(running):
    admin = running.as_("admin")
    await admin.put("/projects/new", json={"weight": 3})
    await admin.delete("/projects/new")
    entry = await last_change(admin)
    assert (await admin.post(f"/audit/{entry['id']}/undo")).status_code == 204
    assert running.people.groups["new"] == []
    assert (await admin.delete("/projects/new")).status_code == 204
    assert "new" not in running.people.groups


async def test_a_group_that_was_not_made_for_the_project_outlives_it(running):
    running.people.groups["staff"] = ["susan"]
    admin = running.as_("admin")
    assert (await admin.put("/projects/staff", json={})).status_code == 201
    assert (await admin.delete("/projects/staff")).status_code == 204
    assert running.people.groups["staff"] == ["susan"]


@pytest.mark.parametrize("number", ["0", "999999", "x", "-1", "1.5", "9" * 40])
async def test_a_change_that_is_not_there_cannot_be_taken_back(running, number):
    assert (await running.as_("admin").post(f"/audit/{number}/undo")).status_code in {404, 422}


async def test_a_cancel_of_somebody_elses_job_is_in_the_trail(running):
    job = await running.submit("susan")
    await running.as_("admin").post(f"/jobs/{job['id']}/cancel")
    entry = (await running.as_("admin").get("/audit")).json()["items"][0]
    assert (entry["who"], entry["what"], entry["subject"]) == ("admin", "job.cancel", job["id"])


@pytest.mark.parametrize("action", ["pause", "resume"])
async def test_a_pause_and_a_resume_of_somebody_elses_job_are_in_the_trail(running, action):
    job = await running.submit("susan")
    await running.as_("susan").post(f"/jobs/{job['id']}/pause")
    for person in ("susan", "admin"):
        await running.as_(person).post(f"/jobs/{job['id']}/{action}")
    entries = [each for each in await trail(running) if each["subject"] == job["id"]]
    assert [(each["who"], each["what"]) for each in entries] == [("admin", f"job.{action}")]
    assert entries[0]["before"] == {"user": "susan", "name": job["name"]}


async def trail(running) -> list[dict[str, Any]]:
    return (await running.as_("admin").get("/audit")).json()["items"]


@pytest.mark.parametrize(("path", "what"), [("log", "job.read_log"), ("output", "job.read_outputs")])
async def test_a_log_or_files_read_from_outside_the_project_are_in_the_trail_once(running, path, what):
    job = await running.submit("susan")
    running.people.join("jemma", job["project"])
    for person in ("susan", "jemma", "admin", "admin"):
        assert (await running.as_(person).get(f"/jobs/{job['id']}/{path}")).status_code == 200
    entries = [each for each in await trail(running) if each["subject"] == job["id"]]
    assert [(each["who"], each["what"]) for each in entries] == [("admin", what)]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"quota": -1}, "quota"),
        ({"quota": True}, "quota"),
        ({"quota": 1.0}, "quota"),
        ({"limit": 10**9}, "limit"),
        ({"weight": -1}, "weight"),
        ({"weight": "1"}, "weight"),
        ({"parent": "nowhere"}, "parent"),
        ({"parent": "vision"}, "parent"),
        ({"colour": 1}, "colour"),
    ],
)
async def test_a_wrong_field_of_a_project_is_named(shared, body, field):
    answer = await shared.as_("admin").patch("/projects/vision", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["a%0Ab", "x" * 65, "a%2Fb", "%00"])
async def test_a_wrong_name_of_a_project_is_refused(shared, name):
    answer = await shared.as_("admin").put(f"/projects/{name}", json={})
    assert answer.status_code in {404, 422}


async def test_the_spawner_reserves_within_the_quota_and_the_same_again(running):
    running.people.notebooks["jemma"] = {""}
    spawner = running.as_("springtide")
    first = await spawner.post("/workspaces", json={"user": "jemma", "gpus": 1})
    again = await spawner.post("/workspaces", json={"user": "jemma", "gpus": 1})
    assert first.status_code == 200
    assert first.json() == again.json()
    assert len(first.json()["uuids"]) == 1
    over = await spawner.post("/workspaces", json={"user": "jemma", "server": "second", "gpus": 1})
    assert over.status_code == 409
    assert "quota of 1" in over.json()["message"]
    assert (await spawner.get("/build-quota/jemma")).json()["held"] == 1
    assert (await spawner.delete("/workspaces/jemma")).status_code == 204
    assert (await spawner.delete("/workspaces/jemma")).status_code == 204
    assert (await spawner.get("/build-quota/jemma")).json()["held"] == 0


async def test_gpus_of_a_notebook_that_is_gone_from_the_hub_do_not_keep_others_from_starting(running):
    spawner = running.as_("springtide")
    notebook = {"user": "jemma", "server": "old", "gpus": 1}
    assert (await spawner.post("/workspaces", json=notebook)).status_code == 200
    running.people.notebooks["jemma"] = {"old", "new"}
    refused = await spawner.post("/workspaces", json={**notebook, "server": "new"})
    assert refused.status_code == 409
    running.people.notebooks["jemma"] = {"new"}
    assert (await spawner.post("/workspaces", json={**notebook, "server": "new"})).status_code == 200
    assert [(one.user, one.server) for one in running.pool.engine.workspaces()] == [("jemma", "new")]


async def test_a_person_sees_her_own_build_quota_and_no_others(running):
    jemma = running.as_("jemma")
    assert (await jemma.get("/build-quota/jemma")).json()["quota"] == 1
    assert (await jemma.get("/build-quota/susan")).status_code == 403
    assert (await running.as_("admin").get("/build-quota/jemma")).json()["projects"] == ["speech"]


async def test_me_offers_what_one_may_ask_for(running):
    me = (await running.as_("susan").get("/me")).json()
    assert (me["name"], me["admin"], me["simulated"]) == ("susan", False, True)
    assert [(choice["name"], choice["quota"], choice["max_gpus"]) for choice in me["projects"]] == [
        ("vision", 2, 4)
    ]
    assert me["priorities"]["train"] == 50
    assert [choice["name"] for choice in (await running.as_("admin").get("/me")).json()["projects"]] == [
        "vision",
        "speech",
    ]


@pytest.mark.parametrize(
    "query", ["start=5&end=1", "start=nan", "end=inf", "start=-1", "start=0&end=100000000000"]
)
async def test_a_wrong_span_of_history_is_named(running, query):
    answer = await running.as_("susan").get(f"/history?{query}")
    assert answer.status_code == 422
    assert answer.json()["field"] in {"start", "end"}


async def test_the_history_of_the_last_day_is_the_default(running):
    history = (await running.as_("susan").get("/history")).json()
    assert history["total"] == 4
    assert round(history["end"] - history["start"]) == 86_400


async def test_metrics_are_for_tokens_and_for_the_own_account_on_this_machine(running):
    await running.submit("susan")
    for headers in ({}, {"Authorization": "token susan", "X-Forwarded-For": "192.0.2.1"}):
        answer = await running.as_(None, **headers).get("/metrics")
        assert answer.status_code == 200
        assert 'springtide_project_held_gpus{gpu_type="simulated",project="vision"} 1.0' in answer.text
        assert 'springtide_call_seconds_count{call="POST /jobs"} 1.0' in answer.text
    for name in ("X-Forwarded-For", "X-Real-Ip"):
        assert (await running.as_(None, **{name: "127.0.0.1"}).get("/metrics")).status_code == 401


async def test_anyone_may_ask_whether_the_service_is_there(running):
    answer = await running.as_(None).get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


EDITS = {
    "fits": ({"quota": 1, "weight": 2}, False),
    "more than the pool": ({"quota": 3}, False),
    "another build quota": ({"build_quota": 90}, False),
    "an older version": ({"quota": 1, "version": 90}, False),
    "a new one": ({"quota": 0}, True),
    "a new one that is too large": ({"quota": 9}, True),
}


@pytest.mark.parametrize(("edit", "new"), EDITS.values(), ids=EDITS)
async def test_a_preview_of_an_edit_is_refused_in_the_words_of_the_edit_and_changes_nothing(running, edit, new):
    admin, name = running.as_("admin"), "new" if new else "vision"
    before = (await admin.get("/admin")).json()
    preview = await admin.post(f"/projects/{name}/preview", json=edit, params={"new": int(new)})
    assert (await admin.get("/admin")).json() == before
    answer = await admin.request("PUT" if new else "PATCH", f"/projects/{name}", json=edit)
    assert preview.status_code == 200, preview.text
    assert preview.json()["refused"] == (answer.json() if answer.status_code >= 400 else None)


async def test_a_preview_of_own_build_gpus_is_refused_in_the_words_of_the_change(running):
    admin = running.as_("admin")
    for quota in (0, 90):
        preview = (await admin.post("/people/susan/preview", json={"build_quota": quota})).json()
        answer = await admin.patch("/people/susan", json={"build_quota": quota})
        assert preview["refused"] == (answer.json() if answer.status_code >= 400 else None)
    assert answer.status_code == 409
