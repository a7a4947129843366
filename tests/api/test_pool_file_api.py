"""The pool as a file through the API: what it takes, whom it lets in, and the hub's groups."""

from __future__ import annotations

from typing import Any

import pytest


async def put(running, file: dict[str, Any], user: str = "admin", **more: Any):
    return await running.as_(user).put("/pool-file", json={"file": file, **more})


def texts(answer) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [change["text"] for change in answer.json()["changes"]]


async def trail(running) -> list[tuple[str, str, Any]]:
    items = (await running.as_("admin").get("/audit")).json()["items"]
    return [(each["what"], each["subject"], each["after"].get("file")) for each in items]


async def test_an_export_applied_again_changes_nothing(running):
    view = (await running.as_("admin").get("/pool-file")).json()
    assert view["file"]["projects"]["vision"]["members"] == ["joe", "susan"]
    again = await put(running, view["file"], version=view["version"], prune=True)
    assert (texts(again), again.json()["applied"], again.json()["version"]) == ([], False, view["version"])


async def test_a_dry_run_changes_nothing_and_the_file_everything(running):
    file = {
        "projects": {
            "vision": {"quota": 1, "members": ["susan", "jemma"]},
            "nlp": {"parent": "vision", "quota": 1, "members": ["joe"]},
        }
    }
    wanted = [
        "“vision”: quota 2 → 1",
        "“vision”: “jemma” becomes a member",
        "“vision”: “joe” is no member any more",
        "“nlp” is a new project, in “vision”",
        "“nlp”: quota 0 → 1",
        "“nlp”: “joe” becomes a member",
    ]
    dry = await put(running, file, dry_run=True)
    assert (texts(dry), dry.json()["applied"], "nlp" in running.people.groups) == (wanted, False, False)
    done = await put(running, file, version=dry.json()["version"], name="pool.yaml")
    assert (texts(done), done.json()["applied"]) == (wanted, True)
    groups = {name: sorted(people) for name, people in running.people.groups.items()}
    assert groups == {"vision": ["jemma", "susan"], "nlp": ["joe"], "speech": ["jemma"]}
    assert set((await trail(running))[:5]) == {
        ("member.add", "nlp", "pool.yaml"),
        ("member.add", "vision", "pool.yaml"),
        ("member.remove", "vision", "pool.yaml"),
        ("project.change", "vision", "pool.yaml"),
        ("project.create", "nlp", "pool.yaml"),
    }
    assert texts(await put(running, file)) == []


async def test_a_change_of_members_by_a_file_can_be_undone(running):
    await put(running, {"projects": {"vision": {"members": ["susan"]}}}, name="pool.yaml")
    admin = running.as_("admin")
    entry = (await admin.get("/audit")).json()["items"][0]
    assert (entry["what"], entry["undo"]) == ("member.remove", True)
    assert (await admin.post(f"/audit/{entry['id']}/undo")).status_code == 204
    assert sorted(running.people.groups["vision"]) == ["joe", "susan"]


async def test_all_that_is_wrong_in_a_file_is_named_with_its_place(running):
    file = {
        "projekts": {},
        "projects": {"vision": {"qota": 1}, "a/b": {}, "nlp": 4, "speech": {"quota": -1}},
        "people": {"joe": {"build_quota": "one"}},
    }
    dry = await put(running, file, dry_run=True)
    said = [f"{each['field']}: {each['message']} {each['hint']}".strip() for each in dry.json()["problems"]]
    assert dry.json()["changes"] == []
    for words in (
        "projekts: There is no field “projekts”. Did you mean projects?",
        "projects.vision.qota: There is no field “qota”. Did you mean quota?",
        "projects.a/b: The name is “a/b”",
        "projects.nlp: ",
        "projects.speech.quota: quota is -1",
        "people.joe.build_quota: build_quota is “one”",
    ):
        assert any(words in each for each in said), (words, said)
    refused = await put(running, file)
    assert (refused.status_code, refused.json()["code"], "“qota”" in refused.json()["message"]) == (
        422,
        "pool_file",
        True,
    )


