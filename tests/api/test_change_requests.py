"""Requests for changes through the API: who may ask, see, decide and withdraw, and what comes of it."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest
from hostile.hostile_text import HOSTILE, MARKUP

from springtide.hub_extension.api.hub_configuration import HubConfiguration
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler import wire

QUOTA = {"kind": "project", "project": "robots", "edit": {"quota": 1}}
JOIN = {"kind": "membership", "project": "vision"}
OWN = {"kind": "build", "edit": {"build_quota": 2}}


@pytest.fixture
async def pool(running: Any) -> Any:
    """A service with the project robots in vision, their leads, and a member of robots."""
    callers = running.people.callers
    for name, led in (("lead", "vision"), ("robots-lead", "robots")):
        callers[name] = Caller(name, token=name, administers=frozenset({led}))
    callers["robin"] = Caller("robin", token="robin", groups=frozenset({"robots"}))
    inside = wire.ProjectEdit(parent="vision", quota=0)
    await running.pool.engine.create_project("robots", inside, "test", members={})
    running.people.groups["robots"] = ["robin"]
    return running


async def asked(pool: Any, user: str, wanted: Any, why: str = "a deadline") -> Any:
    made = await pool.as_(user).post("/requests", json={"wanted": wanted, "why": why})
    assert made.status_code == 201, made.text
    return made.json()


async def seen(pool: Any, user: str) -> dict[int, dict[str, Any]]:
    found = (await pool.as_(user).get("/requests")).json()["items"]
    return {each["number"]: each for each in found}


async def decide(pool: Any, user: str, number: int, what: str = "approve", **body: Any) -> httpx.Response:
    answer: httpx.Response = await pool.as_(user).post(f"/requests/{number}/{what}", json=body)
    return answer


async def test_a_quota_is_granted_by_who_may_change_it_and_by_nobody_else(pool: Any) -> None:
    number = (await asked(pool, "robin", QUOTA))["number"]
    assert not (await seen(pool, "robin"))[number]["may_decide"]
    assert number not in await seen(pool, "joe")
    assert [number in await seen(pool, each) for each in ("lead", "robots-lead", "admin")] == [True, False, True]
    for user, status in (("robin", 403), ("joe", 403), ("robots-lead", 404)):
        assert (await decide(pool, user, number)).status_code == status, user
        assert (await decide(pool, user, number, "refuse", why="no")).status_code == status, user
    done = await decide(pool, "lead", number)
    assert (done.status_code, done.json()["state"], done.json()["by"]) == (200, "approved", "lead")
    projects = (await pool.as_("joe").get("/pool")).json()["projects"]
    assert next(each["quota"] for each in projects if each["name"] == "robots") == 1
    trail = (await pool.as_("admin").get("/audit?limit=3")).json()["items"]
    assert [(each["who"], each["what"]) for each in trail] == [
        ("lead", "request.approve"),
        ("lead", "project.change"),
        ("robin", "request.make"),
    ]
    again = await decide(pool, "admin", number)
    assert (again.status_code, again.json()["code"]) == (409, "decided")


async def test_a_lead_grants_no_more_than_the_change_itself_allows(pool: Any) -> None:
    wanted = {"kind": "project", "project": "robots", "edit": {"build_quota": 9}}
    number = (await asked(pool, "robin", wanted))["number"]
    refused = await decide(pool, "lead", number)
    assert (refused.status_code, refused.json()["field"]) == (403, "build_quota")
    moved = {"kind": "project", "project": "robots", "edit": {"parent": None, "build_quota": 0}}
    assert (await decide(pool, "lead", number, granted=moved)).status_code == 403
    assert (await seen(pool, "robin"))[number]["state"] == "pending"


async def test_a_membership_is_made_in_the_hub_and_stays_pending_while_the_hub_refuses(pool: Any) -> None:
    number = (await asked(pool, "robin", JOIN, "I join the team."))["number"]
    pool.people.hub_refuses = True
    assert (await decide(pool, "lead", number)).status_code == 403
    assert (await seen(pool, "lead"))[number]["state"] == "pending"
    pool.people.hub_refuses = False
    assert (await decide(pool, "lead", number)).json()["state"] == "approved"
    assert "robin" in pool.people.groups["vision"]
    kinds = [each["what"] for each in (await pool.as_("admin").get("/audit?limit=2")).json()["items"]]
    assert kinds == ["request.approve", "member.add"]


async def test_build_gpus_of_ones_own_are_for_administrators_of_the_pool(pool: Any) -> None:
    until = time.time() + 3600
    wanted = {"kind": "build", "edit": {"build_quota": 0, "until": until}}
    number = (await asked(pool, "susan", wanted))["number"]
    assert number not in await seen(pool, "lead")
    assert (await decide(pool, "lead", number)).status_code == 404
    assert (await decide(pool, "admin", number)).json()["state"] == "approved"
    people = (await pool.as_("admin").get("/admin")).json()["people"]
    susan = next(each for each in people if each["name"] == "susan")
    assert (susan["own_build_quota"], susan["ending"]["until"]) == (0, until)


async def test_only_members_ask_for_a_project_and_only_owners_for_a_job(pool: Any) -> None:
    refused = await pool.as_("jemma").post("/requests", json={"wanted": QUOTA, "why": "x"})
    assert (refused.status_code, "request join robots" in refused.json()["hint"]) == (403, True)
    job = (await pool.submit("susan"))["id"]
    wanted = {"kind": "job", "job": job, "edit": {"priority": 99}}
    assert (await pool.as_("robin").post("/requests", json={"wanted": wanted, "why": "x"})).status_code == 404
    service = await pool.as_("bot").post("/requests", json={"wanted": OWN, "why": "x"})
    assert (service.status_code, service.json()["message"]) == (403, "Only people have requests.")
    assert (await pool.as_(None).get("/requests")).status_code == 401


async def test_a_request_is_withdrawn_by_its_person_alone(pool: Any) -> None:
    number = (await asked(pool, "robin", QUOTA))["number"]
    for user in ("joe", "admin", "lead"):
        assert (await pool.as_(user).delete(f"/requests/{number}")).status_code == 404, user
    assert (await pool.as_("robin").delete(f"/requests/{number}")).status_code == 204
    assert (await seen(pool, "robin"))[number]["state"] == "withdrawn"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "wanted.kind is missing; expected one of project, build, membership, job."),
        (
            {"kind": "everything"},
            "wanted.kind is “everything”; expected one of project, build, membership, job.",
        ),
        (
            {"kind": "project", "project": "robots"},
            "wanted.edit is missing; expected an object with parent, quota, ",
        ),
        ({"kind": "job", "edit": {}}, "wanted.job is missing; expected text of 1 to "),
        ({"kind": "project", "project": "robots", "edit": {"quota": -1}}, "wanted.edit.quota is -1; expected "),
        ({"kind": "project", "project": "a/b", "edit": {"quota": 1}}, "wanted.project is “a/b”; expected text "),
        ({"kind": "build", "edit": {"build_quota": 1.5}}, "wanted.edit.build_quota is 1.5; expected a whole "),
        ({"kind": "membership", "project": "vision", "user": "joe"}, "There is no field “user” in wanted."),
        ({"kind": "job", "job": "x" * 200, "edit": {"priority": 9}}, "wanted.job has 200 characters"),
        ({"kind": "job", "job": "x", "edit": {"workers": []}}, "wanted.edit.workers is a list of 0; expected "),
        ([], "wanted is a list of 0; expected "),
        (None, "wanted is null; expected "),
    ],
)
async def test_a_wrong_shape_is_refused_in_words(pool: Any, wanted: Any, message: str) -> None:
    refused = await pool.as_("robin").post("/requests", json={"wanted": wanted, "why": "x"})
    assert (refused.status_code, refused.json()["message"][: len(message)]) == (422, message)


async def test_a_hostile_reason_is_refused_and_markup_is_text(pool: Any) -> None:
    refused = await pool.as_("robin").post("/requests", json={"wanted": QUOTA, "why": HOSTILE})
    assert (refused.status_code, refused.json()["field"]) == (422, "why")
    made = await asked(pool, "robin", QUOTA, MARKUP)
    assert (await decide(pool, "admin", made["number"], "refuse", why=HOSTILE)).status_code == 422
    assert (await seen(pool, "admin"))[made["number"]]["why"] == MARKUP


async def test_a_membership_that_the_authenticator_decides_about_says_so_at_once(start: Any) -> None:
    running = await start(hub=HubConfiguration(managed_groups=True))
    made = await asked(running, "jemma", JOIN)
    assert made["obstacle"].startswith("The hub's authenticator decides who is in which group:")
    assert made["obstacle"].endswith("Change the group where people log in.")
    refused = await decide(running, "admin", made["number"])
    assert refused.status_code == 409
    assert "The hub's authenticator decides" in refused.text
    await decide(running, "admin", made["number"], "refuse", why="no")
    assert (await seen(running, "jemma"))[made["number"]]["obstacle"] == ""
