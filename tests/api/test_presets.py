"""Presets through the API: what they fill in, whose they are, and that they give nobody more than is allowed."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hostile.hostile_text import HOSTILE

from springtide.hub_extension.web.caller import Caller
from springtide.scheduler import wire

SMALL = {
    "gpus": 2,
    "time_limit": "2h",
    "priority": "high",
    "tags": ["small"],
    "env": {"A": "preset", "B": "preset"},
}


@pytest.fixture
async def pool(running: Any) -> Any:
    """A service with the project robots in vision, their leads, and a member of robots alone."""
    callers = running.people.callers
    for name, led in (("lead", "vision"), ("robots-lead", "robots")):
        callers[name] = Caller(name, token=name, administers=frozenset({led}))
    callers["robin"] = Caller("robin", token="robin", groups=frozenset({"robots"}))
    inside = wire.ProjectEdit(parent="vision", quota=0)
    await running.pool.engine.create_project("robots", inside, "test", members={})
    running.people.groups["robots"] = ["robin"]
    return running


async def define(pool: Any, user: str = "admin", name: str = "small", **body: Any) -> httpx.Response:
    answer: httpx.Response = await pool.as_(user).put(f"/presets/{name}", json={"options": SMALL, **body})
    return answer


async def sent(pool: Any, user: str = "susan", **body: Any) -> Any:
    """The job of a submission, or the refusal."""
    answer = await pool.as_(user).post("/jobs", json={"argv": ["sleep", "600"], "require": "node", **body})
    return answer.json()


async def spec(pool: Any, job_id: str) -> Any:
    """What the job was submitted with, its variables too."""
    return await pool.pool.engine.reruns.first(job_id)


async def listed(pool: Any, user: str) -> dict[tuple[str | None, str], dict[str, Any]]:
    found = (await pool.as_(user).get("/presets")).json()["items"]
    return {(each["project"], each["name"]): each for each in found}


async def test_a_preset_fills_in_what_is_not_given(pool: Any) -> None:
    made = await define(pool, about="For a first try.")
    assert (made.status_code, made.json()["about"]) == (200, "For a first try.")
    assert made.json()["text"] == "GPUs 2, Priority high, Time limit 2h, Environment A=preset B=preset, Tags small"
    job = await sent(pool, preset="small", env={"B": "own", "C": "own"})
    options = job["options"]
    assert (options["gpus"], options["time_limit"], options["priority"]) == (2, 7200.0, 75)
    assert (options["tags"], options["preset"]) == (["small"], "small")
    assert {"name": "preset", "label": "Preset", "text": "small"} in job["chosen"]
    other = await sent(pool)
    for where, found in (("preset = small", job["id"]), ("not preset", other["id"])):
        answer = await pool.as_("susan").get("/jobs", params={"where": where})
        assert [each["id"] for each in answer.json()["items"]] == [found], where
    assert (await spec(pool, job["id"])).options.env == {"A": "preset", "B": "own", "C": "own"}


async def test_what_the_user_gives_wins_also_if_it_is_the_default(pool: Any) -> None:
    await define(pool)
    other = (await sent(pool, preset="small", gpus=1, priority=60, given=["gpus", "time_limit"]))["options"]
    assert (other["gpus"], other["priority"], other["time_limit"]) == (1, 60, None)


async def test_a_refusal_of_an_option_names_the_preset_and_what_it_has_filled_in(pool: Any) -> None:
    edit = wire.ProjectEdit(ranges=wire.JobRanges(jobs_without_gpus=4))
    await pool.pool.engine.edit_project("vision", edit, "admin", members={})
    await define(pool, name="cpu", options={"gpus": 0, "time_limit": "2h"})
    words = "The preset “cpu” has filled in: GPUs 0, Time limit 2h."
    refused = await sent(pool, preset="cpu")
    assert refused["field"] == "require"
    assert refused["message"] == f"require is “node”, which is about GPUs, and the job asks for none. {words}"
    wish = {"preset": "cpu", "workers": 2, "time_limit": "1h"}
    asked = await pool.as_("susan").post("/forecast", json={"job": wish})
    assert (asked.status_code, asked.json()["field"]) == (422, "workers")
    assert asked.json()["message"].endswith("The preset “cpu” has filled in: GPUs 0.")
    form = await pool.as_("susan").post("/forecast", json={"job": {**wish, "gpus": 0, "time_limit": "2h"}})
    assert form.json()["message"].endswith(words), "a form sends what the preset has filled in"
    first = await sent(pool)
    again = await pool.as_("susan").post(f"/jobs/{first['id']}/rerun", json={"preset": "cpu"})
    assert again.json()["message"].endswith(words)
    own = await sent(pool, preset="cpu", gpus=100, time_limit="3h")
    assert "preset" not in own["message"]


async def test_a_preset_of_a_nearer_project_comes_first_and_others_have_it_not(pool: Any) -> None:
    await define(pool, options={"gpus": 1})
    await define(pool, "lead", options={"gpus": 2}, project="vision")
    await define(pool, "robots-lead", name="tiny", options={"gpus": 1}, project="robots")
    assert (await sent(pool, "susan", project="vision", preset="small"))["options"]["gpus"] == 2
    assert (await sent(pool, "robin", preset="small"))["options"]["gpus"] == 2
    assert (await sent(pool, "robin", preset="tiny"))["options"]["gpus"] == 1
    refused = await sent(pool, "susan", project="vision", preset="tiny")
    assert (refused["status"], refused["code"], refused["field"]) == (422, "unknown_preset", "preset")
    assert refused["message"] == "Jobs of project “vision” have no preset “tiny”."
    assert refused["hint"] == "Presets: small."
    near = await sent(pool, "susan", project="vision", preset="smal")
    assert near["hint"] == "Did you mean “small”?"
    assert set(await listed(pool, "susan")) == {("vision", "small")}
    assert set(await listed(pool, "robin")) == {("vision", "small"), ("robots", "tiny")}
    assert set(await listed(pool, "admin")) == {(None, "small"), ("vision", "small"), ("robots", "tiny")}
    me = (await pool.as_("robin").get("/me")).json()["presets"]
    assert [(each["name"], each["projects"]) for each in me] == [("tiny", ["robots"]), ("small", ["robots"])]


async def test_leads_define_those_of_their_projects_and_only_admins_set_variables(pool: Any) -> None:
    plain = {"gpus": 1}
    for user, project, status in (
        ("susan", "vision", 403),
        ("robots-lead", "vision", 403),
        ("lead", None, 403),
        ("lead", "vision", 200),
        ("lead", "robots", 200),
        ("admin", None, 200),
    ):
        assert (await define(pool, user, options=plain, project=project)).status_code == status, (user, project)
    loud = {**plain, "env": {"LD_PRELOAD": "/home/lead/x.so"}}
    refused = await define(pool, "lead", options=loud, project="vision")
    assert (refused.status_code, refused.json()["field"]) == (403, "options.env")
    assert (await define(pool, "admin", options=loud, project="vision")).status_code == 200
    kept = await define(pool, "lead", options={**loud, "gpus": 2}, project="vision")
    assert (kept.status_code, kept.json()["options"]["gpus"]) == (200, 2)
    for user, query, status in (
        ("lead", {}, 403),
        ("susan", {"project": "vision"}, 403),
        ("lead", {"project": "vision"}, 204),
        ("lead", {"project": "vision"}, 404),
        ("admin", {}, 204),
    ):
        answer = await pool.as_(user).delete("/presets/small", params=query)
        assert answer.status_code == status, (user, query)


async def test_sent_jobs_and_their_runs_again_keep_what_a_changed_or_deleted_preset_gave(pool: Any) -> None:
    await define(pool)
    job = await sent(pool, preset="small")
    await define(pool, options={"gpus": 1})
    susan = pool.as_("susan")
    assert (await susan.get(f"/jobs/{job['id']}")).json()["options"] == job["options"]
    await pool.as_("admin").delete("/presets/small")
    again = (await susan.post(f"/jobs/{job['id']}/rerun", json={"gpus": 1})).json()
    kept = {name: again["options"][name] for name in ("preset", "gpus", "time_limit", "priority")}
    assert kept == {"preset": "small", "gpus": 1, "time_limit": 7200.0, "priority": 75}
    gone = await susan.post(f"/jobs/{job['id']}/rerun", json={"preset": "small"})
    assert (gone.status_code, gone.json()["code"]) == (422, "unknown_preset")


async def test_a_run_again_takes_another_preset_beside_what_is_given(pool: Any) -> None:
    await define(pool, name="long", options={"gpus": 2, "time_limit": "1d", "env": {"A": "preset"}})
    job = await sent(pool, gpus=1, env={"A": "first", "B": "first"}, retries=3)
    again = await pool.as_("susan").post(f"/jobs/{job['id']}/rerun", json={"preset": "long", "gpus": 1})
    options = again.json()["options"]
    assert (options["preset"], options["gpus"], options["time_limit"]) == ("long", 1, 86_400.0)
    assert options["retries"] == 3
    assert (await spec(pool, again.json()["id"])).options.env == {"A": "preset", "B": "first"}


async def test_a_preset_gives_nobody_more_than_they_may_ask_for(pool: Any) -> None:
    edit = wire.ProjectEdit(ranges=wire.JobRanges(max_gpus=1, max_priority=60, max_time_limit=60.0))
    await pool.pool.engine.edit_project("vision", edit, "admin", members={})
    asked: tuple[dict[str, Any], ...] = (
        {"gpus": 2},
        {"priority": 75},
        {"time_limit": "2h"},
        {"gpus": 1_000},
        {"secrets": ["nobody-has-it"]},
        {"datasets": ["nobody-has-it"]},
    )
    for options in asked:
        made = (await define(pool, "lead", options=options, project="vision")).json()
        by_preset = await sent(pool, preset="small", project="vision")
        by_preset["message"] = by_preset["message"].partition(" The preset “small” has filled in: ")[0]
        by_hand = await sent(pool, project="vision", **made["options"])
        assert by_preset == by_hand, options
        assert (by_preset["status"], by_preset["message"] in made["obstacle"]) == (422, True), options
    fits = (await define(pool, "lead", options={"gpus": 1}, project="vision")).json()
    assert fits["obstacle"] == ""


async def test_a_preset_of_the_pool_says_why_no_job_could_use_it(pool: Any) -> None:
    asked: tuple[dict[str, Any], ...] = (
        {"min_workers": 4, "workers": 2},
        {"gpus": 999},
        {"gpu_types": ["v100"]},
        {"gpus": 0, "workers": 3},
        {"datasets": ["nobody-has-it"]},
    )
    for options in asked:
        made = (await define(pool, options=options)).json()
        by_preset = await sent(pool, preset="small", project="vision")
        message = by_preset["message"].partition(" The preset “small” has filled in: ")[0]
        assert message in made["obstacle"], options
    listing = await listed(pool, "admin")
    assert listing[None, "small"]["obstacle"] == made["obstacle"]
    edit = wire.ProjectEdit(ranges=wire.JobRanges(max_gpus=1))
    await pool.pool.engine.edit_project("vision", edit, "admin", members={})
    assert (await define(pool, options={"gpus": 2})).json()["obstacle"] == ""
    assert (await define(pool, options={"gpus": 4, "priority": 100, "preemptible": True})).json()["obstacle"] == ""


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"gpus": "many"}, "gpus"),
    ({"gpus": -1}, "gpus"),
    ({"time_limit": "soon"}, "time_limit"),
    ({"argv": ["rm"]}, "argv"),
    *(({name: "x"}, name) for name in ("project", "name", "preset", "carry", "resume")),
    ({"requirements": ["evil"]}, "requirements"),
    ({"in_place": True}, "in_place"),
    ({"env": {"A": 1}}, "env"),
]


async def test_what_no_preset_may_have_is_refused_by_name(pool: Any) -> None:
    for options, field in WRONG:
        refused = await define(pool, options=options)
        assert (refused.status_code, refused.json()["field"]) == (422, f"options.{field}"), options
    assert await listed(pool, "admin") == {}


async def test_hostile_text_is_no_name_and_breaks_nothing(pool: Any) -> None:
    for text in HOSTILE:
        body = {"options": {"gpus": 1, "image": text[:100]}, "about": text[:100]}
        answer = await pool.as_("admin").put("/presets/plain", json=body)
        assert answer.status_code in {200, 400, 422}, text
        named = await sent(pool, preset=text[:100])
        assert named.get("code") in {"unknown_preset", "invalid", "not_json"}, text
        assert (await pool.as_("susan").get("/me")).status_code == 200, text


async def test_a_pool_has_room_for_a_hundred_presets_of_each_project(pool: Any) -> None:
    for number in range(100):
        assert (await define(pool, name=f"p{number}", options={"gpus": 1})).status_code == 200
    full = await define(pool, options={"gpus": 1})
    assert (full.status_code, full.json()["code"]) == (409, "too_many")
    assert (await define(pool, name="p7", options={"gpus": 2})).status_code == 200
    assert (await define(pool, project="vision")).status_code == 200


async def trail(pool: Any, number: int, user: str = "admin", **query: str) -> list[dict[str, Any]]:
    answer = await pool.as_(user).get("/audit", params={"limit": number, **query})
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def test_changes_are_in_the_audit_trail_and_can_be_taken_back(pool: Any) -> None:
    admin = pool.as_("admin")
    await define(pool, "lead", options={"gpus": 1}, project="vision")
    await define(pool, "lead", options={"gpus": 2}, project="vision")
    await define(pool, "lead", options={"gpus": 2}, project="vision")
    changed, made = await trail(pool, 2, "lead", project="vision")
    assert (made["what"], made["subject"], made["before"]) == ("preset.set", "small", {})
    assert (changed["before"]["options"], changed["after"]["options"]) == ({"gpus": 1}, {"gpus": 2})
    assert (await admin.post(f"/audit/{made['id']}/undo")).json()["code"] == "changed"
    assert (await admin.post(f"/audit/{changed['id']}/undo")).status_code == 204
    assert (await listed(pool, "admin"))["vision", "small"]["options"] == {"gpus": 1}
    await pool.as_("lead").delete("/presets/small", params={"project": "vision"})
    deleted = (await trail(pool, 1))[0]
    assert deleted["what"] == "preset.delete"
    assert (await admin.post(f"/audit/{deleted['id']}/undo")).status_code == 204
    assert (await listed(pool, "admin"))["vision", "small"]["options"] == {"gpus": 1}
    assert (await trail(pool, 1))[0]["what"] == "undo.preset.delete"


async def test_a_deleted_project_takes_its_presets_along_and_back(pool: Any) -> None:
    await define(pool, options={"gpus": 1}, project="robots")
    admin = pool.as_("admin")
    assert (await admin.delete("/projects/robots")).status_code == 204
    assert await listed(pool, "admin") == {}
    gone = (await trail(pool, 1))[0]
    assert (await admin.post(f"/audit/{gone['id']}/undo")).status_code == 204
    assert (await listed(pool, "admin"))["robots", "small"]["options"] == {"gpus": 1}


async def test_forecasts_and_advice_are_about_the_job_that_the_preset_makes(pool: Any) -> None:
    await define(pool, options={"gpus": 1_000}, project="vision")
    susan = pool.as_("susan")

    async def answers(**own: Any) -> list[httpx.Response]:
        job = {"preset": "small", "project": "vision", **own}
        forecast = {"job": job, "starts": []}
        return [await susan.post("/forecast", json=forecast), await susan.post("/advice", json=job)]

    for refused in await answers():
        assert (refused.status_code, refused.json()["field"]) == (422, "gpus")
    for given in await answers(gpus=2):
        assert given.status_code == 200
