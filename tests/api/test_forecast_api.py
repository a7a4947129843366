"""Expected starts and what-if questions over HTTP: permissions and refusals."""

from __future__ import annotations

import asyncio

import pytest

from springtide.hub_extension.api.forecasts import LARGEST
from springtide.hub_extension.api.limits import Buckets


async def fill_the_pool(running):
    """Susan holds all four train GPUs for at most ten minutes."""
    job = await running.submit("susan", gpus=4, time_limit=600, rotate=False, name="secret")
    await running.until("susan", job["id"], lambda found: found["state"] == "running")
    return job


async def ask(running, name, **question: object):
    return await running.as_(name).post("/forecast", json=question)


async def test_a_waiting_job_tells_when_it_is_expected_to_start(running):
    await fill_the_pool(running)
    waiting = await running.submit("jemma", gpus=4)

    found = await running.until("jemma", waiting["id"], lambda job: job["starts"] and job["starts"]["likely"])

    starts = found["starts"]
    assert starts["earliest"] <= starts["likely"] <= starts["latest"] <= starts["at"] + 601
    assert starts["why"] is None


async def test_a_list_tells_it_too_and_running_jobs_have_none(running):
    first = await fill_the_pool(running)
    waiting = await running.submit("jemma", gpus=4)
    await running.until("jemma", waiting["id"], lambda job: job["starts"] and job["starts"]["likely"])

    listed = {job["id"]: job for job in (await running.as_("admin").get("/jobs")).json()["items"]}

    assert listed[waiting["id"]]["starts"]["likely"]
    assert listed[first["id"]]["starts"] is None


async def test_a_job_can_be_asked_about_before_it_is_submitted(running):
    told = (await ask(running, "jemma", job={"gpus": 2})).json()

    assert told["job"]["likely"] == pytest.approx(told["at"], abs=1)
    assert told["projects"]["speech"]["held"] == 2
    assert (await running.as_("admin").get("/jobs")).json()["items"] == []


async def test_advice_is_asked_for_by_what_would_be_submitted(running):
    asked = await running.as_("jemma").post("/advice", json={"name": "train", "gpus": 2})
    assert asked.json() == {"reasons": [], "text": "", "placements": []}
    foreign = await running.as_("jemma").post("/advice", json={"name": "train", "project": "vision"})
    assert foreign.status_code == 403
    large = await running.as_("jemma").post("/advice", json={"name": "train", "gpus": 100})
    assert (large.status_code, large.json()["field"]) == (422, "gpus")


async def test_it_is_told_what_would_be_paused_but_not_what_others_call_it(running):
    first = await fill_the_pool(running)

    told = (await ask(running, "jemma", job={"gpus": 2})).json()
    whole = (await ask(running, "admin", job={"gpus": 2, "project": "speech"})).json()

    paused = next(shift for shift in told["shifts"] if shift["kind"] == "paused")
    assert (paused["user"], paused["project"], paused["job"], paused["name"]) == ("susan", "vision", "", "")
    assert "secret" not in str(told)
    assert first["id"] not in str(told)
    assert next(shift["job"] for shift in whole["shifts"] if shift["kind"] == "paused") == first["id"]


async def test_jobs_of_others_are_neither_listed_nor_told_of(running):
    await fill_the_pool(running)
    waiting = await running.submit("susan", gpus=4)

    listed = (await ask(running, "jemma")).json()
    asked = await ask(running, "jemma", starts=[waiting["id"]])
    own = (await ask(running, "joe", starts=[waiting["id"]])).json()

    assert listed["starts"] == {}
    assert (asked.status_code, asked.json()["code"]) == (404, "not_found")
    assert list(own["starts"]) == [waiting["id"]]


async def test_only_ones_own_projects_can_be_asked_for(running):
    refused = await ask(running, "jemma", job={"project": "vision"})
    assert (refused.status_code, refused.json()["field"]) == (403, "project")


@pytest.mark.parametrize("question", [{"projects": {"speech": {"quota": 1}}}, {"nodes": {"new": {"gpus": 8}}}])
async def test_other_quotas_and_nodes_are_for_administrators(running, question):
    refused = await ask(running, "jemma", **question)
    assert refused.status_code == 403
    assert refused.json()["field"] == next(iter(question))
    assert (await ask(running, "admin", **question)).status_code == 200


