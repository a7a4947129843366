"""The past through the API: as a scenario, and what would have been; each caller sees and asks what she may."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from springtide.hub_extension.web.caller import Caller

WHAT_IF = "/history/what-if"


async def ran(running: Any) -> None:
    """Two jobs that have held GPUs, of susan's in vision, which the lead leads, and of jemma's in speech."""
    running.people.callers["lead"] = Caller("lead", token="lead", administers=frozenset({"vision"}))
    for name in ("susan", "jemma"):
        job = await running.submit(name, name=f"{name}s job")
        await running.until(name, job["id"], lambda job: job["state"] == "running")


async def asked(running: Any, name: str, **changes: Any) -> Any:
    now = running.pool.clock()
    question = {"start": now - 60, "end": now, "changes": changes}
    return await running.as_(name).post(WHAT_IF, json=question)


async def answered(running: Any, name: str, run: dict[str, Any]) -> dict[str, Any]:
    """Return a calculation of a person once it has ended."""
    while run["state"] in {"waiting", "running"}:
        await asyncio.sleep(0.1)
        run = (await running.as_(name).get(f"{WHAT_IF}/{run['id']}")).json()
    return run


async def test_an_admin_exports_the_past_with_all_names(running: Any) -> None:
    await ran(running)
    answer = await running.as_("admin").get("/history/scenario")
    assert answer.status_code == 200, answer.text
    found = json.loads(answer.content)
    jobs = {(job["project"], job["user"], job["name"].rpartition("-")[0]) for job in found["jobs"]}
    assert jobs == {("vision", "susan", "susans job"), ("speech", "jemma", "jemmas job")}
    assert {project["name"] for project in found["projects"]} >= {"vision", "speech"}
    assert found["notes"]


async def test_a_lead_gets_others_without_names_and_a_member_nothing(running: Any) -> None:
    await ran(running)
    found = (await running.as_("lead").get("/history/scenario")).text
    assert "susans job" in found
    assert "jemma" not in found
    assert "speech" not in found
    assert len(json.loads(found)["jobs"]) == 2
    anonymous = (await running.as_("admin").get("/history/scenario", params={"anonymous": "true"})).text
    assert not any(name in anonymous for name in ("susan", "jemma", "vision", "speech"))
    for name in ("joe", None):
        assert (await running.as_(name).get("/history/scenario")).status_code == (403 if name else 401)


async def test_a_time_without_jobs_is_refused_with_a_hint(running: Any) -> None:
    answer = await running.as_("admin").get("/history/scenario")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_history")
    assert answer.json()["hint"]


async def test_an_admin_asks_about_nodes_and_gets_both_pools(running: Any) -> None:
    await ran(running)
    there = (await running.as_("admin").get(WHAT_IF)).json()
    assert there["whole"]
    (gpu_type,) = there["nodes"]
    run = (await asked(running, "admin", nodes={gpu_type: {"count": 2}}, quota={"vision": 1})).json()
    run = await answered(running, "admin", run)
    assert (run["state"], run["why"]) == ("done", "")
    found = run["comparison"]
    assert found["simulated"]
    assert found["headline"].endswith(".")
    assert set(found["unchanged"]["projects"]) >= {"vision", "speech"}
    assert found["unchanged"]["total"]["jobs"] == found["changed"]["total"]["jobs"] == 2
    was = found["recorded"]["total"]
    assert (was["jobs"], was["finished"], set(found["recorded"]["projects"])) == (
        2,
        0,
        set(found["unchanged"]["projects"]),
    )
    assert was["utilization"] > 0
    before, after = (found[name]["total"]["utilization"] for name in ("unchanged", "changed"))
    assert 0 < after < before, "the same jobs on more GPUs"


async def test_the_same_question_is_answered_at_once(running: Any) -> None:
    await ran(running)
    now = running.pool.clock()
    question = {"start": now - 60, "end": now, "changes": {"order": "first-come"}}
    first = await running.as_("admin").post(WHAT_IF, json=question)
    assert first.status_code == 202
    await answered(running, "admin", first.json())
    again = await running.as_("admin").post(WHAT_IF, json=question)
    assert (again.status_code, again.json()["state"]) == (200, "done")


async def test_a_lead_asks_about_her_quotas_and_sees_others_only_together(running: Any) -> None:
    await ran(running)
    there = (await running.as_("lead").get(WHAT_IF)).json()
    assert (there["whole"], list(there["quota"])) == (False, ["vision"])
    run = await answered(running, "lead", (await asked(running, "lead", quota={"vision": 3})).json())
    assert run["state"] == "done", run["why"]
    for found in (run["comparison"][name] for name in ("recorded", "unchanged", "changed")):
        assert list(found["projects"]) == ["vision"]
        assert found["others"]["jobs"] == 1
    assert "speech" not in json.dumps(run)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"nodes": {"any": {"count": 1}}}, "nodes"),
        ({"order": "first-come"}, "order"),
        ({"min_runtime": 0}, "min_runtime"),
        ({"quota": {"speech": 2}}, "quota"),
        ({"limit": {"speech": None}}, "limit"),
    ],
)
async def test_a_lead_may_not_ask_about_the_pool_or_other_projects(
    running: Any, changes: dict[str, Any], field: str
) -> None:
    await ran(running)
    answer = await asked(running, "lead", **changes)
    assert (answer.status_code, answer.json()["field"]) == (403, field)


async def test_members_may_not_ask(running: Any) -> None:
    await ran(running)
    assert (await asked(running, "joe", quota={"vision": 3})).status_code == 403
    assert (await running.as_("joe").get(WHAT_IF)).status_code == 403


async def test_what_the_pool_cannot_have_is_said_in_a_sentence(running: Any) -> None:
    await ran(running)
    run = await answered(running, "admin", (await asked(running, "admin", nodes={"h100": {"count": 1}})).json())
    assert (run["state"], run["comparison"]) == ("failed", None)
    assert "say how many GPUs each has" in run["why"]
    run = await answered(running, "admin", (await asked(running, "admin", quota={"nobody": 1})).json())
    assert "“nobody”" in run["why"]


async def test_a_calculation_is_its_callers_and_ends_when_cancelled_or_followed(running: Any) -> None:
    await ran(running)
    first = (await asked(running, "admin", order="first-come")).json()
    assert (await running.as_("lead").get(f"{WHAT_IF}/{first['id']}")).status_code == 404
    assert (await running.as_("lead").delete(f"{WHAT_IF}/{first['id']}")).status_code == 404
    second = (await asked(running, "admin", min_runtime=5)).json()
    assert (await running.as_("admin").get(f"{WHAT_IF}/{first['id']}")).status_code == 404
    ended = (await running.as_("admin").delete(f"{WHAT_IF}/{second['id']}")).json()
    assert ended["state"] in {"cancelled", "done"}


async def test_of_a_time_without_jobs_nothing_is_calculated(running: Any) -> None:
    begun = await asked(running, "admin", order="first-come")
    assert (begun.status_code, begun.json()["state"]) == (202, "waiting")
    run = await answered(running, "admin", begun.json())
    assert (run["state"], run["comparison"]) == ("failed", None)
    assert run["why"].startswith("No job with GPUs waited or ran in this time. Ask for another time;")


async def test_a_span_that_ends_before_it_starts_is_refused(running: Any) -> None:
    answer = await running.as_("admin").post(WHAT_IF, json={"start": 100.0, "end": 50.0})
    assert (answer.status_code, answer.json()["field"]) == (422, "start")
