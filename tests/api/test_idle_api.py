"""Idle workspaces through the API: a report of a notebook server is what everything follows from."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from springtide.scheduler.refusal import Refusal

QUICK = {"tell_after": 0.001, "notice": 0.001}
IDLE = {"server": "", "busy": False, "idle": 1e6}


@pytest.fixture
async def pool(running: Any) -> Any:
    """The service, in which jemma has a notebook server with a GPU and joe one without."""
    running.people.notebooks = {"jemma": {""}, "joe": {""}}
    for user, gpus in (("jemma", 1), ("joe", 0)):
        asked = {"user": user, "server": "", "gpus": gpus}
        assert (await running.as_("springtide").post("/workspaces", json=asked)).status_code == 200
    return running


async def set_rule(pool: Any, rule: dict[str, float] | None, **whose: str) -> httpx.Response:
    return await pool.as_("admin").patch("/idle-rules", json={"rule": rule, **whose})


async def report(pool: Any, user: str = "jemma", **fields: object) -> float:
    answer = await pool.as_(user).post("/workspace-activity", json={**IDLE, **fields})
    assert answer.status_code == 200, answer.text
    return float(answer.json()["seconds"])


async def idle(pool: Any) -> dict[str, Any]:
    [item] = (await pool.as_("jemma").get("/workspaces")).json()["items"]
    return dict(item["idle"])


async def test_a_report_tells_the_owner_and_the_next_one_stops_the_workspace(pool: Any) -> None:
    assert (await idle(pool))["known"] is False
    assert await report(pool) == 60.0, "without a rule reports are rare"
    assert (await set_rule(pool, QUICK)).status_code == 200
    assert await report(pool) == 1.0
    assert (await idle(pool))["told"] is True
    await report(pool)
    assert pool.people.notebooks["jemma"] == set()
    assert pool.people.notebooks["joe"] == {""}


async def test_a_busy_or_a_used_workspace_is_not_stopped_and_keep_postpones(pool: Any) -> None:
    await set_rule(pool, QUICK)
    await report(pool)
    await report(pool, busy=True)
    assert (await idle(pool))["told"] is False
    await report(pool)
    await set_rule(pool, {"tell_after": 3_600.0, "notice": 60.0})
    assert (await pool.as_("joe").post("/workspaces/jemma/keep")).status_code == 403
    assert (await pool.as_("jemma").post("/workspaces/jemma/keep")).status_code == 204
    assert await report(pool) == 60.0
    assert pool.people.notebooks["jemma"] == {""}
    assert (await pool.as_("joe").post("/workspaces/joe/keep")).status_code == 404


async def test_activity_that_only_the_hub_knows_of_counts(pool: Any) -> None:
    pool.people.last_activity = pool.pool.clock() + 60
    await set_rule(pool, QUICK)
    await report(pool)
    assert (await idle(pool))["told"] is False
    pool.people.last_activity = 200.0
    assert pool.people.notebooks["jemma"] == {""}


async def test_a_hub_that_does_not_stop_the_workspace_is_asked_again(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise Refusal(403, "hub_refused", "The hub does not let this token stop the workspace.")

    await set_rule(pool, QUICK)
    await report(pool)
    with monkeypatch.context() as patched:
        patched.setattr(pool.people, "stop_server", refuse)
        await report(pool)
        assert pool.people.notebooks["jemma"] == {""}
    await report(pool)
    assert pool.people.notebooks["jemma"] == set()


async def test_only_administrators_see_and_set_rules_and_only_possible_ones(pool: Any) -> None:
    jemma = pool.as_("jemma")
    assert (await jemma.get("/idle-rules")).status_code == 403
    assert (await jemma.patch("/idle-rules", json={"rule": QUICK})).status_code == 403
    assert (await set_rule(pool, QUICK, scope="person", name="jemma")).json()["exceptions"] == [
        {"scope": "person", "name": "jemma", "rule": QUICK, "configured": False, "until": None}
    ]
    assert (await set_rule(pool, QUICK, scope="person")).json()["field"] == "name"
    assert (await set_rule(pool, QUICK, name="jemma")).status_code == 422
    assert (await set_rule(pool, QUICK, scope="project", name="nobody")).status_code == 404
    assert (await set_rule(pool, {"tell_after": 0.0})).status_code == 422
    assert (await set_rule(pool, None, scope="person", name="jemma")).json()["exceptions"] == []


async def test_services_report_no_use(pool: Any) -> None:
    assert (await pool.as_("bot").post("/workspace-activity", json=IDLE)).status_code == 403