async def test_an_administrator_sees_what_another_quota_would_do(running):
    await fill_the_pool(running)
    waiting = await running.submit("jemma", gpus=4)
    quotas = {"vision": {"quota": 0}, "speech": {"quota": 4}}

    told = (await ask(running, "admin", projects=quotas, starts=[waiting["id"]])).json()

    assert told["projects"]["speech"] == {
        "quota": 4, "limit": None, "fair_share": 4, "held": 4, "borrowed": 0, "waiting": 0, "by_type": {},
    }  # fmt: skip
    assert told["projects"]["vision"]["held"] == 0
    assert [project["quota"] for project in (await running.as_("admin").get("/admin")).json()["projects"]] == [
        2,
        2,
    ]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"job": {"gpus": -1}}, "job"),
        ({"job": {"gpus": 1.5}}, "job"),
        ({"job": {"gpus": True}}, "job"),
        ({"job": {"gpus": 5, "project": "vision"}}, "gpus"),
        ({"job": {"argv": ["rm"]}}, "job"),
        ({"job": {"time_limit": -1}}, "job"),
        ({"job": {"require": "\u0000", "project": "vision"}}, "require"),
        ({"job": []}, "job"),
        ({"unknown": 1}, "unknown"),
        ({"starts": ["x"] * 101}, "starts"),
        ({"starts": [""]}, "starts"),
        ({"starts": [{"a": 1}]}, "starts"),
        ({"projects": {"a/b": {}}}, "projects"),
        ({"projects": {"vision": {"weight": -1}}}, "projects"),
        ({"projects": {"vision": {"parent": "vision"}}}, "projects"),
        ({"projects": {"vision": {"quota": 40}}}, "projects"),
        ({"projects": {f"p{number}": {} for number in range(201)}}, "projects"),
        ({"nodes": {"n": {"gpus": 65}}}, "nodes"),
        ({"nodes": {"n": {"gpus": -1}}}, "nodes"),
        ({"nodes": {"n": {"gpus": 1, "labels": {"a": 1}}}}, "nodes"),
        ({"nodes": {"nobody": {"gpus": 0}}}, "nodes"),
        ({"nodes": {"\u202en": {"gpus": 1}}}, "nodes"),
    ],
)
async def test_what_cannot_be_meant_is_refused_naming_the_field(shared, question, field):
    refused = await ask(shared, "admin", **{"job": None, **question})
    assert refused.status_code in {409, 422}, refused.text
    problem = refused.json()
    assert problem["field"] == field
    assert problem["message"].endswith(".")


async def test_a_large_question_is_refused_before_it_is_read(running):
    refused = await ask(running, "jemma", starts=["x" * 60] * (LARGEST // 60))
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")


async def test_nobody_asks_faster_than_the_pool_answers(running):
    object.__setattr__(running.pool, "forecasts", Buckets(0.01, 2, asyncio.get_running_loop().time))
    answers = [(await ask(running, "jemma", job={})).status_code for _ in range(3)]
    assert answers == [200, 200, 429]
    assert (await ask(running, "joe", job={})).status_code == 200


async def test_nobody_unknown_gets_an_answer(running):
    assert (await ask(running, None, job={})).status_code == 401


async def test_administrators_are_told_how_true_forecasts_were(running):
    first = await fill_the_pool(running)
    waiting = await running.submit("jemma", gpus=4)
    await running.until("jemma", waiting["id"], lambda job: job["starts"] and job["starts"]["likely"])
    await running.as_("susan").post(f"/jobs/{first['id']}/cancel")
    await running.until("jemma", waiting["id"], lambda job: job["state"] == "running")

    told = (await running.as_("admin").get("/forecasts/accuracy")).json()

    assert told["forecasts"] >= 1
    assert told["inside"] + told["early"] + told["late"] == told["forecasts"]
    assert (await running.as_("jemma").get("/forecasts/accuracy")).status_code == 403