async def test_all_that_is_wrong_in_one_project_of_a_file_is_named(running):
    part = {"qota": 1, "members": "zoe", "weight": "2", "quota": {"t4": -1}, "priority": 3, "limit": {"": 1}}
    dry = await put(running, {"projects": {"vision": part}}, dry_run=True)
    said = {each["field"]: each["message"] for each in dry.json()["problems"]}
    assert said == {
        "projects.vision.qota": "There is no field “qota”.",
        "projects.vision.members": said["projects.vision.members"],
        "projects.vision.weight": "weight is “2”; expected a number from 0 up to 1000000.",
        "projects.vision.quota": "quota.t4 is -1; expected a whole number from 0 up to 1000000 or nothing (null).",
        "projects.vision.limit": "limit has the name “”; expected text of 1 to 128 characters.",
    }
    assert said["projects.vision.members"].startswith("members is “zoe”; expected a list of at most 10000")


async def test_a_file_with_too_many_projects_is_refused_before_they_are_read(running):
    file = {"projects": {f"project-{number}": {"quota": -1} for number in range(10_001)}}
    problems = (await put(running, file, dry_run=True)).json()["problems"]
    assert [each["message"] for each in problems] == ["projects has 10,001 names; expected at most 10,000."]


@pytest.mark.parametrize(
    ("name", "edit", "field", "message"),
    [
        ("none", {}, "name", "“none” cannot be a project's name"),
        ("Any", {}, "name", "“Any” cannot be a project's name"),
        ("e\N{COMBINING ACUTE ACCENT}tude", {}, "name", "There is a project “étude” already."),
        (
            "new",
            {"weight": 1e-320},
            "weight",
            "weight is 1e-320; expected 0 or a number from 0.000001 up to 1000000.",
        ),
        ("new", {"weight": -0.0}, "weight", "weight is -0.0; expected 0 or a number from 0.000001"),
        (
            "new",
            {"quota": -1},
            "quota",
            "quota is -1; expected a whole number from 0 up to 1000000 or nothing (null)",
        ),
    ],
)
async def test_names_and_numbers_that_would_be_misread_are_refused(running, name, edit, field, message):
    await put(running, {"projects": {"étude": {}}})
    problems = (await put(running, {"projects": {name: edit}}, dry_run=True)).json()["problems"]
    assert [each["field"] for each in problems] == [f"projects.{name}.{field}"], problems
    assert problems[0]["message"].startswith(message)
    assert "(null) or nothing" not in problems[0]["message"]


async def test_a_hub_that_refuses_changes_of_groups_changes_nothing(running):
    running.people.hub_refuses = True
    answer = await put(running, {"projects": {"vision": {"quota": 1, "members": ["susan"]}, "nlp": {}}})
    assert (answer.status_code, answer.json()["code"]) == (403, "hub_refused")
    view = (await running.as_("admin").get("/pool-file")).json()["file"]["projects"]
    assert (view["vision"]["quota"], list(view)) == (2, ["speech", "vision"])


async def test_a_pool_that_was_changed_meanwhile_keeps_its_groups_too(running):
    file = {"projects": {"vision": {"quota": 1, "members": ["susan"]}, "nlp": {}}}
    dry = (await put(running, file, dry_run=True)).json()
    assert (await running.as_("admin").patch("/projects/speech", json={"weight": 2})).status_code == 200
    answer = await put(running, file, version=dry["version"])
    assert (answer.status_code, answer.json()["field"]) == (409, "version")
    assert sorted(running.people.groups["vision"]) == ["joe", "susan"]
    assert "nlp" not in running.people.groups


async def test_a_deleted_project_takes_the_group_that_was_made_with_it(running):
    await put(running, {"projects": {"nlp": {}}})
    assert "nlp" in running.people.groups
    view = (await running.as_("admin").get("/pool-file")).json()["file"]
    del view["projects"]["nlp"]
    assert texts(await put(running, view, prune=True)) == ["“nlp” is deleted"]
    assert "nlp" not in running.people.groups


@pytest.mark.parametrize("user", ["susan", "bot"])
async def test_only_administrators_read_and_apply_files(running, user):
    assert (await running.as_(user).get("/pool-file")).status_code == 403
    assert (await put(running, {"projects": {"vision": {"quota": 0}}}, user)).status_code == 403
