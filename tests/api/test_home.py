"""The home page of administrators through the API: its numbers, what needs them, and who may see it."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.hub_extension.web.caller import Caller
from springtide.scheduler import wire


async def drained(running: Any) -> None:
    """A GPU that was drained longer than a day ago."""
    engine = running.pool.engine
    node = next(node.name for node in engine.pool().nodes if node.environment == "train")
    await engine.drain_node(wire.DrainRequest(node=node, gpu=0, why="a fan"), "admin")
    state = engine.state
    (uuid, record), *_ = state.gpu_drains.items()
    await engine.needs._request(
        lambda change: change.gpu_drains.put(type(record)(uuid, record.by, record.since - 90_000.0, record.why))
    )


@pytest.mark.parametrize("path", ["/home", "/needs"])
async def test_only_administrators_of_the_pool_see_it(running: Any, path: str) -> None:
    running.people.callers["lead"] = Caller("lead", administers=frozenset({"vision"}), token="lead")
    assert (await running.as_("admin").get(path)).status_code == 200
    for name in ("susan", "lead"):
        refused = await running.as_(name).get(path)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await running.as_(None).get(path)).status_code == 401


@pytest.mark.parametrize(
    ("path", "body"),
    [("needs/leave", {"id": "x"}), ("needs/show", {"id": "x"}), ("needs/tell", {"id": "x"}), ("quotas/fit", {})],
)
async def test_only_administrators_of_the_pool_act_on_it(running: Any, path: str, body: dict[str, str]) -> None:
    assert (await running.as_("susan").post(f"/{path}", json=body)).status_code == 403
    assert (await running.as_("admin").post(f"/{path}", json=body)).status_code in {404, 409}


async def test_the_numbers_have_thirty_days_and_those_of_now(running: Any) -> None:
    job = await running.submit("susan", name="digits")
    await running.until("susan", job["id"], lambda job: job["state"] == "running")
    home = (await running.as_("admin").get("/home")).json()
    numbers = home["numbers"][""]
    assert (len(home["days"]), len(numbers["held"]["days"])) == (30, 30)
    assert (numbers["held"]["now"], numbers["people"]["now"]) == (1.0, 1.0)
    assert numbers["held"]["days"][-1] is not None
    assert numbers["wait_p50"]["now"] >= 0
    by_name = {project["name"]: project for project in home["projects"]}
    assert len(by_name["vision"]["trend"]) == 28
    assert by_name["vision"]["longest_wait"] is None
    assert home["calendar"] == []


async def test_an_entry_is_left_shown_again_and_goes_when_it_is_done(running: Any) -> None:
    await drained(running)
    admin = running.as_("admin")
    (need,) = (await admin.get("/needs")).json()["items"]
    assert (need["kind"], need["problem"]) == ("drain", False)
    left = (await admin.post("/needs/leave", json={"id": need["id"], "days": 2})).json()
    assert (left["items"], [each["left_by"] for each in left["left"]]) == ([], ["admin"])
    shown = (await admin.post("/needs/show", json={"id": need["id"]})).json()
    assert len(shown["items"]) == 1
    (call,) = need["actions"][0]["calls"]
    assert (await admin.request(call["method"], f"/{call['path']}", json=call["body"])).status_code == 200
    assert (await admin.get("/needs")).json() == {"items": [], "left": []}


async def test_what_ends_within_a_week_is_in_the_calendar(running: Any) -> None:
    engine, until = running.pool.engine, running.pool.clock() + 86_400.0
    await engine.freeze("vision", wire.FreezeRequest(until=until), "admin", members={})
    await engine.edit_project("speech", wire.ProjectEdit(quota=0, until=until + 1), "admin", members={})
    await engine.drain_node(wire.DrainRequest(node="train", until=until + 30 * 86_400.0), "admin")
    calendar = (await running.as_("admin").get("/home")).json()["calendar"]
    assert [(entry["kind"], entry["said"]) for entry in calendar] == [
        ("freeze", "The freeze of “vision” ends."),
        ("change", "The quota of “speech” returns to 2."),
    ]


async def test_the_spawner_sees_what_needs_administrators_for_doctor(running: Any) -> None:
    running.people.callers["hub"] = Caller("hub", service=True, spawner=True, token="hub")
    assert (await running.as_("hub").get("/needs")).status_code == 200
    assert (await running.as_("hub").get("/home")).status_code == 403
