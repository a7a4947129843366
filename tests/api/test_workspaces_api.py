"""Workspaces as their people and administrators see and stop them."""

from __future__ import annotations


async def test_a_person_sees_and_stops_her_own_workspaces_only(running):
    running.people.notebooks = {"susan": {"", "big"}, "joe": {""}}
    susan = running.as_("susan")
    items = (await susan.get("/workspaces")).json()["items"]
    assert [(item["user"], item["server"], item["gpus"]) for item in items] == [
        ("susan", "", 0),
        ("susan", "big", 0),
    ]
    assert (items[1]["since"], items[1]["last_activity"]) == (100.0, 200.0)
    assert (await susan.get("/workspaces", params={"everybody": 1})).status_code == 403
    assert (await susan.post("/workspaces/joe/stop")).status_code == 403
    assert (await susan.post("/workspaces/susan/stop", params={"server": "big"})).status_code == 204
    assert running.people.notebooks == {"susan": {""}, "joe": {""}}


async def test_an_administrator_sees_everybodys_workspaces_and_stops_any(running):
    running.people.notebooks = {"susan": {""}, "joe": {""}}
    for user in ("susan", "joe"):
        request = {"user": user, "server": "", "gpus": 0}
        assert (await running.as_("springtide").post("/workspaces", json=request)).status_code == 200
    admin = running.as_("admin")
    assert (await admin.get("/workspaces")).json()["items"] == []
    items = (await admin.get("/workspaces", params={"everybody": 1})).json()["items"]
    assert [item["user"] for item in items] == ["joe", "susan"]
    assert (await admin.post("/workspaces/joe/stop")).status_code == 204
    assert running.people.notebooks["joe"] == set()
